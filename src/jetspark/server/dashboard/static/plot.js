// Plots over the last hour, drawn as SVG from what the server remembers.

import { h } from "./dom.js";

const WIDTH = 600;
const HEIGHT = 168;

// A round number not below the largest value; sizes are round in their own way.
function ceiling(value, isSize) {
  if (!(value > 0)) return 1;
  const unit = isSize ? 1024 ** Math.floor(Math.log2(value) / 10) : 1;
  const power = unit * 10 ** Math.floor(Math.log10(value / unit));
  // Steps whose half is round too: it stands beside the middle line.
  return [1, 2, 4, 6, 8, 10].map((step) => step * power).find((step) => step >= value) ?? 10 * power;
}

// Minutes shown: the hour, or less while there is less to show.
const spanOf = (longest, stepS) => [5, 15, 30].find((minutes) => longest * stepS <= minutes * 60) ?? 60;

// Pieces of a line between gaps; values end now and each stands for one step.
function pieces(values, total, top) {
  const found = [];
  let piece = [];
  values.forEach((value, index) => {
    if (value === null) { if (piece.length) found.push(piece); piece = []; return; }
    const x = WIDTH * (1 - (values.length - 1 - index) / (total - 1));
    piece.push([x, HEIGHT - (Math.min(value, top) / top) * HEIGHT]);
  });
  if (piece.length) found.push(piece);
  return found;
}

// Beside a line of the grid a number is round, and need not say so.
const round = (words) => words.replace(/\.0(?!\d)/, "");

const text = (points) => points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");

// lines: [{name, values}]; show: how a value is written.
export function plot({ title, lines, stepS, show, isSize = false, floor = isSize ? 1024 : 0 }) {
  const minutes = spanOf(Math.max(0, ...lines.map((line) => line.values.length)), stepS);
  const total = (minutes * 60) / stepS;
  const largest = Math.max(floor, ...lines.flatMap((line) => line.values.filter((value) => value !== null)), 0);
  const top = ceiling(largest, isSize);
  const svg = h("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": summary(title, lines, show), tabindex: "0" });
  for (const share of [0, 0.5, 1]) svg.append(h("line.gridline", { x1: 0, x2: WIDTH, y1: HEIGHT * share, y2: HEIGHT * share }));
  lines.forEach((line, number) => {
    for (const points of pieces(line.values, total, top)) {
      const last = points[points.length - 1];
      if (number === 0) svg.append(h(`polygon.area.s${number}`, { points: text([[points[0][0], HEIGHT], ...points, [last[0], HEIGHT]]) }));
      // One value alone is a short dash.
      const drawn = points.length > 1 ? points : [[last[0] - 4, last[1]], last];
      svg.append(h(`polyline.line.s${number}`, { points: text(drawn) }));
    }
  });
  const box = h("div.plot", { plot: { lines, total, stepS, show } }, svg);
  for (const share of [0, 0.5, 1]) box.append(h("span.y", { css: { top: `${HEIGHT * share}px` } }, round(show(top * (1 - share)))));
  if (!lines.some((line) => line.values.length)) box.append(h("span.none", {}, h("span", {}, "nothing in the last hour")));
  box.append(h("div.x", {}, h("span", {}, `${minutes} min ago`), h("span", {}, `${minutes / 2} min ago`), h("span", {}, "now")));
  return box;
}

function summary(title, lines, show) {
  const parts = lines.map((line) => `${line.name} ${line.values.length ? show(line.values[line.values.length - 1] ?? 0) : "no values"}`);
  return `${title}, last hour: ${parts.join(", ")}`;
}

export function legend(...names) {
  return h("div.legend", {}, names.map((name, number) => h(`span.s${number}`, {}, name)));
}

export function spark(values, kind = "") {
  const known = values.filter((value) => value !== null);
  if (known.length < 2) return "";
  const top = Math.max(...known) || 1;
  const points = values.map((value, index) => (value === null ? null : [(index / (values.length - 1)) * 100, 22 - (value / top) * 20])).filter(Boolean);
  const area = [[points[0][0], 23], ...points, [points[points.length - 1][0], 23]];
  return h(`svg.spark${kind}`, { viewBox: "0 0 100 24", preserveAspectRatio: "none", "aria-hidden": "true" },
    h("polygon", { points: text(area) }), h("polyline", { points: text(points) }));
}

// One listener for all plots: what was the figure where the pointer is?
export function watchPlots(root) {
  const wipe = (box) => { box.querySelector(".tip")?.remove(); box.querySelector(".cursor")?.remove(); };
  const clear = (box) => { delete box.back; wipe(box); };
  // `back`: how many steps ago.
  const point = (box, back) => {
    const { lines, total, stepS, show } = box.plot;
    box.back = back;
    const said = lines
      .map((line) => [line.name, line.values[line.values.length - 1 - back]])
      .filter(([, value]) => value !== undefined && value !== null);
    wipe(box);
    if (!said.length) return;
    const svg = box.querySelector("svg");
    const x = WIDTH * (1 - back / (total - 1));
    svg.append(h("line.cursor", { x1: x, x2: x, y1: 0, y2: HEIGHT }));
    const seconds = back * stepS;
    const at = seconds === 0 ? "now" : seconds < 120 ? `${seconds} s ago` : `${Math.round(seconds / 60)} min ago`;
    const left = svg.getBoundingClientRect().left - box.getBoundingClientRect().left;
    const place = Math.min(Math.max(left + svg.clientWidth * (x / WIDTH), 80), box.clientWidth - 60);
    box.append(h("div.tip", { css: { left: `${place}px` } }, at, said.map(([name, value]) => h("div", {}, `${name}: ${show(value)}`))));
  };
  root.addEventListener("pointermove", (event) => {
    const svg = event.target.closest?.(".plot svg");
    if (!svg) return;
    const area = svg.getBoundingClientRect();
    const share = Math.min(1, Math.max(0, (event.clientX - area.left) / area.width));
    point(svg.parentNode, Math.round((1 - share) * (svg.parentNode.plot.total - 1)));
  });
  // Drawn anew under somebody who looks: he goes on looking at the same place.
  root.addEventListener("redrawn", ({ target: box }) => { if (box.back !== undefined) point(box, Math.min(box.back, box.plot.total - 1)); });
  root.addEventListener("pointerout", (event) => { const box = event.target.closest?.(".plot"); if (box) clear(box); });
  root.addEventListener("focusout", (event) => { const box = event.target.closest?.(".plot"); if (box) clear(box); });
  root.addEventListener("keydown", (event) => {
    const svg = event.target.closest?.(".plot svg");
    if (!svg || !["ArrowLeft", "ArrowRight"].includes(event.key)) return;
    const box = svg.parentNode;
    point(box, Math.min(box.plot.total - 1, Math.max(0, (box.back ?? 0) + (event.key === "ArrowLeft" ? 1 : -1))));
    event.preventDefault();
  });
}
