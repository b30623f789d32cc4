// All streams of the account: find, sort, page.

import { get } from "./api.js";
import { h } from "./dom.js";
import { longList } from "./list.js";
import { howToBegin, streamColumns } from "./parts.js";

const SORTS = [["name", "Name"], ["in_rate", "Messages per second"], ["messages", "Messages"], ["bytes", "Size"], ["lag", "Most lag"], ["consumers", "Consumers"]];

export async function streams(main) {
  const list = longList({
    sorts: SORTS, load: (query) => get(["streams"], query), columns: streamColumns(), key: (row) => row.name, what: "stream",
    none: howToBegin,
  });
  main.replaceChildren(h("div.head", {}, h("div.grow", {}, h("h1", {}, "Streams"))), list.node);
  return list.refresh;
}
