// Who is connected, and who was.

import { get } from "./api.js";
import * as dialogs from "./dialogs.js";
import { early, h, render } from "./dom.js";
import * as f from "./format.js";
import { card, chip, empty, facts, table } from "./parts.js";

const SORTS = [["cid", "Oldest first"], ["msgs_from", "Messages sent"], ["msgs_to", "Messages received"], ["bytes_from", "Bytes sent"], ["bytes_to", "Bytes received"], ["subs", "Subscriptions"], ["pending", "Bytes waiting"], ["idle", "Idle longest"], ["rtt", "Slowest line"]];

const columns = (own, isClosed) => [
  { name: "Client", className: "name", cell: (row) => [h("button.link", { type: "button", data: { cid: row.cid } }, row.name || "unnamed"), " ", h("span.faint", {}, `#${row.cid}`), row.cid === own ? [" ", chip("this dashboard", "accent")] : "",
    h("span.sub", {}, [row.ip ? `${row.ip}:${row.port}` : "inside the server", row.type, row.lang && `${row.lang} ${row.version ?? ""}`, row.authorized_user].filter(Boolean).join(" · "))] },
  { name: "Sent", num: true, cell: (row) => [f.count(row.in_msgs), h("span.sub", {}, f.bytes(row.in_bytes))] },
  { name: "Received", num: true, cell: (row) => [f.count(row.out_msgs), h("span.sub", {}, f.bytes(row.out_bytes))] },
  { name: "Subscriptions", num: true, cell: (row) => f.count(row.subscriptions) },
  { name: "Waiting", num: true, tone: (row) => (row.pending_bytes > 1 << 20 ? "hot" : ""), cell: (row) => f.bytes(row.pending_bytes) },
  isClosed ? { name: "Why it ended", cell: (row) => row.reason } : { name: "Round trip", num: true, cell: (row) => f.goDuration(row.rtt) },
  isClosed ? { name: "Ended", num: true, cell: (row) => f.ago(row.stop) } : { name: "Up", num: true, cell: (row) => [f.goSpan(row.uptime), h("span.sub", {}, `idle ${f.goSpan(row.idle)}`)] },
];

export async function connections(main) {
  const sort = h("select", { "aria-label": "Sort by" }, SORTS.map(([value, words]) => h("option", { value }, words)));
  const state = h("select", { "aria-label": "Which" }, h("option", { value: "open" }, "Open"), h("option", { value: "closed" }, "Closed lately"));
  const list = h("div");
  main.replaceChildren(h("div.head", {}, h("div.grow", {}, h("h1", {}, "Connections"))), h("div.controls", {}, state, h("label.sort", {}, "Sort by", sort)), list);
  let newest = 0;
  const refresh = async () => {
    // Answers may overtake each other: only the newest question's is shown.
    const turn = ++newest;
    const found = await get(["connections"], { sort: sort.value, state: state.value });
    if (turn !== newest) return;
    const { rows } = found;
    render(list, card("w12", `${f.exact(found.total)} ${state.value}${found.total > rows.length ? `, ${rows.length} shown` : ""}`, "",
      rows.length ? table(columns(found.own, state.value === "closed"), rows, (row) => row.cid) : empty("Nobody")));
  };
  list.addEventListener("click", (event) => {
    const cid = event.target.closest?.("[data-cid]")?.dataset.cid;
    if (cid) openConnection(cid);
  });
  sort.addEventListener("change", early(refresh));
  state.addEventListener("change", early(refresh));
  return refresh;
}

async function openConnection(cid) {
  let row;
  try { row = await get(["connections", cid]); } catch (error) { dialogs.toast(error.message, "bad"); return; }
  const more = row.subject_count - row.subjects.length;
  dialogs.showDialog(row.name || `Connection ${row.cid}`, [facts([["Number", row.cid], ["Address", row.ip ? `${row.ip}:${row.port}` : "inside the server"], ["Client", [row.lang, row.version].filter(Boolean).join(" ")], ["User", row.authorized_user ?? ""], ["Account", row.account ?? ""], ["Since", f.when(row.start)], ["TLS", row.tls_version ?? ""]]),
    h("span.label", {}, f.counted(row.subject_count, "subscription")), row.subjects.length ? h("pre", {}, row.subjects.join("\n") + (more > 0 ? `\nand ${f.exact(more)} more` : "")) : h("p.faint", {}, "none")]);
}
