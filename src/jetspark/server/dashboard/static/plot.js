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
  for (const share of [0, 0.5, 1]) box.append(h("span.y", { css: { top: `${HEIGHT * share}px` } }, show(top * (1 - share))));
  if (!lines.some((line) => line.values.length)) box.append(h("span.none", {}, "nothing in the last hour"));
  box.append(h("div.x", {}, h("span", {}, `${minutes} min ago`), h("span", {}, `${minutes / 2} min`), h("span", {}, "now")));
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
  const points = values.map((value, index) => (value === null ? null : [(index / (values.length - 1)) * 100, 22 - (value / top) * 20]));
  return h(`svg.spark${kind}`, { viewBox: "0 0 100 24", preserveAspectRatio: "none", "aria-hidden": "true" },
    h("polyline", { points: text(points.filter(Boolean)) }));
}

// One listener for all plots: what was the figure where the pointer is?
export function watchPlots(root) {
  const clear = (box) => { box.querySelector(".tip")?.remove(); box.querySelector(".cursor")?.remove(); };
  const point = (box, share) => {
    const { lines, total, stepS, show } = box.plot;
    const back = Math.round((1 - share) * (total - 1));
    const said = lines
      .map((line) => [line.name, line.values[line.values.length - 1 - back]])
      .filter(([, value]) => value !== undefined && value !== null);
    clear(box);
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
    point(svg.parentNode, Math.min(1, Math.max(0, (event.clientX - area.left) / area.width)));
  });
  root.addEventListener("pointerout", (event) => { const box = event.target.closest?.(".plot"); if (box) clear(box); });
  root.addEventListener("focusout", (event) => { const box = event.target.closest?.(".plot"); if (box) clear(box); });
  root.addEventListener("keydown", (event) => {
    const svg = event.target.closest?.(".plot svg");
    if (!svg || !["ArrowLeft", "ArrowRight"].includes(event.key)) return;
    const steps = svg.parentNode.plot.total - 1;
    const back = Math.min(steps, Math.max(0, Number(svg.dataset.back ?? 0) + (event.key === "ArrowLeft" ? 1 : -1)));
    svg.dataset.back = back;
    point(svg.parentNode, 1 - back / steps);
    event.preventDefault();
  });
}
