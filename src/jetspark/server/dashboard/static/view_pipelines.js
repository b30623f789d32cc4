// Spark pipelines that report here, with how far each has come.

import { get } from "./api.js";
import { h, render } from "./dom.js";
import * as f from "./format.js";
import { bar, chip, command, empty } from "./parts.js";

const TONES = { running: "good", waiting: "good", silent: "warn", failed: "bad", stopped: "", finished: "" };

function source(one) {
  if (one.last_seq === undefined) return h("div.source", {}, h("div", {}, h("span", {}, one.stream || "a source"), h("span.muted", {}, one.end_seq === null ? "" : `at ${f.exact(one.end_seq)}`)));
  const span = Math.max(1, one.last_seq - one.first_seq + 1);
  const share = Math.min(1, Math.max(0, (one.end_seq - one.first_seq + 1) / span));
  return h("div.source", {}, h("div", {}, h("a", { href: f.place("streams", one.stream) }, one.stream), h("span.muted", {}, one.lag ? `${f.count(one.lag)} behind` : "up to date")),
    bar(share, true), h("span.faint", {}, `sequence ${f.exact(one.end_seq)} of ${f.exact(one.last_seq)}`));
}

function pipe(row) {
  return h("section.card.pipe", { data: { key: row.key } }, h("header", {}, h("h2", {}, row.name), chip(row.state, TONES[row.state] ?? "")), h("div.body", {},
    h("div.figures", {},
      h("div", {}, h("b", {}, f.rate(row.processed_rows_per_second)), h("span", {}, "rows / s")),
      h("div", {}, h("b", {}, f.count(row.batch)), h("span", {}, "last batch")),
      h("div", {}, h("b", {}, f.ms(row.batch_duration_ms)), h("span", {}, "batch time"))),
    row.sources.map(source),
    row.error ? h("div.ask.bad", {}, row.error) : "",
    h("p.faint.when", {}, [row.sink && `to ${row.sink}`, `reported ${row.age_s < 3 ? "now" : `${f.duration(row.age_s)} ago`}`].filter(Boolean).join(" · "))));
}

export async function pipelines(main) {
  return async () => {
    const { rows, bucket } = await get(["pipelines"]);
    render(main, h("div.head", {}, h("div.grow", {}, h("h1", {}, "Pipelines"))),
      rows.length ? h("div.pipes", {}, rows.map(pipe)) : h("div.card", {}, empty("No pipeline reports here", `Spark pipelines write their progress into the key-value bucket ${bucket} of this account:`, command("jetspark pipeline run"))));
  };
}
