// The first view: how the server is, what is busiest, what lags.

import { get, session } from "./api.js";
import { h, render } from "./dom.js";
import * as f from "./format.js";
import { body, card, consumerColumns, empty, howToBegin, streamColumns, table, tile } from "./parts.js";
import { legend, plot } from "./plot.js";

function tiles(figures) {
  const share = figures.storage_max > 0 ? figures.storage_used / figures.storage_max : undefined;
  const traffic = session.sees_server
    ? [tile("Messages in", f.rate(figures.in_msgs), "/ s", `${f.bytes(figures.in_bytes)} / s`), tile("Messages out", f.rate(figures.out_msgs), "/ s", `${f.bytes(figures.out_bytes)} / s`)]
    : [tile("Messages in", f.rate(figures.stored_rate), "/ s", `account ${session.account}`)];
  return h("div.tiles", { role: "group", "aria-label": "Figures" }, traffic,
    tile("Messages stored", f.count(figures.messages), "", `${f.bytes(figures.bytes)} in ${f.count(figures.streams)} streams`),
    tile("Disk", f.bytes(figures.storage_used), "", `of ${f.bytes(figures.storage_max)}`, { meter: share }),
    tile("Commit p99", figures.commit_count ? f.ms(figures.commit_p99_ms) : "–", "", figures.commit_count ? `p50 ${f.ms(figures.commit_p50_ms)} · ${f.rate(figures.commits)} / s` : "nothing written yet", { tone: figures.disk_error ? "bad" : "" }),
    tile("Connections", f.count(figures.connections), "", figures.slow_consumers ? `${figures.slow_consumers} slow so far` : "none slow", { tone: figures.slow_consumers ? "warn" : "" }),
    tile("Server", `${Math.round(figures.cpu)}%`, "CPU", `${f.bytes(figures.memory)} memory · up ${f.duration(figures.uptime_s)}`));
}

function plots({ series, step_s: stepS }) {
  const drawn = [];
  if (series.in_msgs) {
    drawn.push(card("w6", "Messages per second", legend("in", "out"), body(plot({ title: "Messages per second", stepS, show: f.rate, lines: [{ name: "in", values: series.in_msgs }, { name: "out", values: series.out_msgs }] }))));
  }
  drawn.push(card("w6", "Commit latency", legend("p99", "p50"), body(plot({ title: "Commit latency", stepS, show: f.ms, lines: [{ name: "p99", values: series.commit_p99_ms }, { name: "p50", values: series.commit_p50_ms }] }))));
  if (series.stored_bytes) {
    drawn.push(card("w4", "Stored on disk", "", body(plot({ title: "Stored on disk", stepS, show: f.bytes, isSize: true, lines: [{ name: "stored", values: series.stored_bytes }] }))));
  }
  drawn.push(card("w4", "Processor", "", body(plot({ title: "Processor", stepS, show: (value) => `${Math.round(value)}%`, floor: 20, lines: [{ name: "CPU", values: series.cpu }] }))));
  return drawn;
}

function commitBars(buckets) {
  const total = buckets.reduce((sum, bucket) => sum + bucket.count, 0);
  const used = buckets.map((bucket) => bucket.count > 0);
  const first = Math.max(0, used.indexOf(true) - 1);
  const last = Math.min(buckets.length - 1, used.lastIndexOf(true) + 1);
  if (!total) return empty("No commit yet", "They are counted here by how long each took.");
  const most = Math.max(...buckets.map((bucket) => bucket.count));
  const tick = (bucket) => (!bucket.below_ms ? "more" : bucket.below_ms < 1000 ? `${Number(bucket.below_ms.toPrecision(3))}` : `${bucket.below_ms / 1000}s`);
  return body(h("div.bars", { role: "img", "aria-label": `${total} commits by duration` }, buckets.slice(first, last + 1).map((bucket) =>
    h("div.bar-one", { class: bucket.count ? "" : "none", title: `${f.exact(bucket.count)} commits` }, h("b", {}, bucket.count / total < 0.01 ? "" : `${Math.round((100 * bucket.count) / total)}%`),
      h("i", { css: { height: `${Math.round((120 * bucket.count) / most)}px` } }), h("span.tick", {}, tick(bucket))))),
    h("div.bars-note", {}, `${f.count(total)} commits · each bar: up to so many milliseconds`));
}

export async function overview(main) {
  return async () => {
    const document_ = await get(["overview"]);
    const { figures, busiest, lagging } = document_;
    render(main,
      h("div.head", {}, h("div.grow", {}, h("h1", {}, "Overview"))),
      tiles(figures),
      h("div.grid", {}, plots(document_),
        card("w4", "Commits by duration", "", commitBars(document_.commit_buckets)),
        card("w12", "Busiest streams", h("a", { href: "#/streams" }, "All streams"), busiest.length ? table(streamColumns(), busiest, (row) => row.name) : empty("No streams yet", session.jetstream ? howToBegin() : "JetStream is not enabled here: start the server with -js.")),
        lagging.length ? card("w12", "Consumers with the most to do", "", table(consumerColumns({ withStream: true }), lagging, (row) => `${row.stream}/${row.name}`)) : ""));
  };
}
