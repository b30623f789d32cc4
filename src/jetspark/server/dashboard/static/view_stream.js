// One stream: its last hour, its consumers, its configuration; messages have a view of their own.

import { get, session } from "./api.js";
import * as dialogs from "./dialogs.js";
import { early, h, render } from "./dom.js";
import * as f from "./format.js";
import { json } from "./json.js";
import { longList } from "./list.js";
import { body, card, chip, consumerColumns, empty, facts, table, tile } from "./parts.js";
import { plot } from "./plot.js";

export function streamHead(name, tab, document_) {
  const { row, config } = document_;
  const segment = (key, words, href, count) => h("a", { href, "aria-current": tab === key ? "page" : undefined }, words, count === undefined ? "" : [" ", h("span.count", {}, f.count(count))]);
  const actions = session.allow_changes
    ? h("div.actions", {}, config.mirror ? "" : [h("button.button", { type: "button", data: { act: "publish" } }, "Publish"), " "], h("button.button.danger", { type: "button", data: { act: "purge" } }, "Purge"), " ", h("button.button.danger", { type: "button", data: { act: "delete" } }, "Delete"))
    : chip("read-only");
  return [
    h("div.head", {}, h("div.grow", {}, h("div.crumbs", {}, h("a", { href: "#/streams" }, "Streams")), h("h1", {}, name),
      h("div.chips", {}, row.subjects.map((subject) => chip(subject, "accent")), row.subject_count > row.subjects.length ? chip(`and ${f.exact(row.subject_count - row.subjects.length)} more`) : "", origins(document_), chip(`${row.storage} storage`), chip(`${row.retention} retention`), config.sealed ? chip("sealed", "warn") : "", config.description ? chip(config.description) : "")), actions),
    h("nav.segments", { "aria-label": "Stream" },
      segment("summary", "Summary", f.place("streams", name)),
      segment("consumers", "Consumers", f.place("streams", name, "consumers"), document_.row.consumers),
      document_.may_read ? segment("messages", "Messages", f.place("streams", name, "messages"), row.messages) : "",
      segment("config", "Configuration", f.place("streams", name, "config"))),
  ];
}

// Where a mirror's or a sourcing stream's messages come from, and how far behind it is.
function origins({ mirror, sources }) {
  const words = (origin, how) => chip(`${how} ${origin.name}${origin.lag ? ` · ${f.count(origin.lag)} behind` : ""}${origin.error ? ` · ${origin.error.description ?? "not reachable"}` : ""}`, origin.error ? "bad" : origin.lag ? "warn" : "good");
  return [mirror ? words(mirror, "mirror of") : "", (sources ?? []).slice(0, 12).map((source) => words(source, "from"))];
}

const firstLiteral = (subjects) => subjects.find((subject) => !/[*>]/.test(subject)) ?? (subjects[0] ?? "").replace(/\.[*>].*$/, ".");

// The buttons of a stream's head, wherever it is shown.
export function actOn(name, current, refresh) {
  return (event) => {
    const act = event.target.closest?.("[data-act]")?.dataset.act;
    const { row } = current();
    if (act === "publish") dialogs.publish(firstLiteral(row.subjects), refresh);
    if (act === "purge") dialogs.purge(name, row.messages, refresh);
    if (act === "delete") dialogs.deleteStream(name, () => { location.hash = "#/streams"; });
  };
}

function summary(document_) {
  const { row, state, series, step_s: stepS } = document_;
  return [
    h("div.tiles", {},
      tile("Messages in", f.rate(row.in_rate), "/ s", row.last_time ? `last ${f.ago(row.last_time)}` : "no message yet"),
      tile("Messages", f.count(row.messages), "", `${f.count(state.num_subjects ?? 0)} subjects`),
      tile("Size", f.bytes(row.bytes), "", limit(document_.config)),
      tile("Sequences", f.count(row.last_seq), "last", `first ${f.exact(row.first_seq)} · ${state.num_deleted ? f.count(state.num_deleted) : "none"} deleted`),
      tile("Consumers", f.count(row.consumers), "", row.consumers ? `most lag ${f.count(row.lag)}` : "nobody reads yet")),
    h("div.grid", {},
      card("w6", "Messages in per second", "", body(plot({ title: "Messages in per second", stepS, show: f.rate, lines: [{ name: "in", values: series.in }] }))),
      card("w6", "Stored", "", body(plot({ title: "Stored", stepS, show: f.bytes, isSize: true, lines: [{ name: "stored", values: series.stored }] }))),
      consumers(document_)),
  ];
}

const limit = (config) => (config.max_bytes > 0 ? `of ${f.bytes(config.max_bytes)}` : config.max_age ? `kept for ${f.nanoseconds(config.max_age)}` : "no limit set");

const consumers = (document_) => card("w12", document_.row.consumers > document_.consumers.length ? "Consumers with the most to do" : "Consumers",
  document_.row.consumers > document_.consumers.length ? h("a", { href: f.place("streams", document_.row.name, "consumers") }, `All ${f.exact(document_.row.consumers)}`) : "", document_.consumers.length
  ? table(consumerColumns({ withStream: false }), document_.consumers, (row) => row.name)
  : empty("No consumers", "Messages wait here until somebody reads them."));

function configuration(document_) {
  const { config } = document_;
  return h("div.grid", {}, card("w6 top", "Settings", "", body(facts([
    ["Created", f.when(document_.created)], ["Retention", config.retention], ["Storage", config.storage], ["Discard", config.discard],
    ["Most messages", config.max_msgs > 0 ? f.exact(config.max_msgs) : "no limit"], ["Most bytes", config.max_bytes > 0 ? f.bytes(config.max_bytes) : "no limit"],
    ["Oldest message", config.max_age ? f.nanoseconds(config.max_age) : "no limit"], ["Messages per subject", config.max_msgs_per_subject > 0 ? f.exact(config.max_msgs_per_subject) : "no limit"],
    ["Duplicate window", f.nanoseconds(config.duplicate_window)], ["Compression", config.compression],
  ]))), card("w6", "As JSON", "", body(json(config))));
}

export async function stream(main, name, tab) {
  let latest;
  const refresh = async () => {
    latest = await get(["streams", name]);
    render(main, streamHead(name, tab, latest), tab === "config" ? configuration(latest) : summary(latest));
  };
  main.onclick = actOn(name, () => latest, early(refresh));
  return refresh;
}

const SORTS = [["name", "Name"], ["lag", "Lag"], ["out_rate", "Messages per second"], ["ack_pending", "Unacknowledged"], ["redelivered", "Redelivered"], ["waiting", "Waiting pulls"]];

// All consumers of a stream: find, sort, page.
export async function streamConsumers(main, name) {
  let latest;
  const head = h("div");
  const list = longList({
    sorts: SORTS, load: (query) => get(["streams", name, "consumers"], query), columns: consumerColumns({ withStream: false }), key: (row) => row.name,
    what: "consumer", none: () => "Messages wait here until somebody reads them.",
  });
  const refresh = async () => {
    latest = await get(["streams", name]);
    render(head, streamHead(name, "consumers", latest));
    await list.refresh();
  };
  main.replaceChildren(head, list.node);
  main.onclick = actOn(name, () => latest, early(refresh));
  return refresh;
}
