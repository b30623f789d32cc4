// Pieces that several views share: figures, tables, cards, JSON.

import { h } from "./dom.js";
import * as f from "./format.js";
import { spark } from "./plot.js";

export const tile = (name, value, unit, note, { tone = "", meter } = {}) =>
  h("div.tile", { class: tone }, h("span.name", {}, name), h("span.value", {}, value, unit ? h("small", {}, unit) : ""),
    meter !== undefined ? bar(meter) : "", h("span.note", {}, note));

// How full something is, which may be too full; or how far something has come, which may not.
export function bar(share, isProgress = false) {
  const tone = isProgress ? "" : share > 0.95 ? "bad" : share > 0.8 ? "warn" : "";
  return h("div.meter", { class: tone, "aria-hidden": "true" }, h("i", { css: { width: `${Math.min(100, share * 100).toFixed(1)}%` } }));
}

export const card = (width, title, side, ...content) =>
  h("section.card", { class: width }, h("header", {}, h("h2", {}, title), side || ""), ...content);

export const body = (...content) => h("div.body", {}, ...content);

// A command to copy.
export const command = (words) => h("code.command", {}, words);

// What to do where there is no stream.
export const howToBegin = () => ["Create one from any NATS client, or with", command("jetspark stream add ORDERS --subjects 'orders.>' --defaults")];

export const empty = (title, ...words) => h("div.empty", {}, h("b", {}, title), ...words);

// columns: [{name, num, cell(row), className}]
export function table(columns, rows, key) {
  return h("div.table-wrap.cards", {}, h("table", {},
    h("thead", {}, h("tr", {}, columns.map((column) => h("th", { class: column.num ? "num" : "", scope: "col" }, column.name)))),
    h("tbody", {}, rows.map((row, place) => h("tr", { data: { key: String(key(row, place)) } }, columns.map((column) => cell(column, row)))))));
}

function cell(column, row) {
  const classes = [column.num ? "num" : "", column.className || "", column.tone ? column.tone(row) : ""].filter(Boolean).join(" ");
  return h("td", { class: classes, "data-label": column.className?.startsWith("name") ? undefined : column.name }, column.cell(row));
}

// The words once more as its title: in a table a long one is cut off.
export const chip = (words, tone = "") => h("span.chip", { class: tone, title: words }, words);

function subjectsOf(row) {
  const more = row.subject_count - row.subjects.length;
  const words = [row.subjects.join(", ") + (more > 0 ? ` and ${f.exact(more)} more` : ""), row.origins.length ? `from ${row.origins.slice(0, 12).join(", ")}` : ""];
  return words.filter(Boolean).join(" · ") || "no subjects";
}

export function streamColumns() {
  return [
    { name: "Stream", className: "name", cell: (row) => [h("a", { href: f.place("streams", row.name) }, row.name), h("span.sub", {}, subjectsOf(row))] },
    { name: "In / s", num: true, cell: (row) => [spark(row.spark), h("span.after-spark", {}, f.rate(row.in_rate))] },
    { name: "Messages", num: true, cell: (row) => f.count(row.messages) },
    { name: "Size", num: true, cell: (row) => f.bytes(row.bytes) },
    { name: "Consumers", num: true, cell: (row) => f.count(row.consumers) },
    { name: "Most lag", num: true, cell: (row) => (row.consumers ? f.count(row.lag) : "–") },
    { name: "Last message", num: true, cell: (row) => f.ago(row.last_time) },
  ];
}

export function consumerColumns({ withStream }) {
  return [
    { name: "Consumer", className: "name", cell: (row) => [
      h("a", { href: f.place("streams", row.stream, "consumers", row.name) }, row.name),
      h("span.sub", {}, [withStream ? row.stream : "", row.kind, row.filters.join(", "), row.paused ? "paused" : ""].filter(Boolean).join(" · ")),
      groupChips(row)] },
    { name: "Lag", num: true, cell: (row) => [spark(row.spark, ".lag"), h("span.after-spark", {}, f.count(row.pending))] },
    { name: "Out / s", num: true, cell: (row) => f.rate(row.out_rate) },
    { name: "Unacknowledged", num: true, tone: (row) => (row.ack_pending_max > 0 && row.ack_pending >= row.ack_pending_max ? "hot" : ""), cell: (row) => f.count(row.ack_pending) },
    { name: "Redelivered", num: true, tone: (row) => (row.redelivered ? "hot" : ""), cell: (row) => f.count(row.redelivered) },
    { name: "Waiting pulls", num: true, cell: (row) => (row.kind === "pull" ? f.count(row.waiting) : "–") },
    { name: "Ack latency", num: true, cell: (row) => ackLatency(row) },
  ];
}

function ackLatency(row) {
  if (row.ack_p50_ms === null) return h("span.faint", {}, row.sampled_percent ? "no acks yet" : "not sampled");
  return [f.ms(row.ack_ms), h("span.sub", {}, `p50 ${f.ms(row.ack_p50_ms)} · p99 ${f.ms(row.ack_p99_ms)}`)];
}

function groupChips(row) {
  if (!row.groups.length) return "";
  return h("div.chips", {}, row.groups.map((group) => chip(`${group} · ${row.policy.replaceAll("_", " ")}`, "accent")),
    row.pinned ? chip(`pinned: ${pinnedName(row.pinned)}`, "good") : "");
}

export const pinnedName = (pinned) => (pinned.cid ? `${pinned.name || "client"} (#${pinned.cid})` : "a client at work");

export const facts = (pairs) => h("dl.facts", {}, pairs.filter(([, value]) => value !== undefined && value !== "").map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
