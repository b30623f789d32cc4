// Numbers, sizes, times and places as people read them.

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const plain = new Intl.NumberFormat("en");

export const count = (value) => (value === null || value === undefined ? "–" : value < 100000 ? plain.format(Math.round(value)) : compact.format(value));
export const exact = (value) => plain.format(value);
export const counted = (value, word) => `${plain.format(value)} ${word}${value === 1 ? "" : "s"}`;

export function rate(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  if (value < 0.1) return "<0.1";
  if (value < 10) return value.toFixed(1);
  return value < 10000 ? plain.format(Math.round(value)) : compact.format(value);
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "KB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

export function ms(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0 ms";
  if (value < 1) return `${Math.round(value * 1000)} µs`;
  if (value < 1000) return `${value < 10 ? value.toFixed(1) : Math.round(value)} ms`;
  return duration(value / 1000);
}

export function duration(seconds) {
  if (seconds < 60) return `${seconds < 10 ? Number(seconds.toFixed(1)) : Math.round(seconds)} s`;
  const steps = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const parts = [];
  let left = Math.round(seconds);
  for (const [name, size] of steps) {
    if (left >= size || parts.length) {
      if (Math.floor(left / size) || parts.length === 0) parts.push(`${Math.floor(left / size)} ${name}`);
      left %= size;
    }
    if (parts.length === 2) break;
  }
  return parts.join(" ");
}

// The server's clock against this machine's: times of the server are compared with the server's.
let ahead_ms = 0;
export const setClock = (now) => { ahead_ms = Date.parse(now) - Date.now() || 0; };

export function ago(text) {
  if (!text) return "never";
  const seconds = Math.max(0, (Date.now() + ahead_ms - Date.parse(text)) / 1000);
  return seconds < 2 ? "now" : `${duration(Math.floor(seconds))} ago`;
}

export function when(text) {
  const date = new Date(text);
  return Number.isNaN(date.getTime()) ? text : date.toLocaleString([], { dateStyle: "medium", timeStyle: "medium" });
}

export const clock = (text) => {
  const date = new Date(text);
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday ? date.toLocaleTimeString() : date.toLocaleString([], { dateStyle: "short", timeStyle: "medium" });
};

// A duration of a configuration, in nanoseconds.
export const nanoseconds = (value) => (value ? duration(value / 1e9) : "none");

// A duration as Go writes it, with fewer digits.
export const goDuration = (text) => (text ? text.replace(/^([\d.]+)(µs|ms|s)$/, (all, number, unit) => `${Number(Number(number).toPrecision(3))} ${unit}`) : "–");

// A span of time as nats-server writes it, 1d2h3m4s, in the words of this page.
const SPAN_UNITS = { y: "y", d: "d", h: "h", m: "min", s: "s" };
export const goSpan = (text) => [...(text ?? "").matchAll(/(\d+)([ydhms])/g)].slice(0, 2).map(([, number, unit]) => `${number} ${SPAN_UNITS[unit]}`).join(" ") || "–";

// A place in the page: names may hold anything, so each is encoded.
export const place = (...parts) => "#/" + parts.map(encodeURIComponent).join("/");
