// A long list: find, sort, page. What it lists is for the view to say.

import { debounce, early, h, render } from "./dom.js";
import * as f from "./format.js";
import { card, empty, table } from "./parts.js";

const PAGE = 200;

// sorts: [[value, words]]; load(query): asks for a page; what: "stream"; none(): what to say when there is nothing at all.
export function longList({ sorts, load, columns, key, what, none }) {
  let offset = 0;
  const search = h("input", { type: "search", placeholder: "Find by name or subject", "aria-label": `Find ${what}s`, id: "search" });
  const sort = h("select", { "aria-label": "Sort by" }, sorts.map(([value, words]) => h("option", { value }, words)));
  const rows = h("div");
  let newest = 0;
  const refresh = async () => {
    // Answers may overtake each other: only the newest question's is shown.
    const turn = ++newest;
    const found = await load({ filter: search.value, sort: sort.value, offset });
    if (turn !== newest) return;
    // What was shown here is gone.
    if (offset && !found.rows.length) { offset = Math.max(0, Math.ceil(found.total / PAGE) - 1) * PAGE; await refresh(); return; }
    const pages = found.total > PAGE
      ? h("div.controls.list-foot", {}, h("button.button", { type: "button", data: { go: "-1" }, disabled: offset === 0 }, "Previous"),
        h("span.muted", {}, `${f.exact(offset + 1)}–${f.exact(offset + found.rows.length)} of ${f.exact(found.total)}`),
        h("button.button", { type: "button", data: { go: "1" }, disabled: offset + PAGE >= found.total }, "Next")) : "";
    render(rows, card("w12", f.counted(found.total, what), "", found.rows.length ? table(columns, found.rows, key)
      : search.value ? empty(`Nothing matches “${search.value}”`, "Try a part of a name or of a subject.") : empty(`No ${what}s yet`, none())), pages);
  };
  rows.addEventListener("click", (event) => {
    const go = event.target.dataset?.go;
    if (go) { offset = Math.max(0, offset + Number(go) * PAGE); early(refresh)(); }
  });
  search.addEventListener("input", debounce(() => { offset = 0; early(refresh)(); }, 150));
  sort.addEventListener("change", () => { offset = 0; early(refresh)(); });
  return { node: h("div", {}, h("div.controls", {}, search, h("label.sort", {}, "Sort by", sort)), rows), refresh };
}
