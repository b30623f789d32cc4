// One consumer: where it stands, who waits for it, who is pinned, how fast it is acknowledged.

import { get, post, session } from "./api.js";
import * as dialogs from "./dialogs.js";
import { early, h, render } from "./dom.js";
import * as f from "./format.js";
import { json } from "./json.js";
import { bar, body, card, chip, empty, facts, pinnedName, table, tile } from "./parts.js";
import { plot } from "./plot.js";

function tiles({ row, last_seq: lastSeq }) {
  const full = row.ack_pending_max > 0 ? row.ack_pending / row.ack_pending_max : undefined;
  return h("div.tiles", {},
    tile("Lag", f.count(row.pending), "messages", `delivered up to ${f.exact(row.delivered_seq)} of ${f.exact(lastSeq)}`),
    tile("Messages out", f.rate(row.out_rate), "/ s", `acknowledged up to ${f.exact(row.ack_floor_seq)}`),
    tile("Unacknowledged", f.count(row.ack_pending), "", row.ack_pending_max > 0 ? `of ${f.exact(row.ack_pending_max)} allowed` : "no limit", { meter: full, tone: full >= 1 ? "warn" : "" }),
    tile("Redelivered", f.count(row.redelivered), "", `${f.count(row.refused)} sent back · ${f.count(row.terminated)} terminated · ${f.count(row.exhausted)} given up`, { tone: row.redelivered ? "warn" : "" }),
    tile("Waiting pulls", row.kind === "pull" ? f.count(row.waiting) : "–", "", row.kind === "pull" ? "requests for messages" : "a push consumer"),
    tile("Ack latency", row.ack_p50_ms === null ? "–" : f.ms(row.ack_ms), "", row.ack_p50_ms === null ? (row.sampled_percent ? "sampled, no acks yet" : "not sampled: set a sample frequency") : `p50 ${f.ms(row.ack_p50_ms)} · p99 ${f.ms(row.ack_p99_ms)} · ${row.sampled_percent}% sampled`));
}

function priority({ row }) {
  if (!row.groups.length) return "";
  const { pinned } = row;
  const unpin = pinned && session.allow_changes ? h("button.button", { type: "button", data: { act: "unpin", group: pinned.group } }, "Unpin") : "";
  return card("w12", "Priority groups", unpin, body(facts([
    ["Policy", row.policy.replaceAll("_", " ")], ["Groups", h("div.chips", {}, row.groups.map((group) => chip(group, "accent")))],
    ["Pinned", row.policy !== "pinned_client" ? "not a pinning policy" : pinned ? `${pinnedName(pinned)}${pinned.host ? ` at ${pinned.host}` : ""} in ${pinned.group}, since ${f.ago(pinned.since)}` : "nobody"],
    ["Pin", pinned ? h("span.mono", {}, pinned.id) : ""],
  ])));
}

const pulls = (document_) => card("w12", "Waiting pulls, next first", "", document_.waiting.length
  ? table([
    { name: "Client", className: "name", cell: (row) => [row.cid ? `${row.name || "client"} (#${row.cid})` : "gone", row.is_pinned ? h("span.sub", {}, "pinned") : ""] },
    { name: "Messages wanted", num: true, cell: (row) => f.exact(row.left) },
    { name: "Group", cell: (row) => row.group || "–" },
    { name: "Priority", num: true, cell: (row) => (row.group ? row.priority : "–") },
    { name: "From", num: true, cell: (row) => (row.min_pending ? `${f.exact(row.min_pending)} pending` : row.min_ack_pending ? `${f.exact(row.min_ack_pending)} unacknowledged` : "–") },
    { name: "Ends", num: true, cell: (row) => (row.expires ? f.clock(row.expires) : "never") },
  ], document_.waiting, (row, place) => `${row.cid}/${place}`)
  : empty("Nobody waits", "Requests of pull clients that wait for messages are listed here."));

function content(document_) {
  const { row, series, step_s: stepS } = document_;
  const behind = document_.last_seq ? row.delivered_seq / document_.last_seq : 1;
  return [tiles(document_), h("div.grid", {},
    card("w4", "Lag", "", body(plot({ title: "Lag", stepS, show: f.count, floor: 4, lines: [{ name: "lag", values: series.lag }] }))),
    card("w4", "Messages out per second", "", body(plot({ title: "Messages out per second", stepS, show: f.rate, lines: [{ name: "out", values: series.out }] }))),
    card("w4", "Ack latency, sampled", "", body(plot({ title: "Ack latency", stepS, show: f.ms, lines: [{ name: "mean", values: series.ack_ms }] }))),
    priority(document_),
    row.kind === "pull" ? pulls(document_) : "",
    card("w6 top", "Place in the stream", "", body(bar(behind, true), facts([
      ["Delivered", `${f.exact(row.delivered_seq)} of ${f.exact(document_.last_seq)}`], ["Acknowledged", f.exact(row.ack_floor_seq)], ["Created", f.when(document_.created)],
      ["Last delivery", document_.delivered.last_active ? f.ago(document_.delivered.last_active) : "never"], ["Last ack", document_.ack_floor.last_active ? f.ago(document_.ack_floor.last_active) : "never"],
      ["Listener", row.kind === "push" ? (document_.push_bound ? "there" : "nobody") : ""]]))),
    card("w6", "Configuration", "", body(json(document_.config))))];
}

export async function consumer(main, stream, name) {
  const refresh = async () => {
    const latest = await get(["streams", stream, "consumers", name]);
    const { row } = latest;
    render(main, h("div.head", {}, h("div.grow", {},
      h("div.crumbs", {}, h("a", { href: "#/streams" }, "Streams"), " / ", h("a", { href: f.place("streams", stream) }, stream)), h("h1", {}, name),
      h("div.chips", {}, chip(row.kind), chip(`ack ${latest.config.ack_policy}`), row.filters.map((filter) => chip(filter, "accent")), row.paused ? chip("paused", "warn") : "")),
    session.allow_changes ? h("div.actions", {}, h("button.button.danger", { type: "button", data: { act: "delete" } }, "Delete")) : chip("read-only")), content(latest));
  };
  main.onclick = (event) => {
    const { act, group } = event.target.closest?.("[data-act]")?.dataset ?? {};
    if (act === "delete") dialogs.deleteConsumer(stream, name, () => { location.hash = f.place("streams", stream); });
    if (act === "unpin") dialogs.ask(`Unpin ${name}`, `Let another client have the messages of ${name}? The pinned one keeps what it has.`, "Unpin", () => post(["streams", stream, "consumers", name, "unpin"], { group }), early(refresh));
  };
  return refresh;
}
