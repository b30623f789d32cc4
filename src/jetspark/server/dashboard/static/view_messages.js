// Messages of a stream: newest or oldest first, by subject; one in full, with its headers.

import { get, post, session } from "./api.js";
import * as dialogs from "./dialogs.js";
import { debounce, early, h, render } from "./dom.js";
import * as f from "./format.js";
import { jsonText, longText } from "./json.js";
import { card, empty, facts, table } from "./parts.js";
import { actOn, streamHead } from "./view_stream.js";

function hex(base64) {
  const data = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const lines = [];
  for (let at = 0; at < data.length; at += 16) {
    const part = [...data.slice(at, at + 16)];
    const codes = part.map((value) => value.toString(16).padStart(2, "0")).join(" ");
    const words = part.map((value) => (value > 31 && value < 127 ? String.fromCharCode(value) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${codes.padEnd(48)} ${words}`);
  }
  return lines.join("\n");
}

// What a body is, found out by trying: JSON, text, or bytes.
function show(message) {
  const part = message.truncated ? `, the first ${f.exact(message.shown)} bytes` : "";
  if (message.base64 !== undefined) return [`Body · bytes${part}`, h("pre.hex", {}, hex(message.base64))];
  if (!message.size) return ["Body", h("p.faint", {}, "empty")];
  const found = message.truncated ? null : jsonText(message.text);
  return found ? ["Body · JSON", found] : [`Body · text${part}`, longText(message.text)];
}

async function openMessage(stream, seq, refresh) {
  let message;
  try { message = await get(["streams", stream, "messages", seq]); } catch (error) { dialogs.toast(error.message, "bad"); return; }
  const [title, content] = show(message);
  const remove = session.allow_changes
    ? h("button.button.danger", { type: "button", on: { click: () => { box.close(); dialogs.ask(`Delete message ${seq}`, `Delete message ${seq} of ${stream}? It cannot be brought back.`, "Delete", () => post(["streams", stream, "messages", seq, "delete"], {}), refresh); } } }, "Delete") : "";
  const box = dialogs.showDialog(`Message ${f.exact(seq)}`, [
    facts([["Subject", h("span.mono", {}, message.subject)], ["Stored", f.when(message.time)], ["Size", f.counted(message.size, "byte")]]),
    h("span.label", {}, "Headers"),
    message.headers.length ? facts(message.headers.map(([name, value]) => [name, h("span.mono", {}, value || " ")])) : h("p.faint", {}, "none"),
    h("span.label", {}, title), content], remove);
}

const columns = () => [
  { name: "Subject", className: "name wide", cell: (row) => [h("button.link", { type: "button", data: { seq: row.seq } }, row.subject), h("span.preview", {}, row.base64 !== undefined ? "bytes" : row.text.slice(0, 160) || "empty")] },
  { name: "Sequence", num: true, cell: (row) => f.exact(row.seq) },
  { name: "Headers", num: true, cell: (row) => row.headers.length || "–" },
  { name: "Size", num: true, cell: (row) => f.bytes(row.size) },
  { name: "Stored", num: true, cell: (row) => h("span", { title: row.time }, f.clock(row.time)) },
];

export async function messages(main, name) {
  let latest;
  let trail = [0];
  const head = h("div");
  const list = h("div");
  const subject = h("input", { type: "search", placeholder: "Subject, such as orders.* or orders.>", "aria-label": "Subject", list: "subjects", id: "search", spellcheck: "false" });
  const known = h("datalist", { id: "subjects" });
  const order = h("select", { "aria-label": "Order" }, h("option", { value: "newest" }, "Newest first"), h("option", { value: "oldest" }, "Oldest first"));
  main.replaceChildren(head, h("div.controls", {}, subject, known, order), list);
  let newest = 0;
  const load = async () => {
    // Answers may overtake each other: only the newest question's is shown.
    const turn = ++newest;
    const seq = trail[trail.length - 1];
    let found;
    try { found = await get(["streams", name, "messages"], { subject: subject.value.trim(), order: order.value, seq: seq || undefined }); }
    catch (error) { render(list, card("w12", "Messages", "", empty("Cannot show this", error.message))); return; }
    if (turn !== newest) return;
    const note = found.rows.length ? "" : found.next_seq ? `Nothing among the ${f.exact(found.searched)} messages searched so far.` : "";
    render(list, card("w12", trail.length > 1 ? "Messages, further on" : order.value === "newest" ? "Newest messages" : "Oldest messages", "",
      found.rows.length ? table(columns(), found.rows, (row) => row.seq) : empty("No messages", note || (subject.value ? `on ${subject.value}` : "The stream is empty."))),
    h("div.controls.list-foot", {}, trail.length > 1 ? h("button.button", { type: "button", data: { go: "back" } }, "Back") : "",
      found.next_seq ? h("button.button", { type: "button", data: { go: String(found.next_seq) } }, found.rows.length ? "More" : "Search on") : ""));
  };
  const refresh = async () => {
    latest = await get(["streams", name]);
    render(head, streamHead(name, "messages", latest));
    // Further on nothing moves under the reader.
    if (trail.length === 1) await load();
  };
  const suggest = debounce(async () => {
    const found = await get(["streams", name, "subjects"], { filter: subject.value.replace(/[*>]/g, "") }).catch(() => ({ rows: [] }));
    known.replaceChildren(...found.rows.slice(0, 50).map((row) => h("option", { value: row.subject })));
  }, 200);
  subject.addEventListener("input", debounce(() => { trail = [0]; load(); }, 200));
  subject.addEventListener("input", suggest);
  subject.addEventListener("focus", suggest);
  order.addEventListener("change", () => { trail = [0]; load(); });
  list.addEventListener("click", (event) => {
    const { seq } = event.target.closest?.("[data-seq]")?.dataset ?? {};
    const { go } = event.target.closest?.("[data-go]")?.dataset ?? {};
    if (seq) openMessage(name, Number(seq), load);
    if (go === "back") { trail.pop(); load(); } else if (go) { trail.push(Number(go)); load(); }
  });
  main.onclick = actOn(name, () => latest, early(refresh));
  return refresh;
}
