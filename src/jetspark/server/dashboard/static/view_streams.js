// All streams of the account: find, sort, page.

import { get } from "./api.js";
import { debounce, early, h, render } from "./dom.js";
import * as f from "./format.js";
import { card, empty, streamColumns, table } from "./parts.js";

const SORTS = [["name", "Name"], ["in_rate", "Messages per second"], ["messages", "Messages"], ["bytes", "Size"], ["lag", "Most lag"], ["consumers", "Consumers"]];
const PAGE = 200;

export async function streams(main) {
  let offset = 0;
  const search = h("input", { type: "search", placeholder: "Find by name or subject", "aria-label": "Find streams", id: "search" });
  const sort = h("select", { "aria-label": "Sort by" }, SORTS.map(([value, words]) => h("option", { value }, words)));
  const list = h("div");
  main.replaceChildren(h("div.head", {}, h("div.grow", {}, h("h1", {}, "Streams"))), h("div.controls", {}, search, sort), list);
  let newest = 0;
  const refresh = async () => {
    // Answers may overtake each other: only the newest question's is shown.
    const turn = ++newest;
    const found = await get(["streams"], { filter: search.value, sort: sort.value, offset });
    if (turn !== newest) return;
    const pages = found.total > PAGE
      ? h("div.controls.list-foot", {}, h("button.button", { type: "button", data: { go: "-1" }, disabled: offset === 0 }, "Previous"),
        h("span.muted", {}, `${f.exact(offset + 1)}–${f.exact(offset + found.rows.length)} of ${f.exact(found.total)}`),
        h("button.button", { type: "button", data: { go: "1" }, disabled: offset + PAGE >= found.total }, "Next")) : "";
    render(list, card("w12", `${f.exact(found.total)} ${found.total === 1 ? "stream" : "streams"}`, "",
      found.rows.length ? table(streamColumns(), found.rows, (row) => row.name) : empty(search.value ? `Nothing matches “${search.value}”` : "No streams yet", search.value ? "Try a part of a name or of a subject." : "Create one with jetspark stream add, or from any NATS client.")), pages);
  };
  list.addEventListener("click", (event) => {
    const go = event.target.dataset?.go;
    if (go) { offset = Math.max(0, offset + Number(go) * PAGE); early(refresh)(); }
  });
  search.addEventListener("input", debounce(() => { offset = 0; early(refresh)(); }, 150));
  sort.addEventListener("change", () => { offset = 0; early(refresh)(); });
  return refresh;
}
