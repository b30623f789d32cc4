// JSON as JSON: indented and coloured, with every number, key and order as it was written. Built of text nodes only.

import { h } from "./dom.js";

const TOKENS = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
// More than this is shown without colours: each takes a node, and browsers are slow with so many.
const COLOURED_MAX = 10000;
const CHUNK_LINES = 300;
// Deeper than this is not indented further: it would be lines of nothing but space.
const INDENT_MAX = 40;

const KINDS = (token) => (token[0] === '"' ? "string" : /^[-0-9]/.test(token) ? "number" : "word");
// As it is read, not as it was escaped; what cannot be shown stays escaped.
const spelled = (token) => (token.includes("\\") ? JSON.stringify(JSON.parse(token)) : token);

// The text's tokens with the space between them; null when it is not JSON.
function pieces(text) {
  try { JSON.parse(text); } catch { return null; }
  const tokens = text.match(TOKENS);
  const found = [];
  let depth = 0;
  const line = () => "\n" + "  ".repeat(Math.min(depth, INDENT_MAX));
  tokens.forEach((token, place) => {
    const next = tokens[place + 1];
    if (token === "{" || token === "[") {
      depth += 1;
      found.push([token + (next === "}" || next === "]" ? "" : line())]);
    } else if (token === "}" || token === "]") {
      depth -= 1;
      const before = tokens[place - 1];
      found.push([(before === "{" || before === "[" ? "" : line()) + token]);
    } else if (token === ",") found.push([token + line()]);
    else if (token === ":") found.push([": "]);
    else found.push([token[0] === '"' ? spelled(token) : token, next === ":" ? "key" : KINDS(token)]);
  });
  return found;
}

// Text in pieces, so that a browser lays out only those in sight.
export function longText(text) {
  const lines = text.split("\n");
  if (lines.length <= 2 * CHUNK_LINES) return h("pre", {}, text);
  const chunks = [];
  for (let at = 0; at < lines.length; at += CHUNK_LINES) chunks.push(h("span.chunk", {}, lines.slice(at, at + CHUNK_LINES).join("\n")));
  return h("pre", {}, chunks);
}

// A text that may be JSON as a node, null when it is not.
export function jsonText(text) {
  const found = pieces(text);
  if (!found) return null;
  if (found.length > COLOURED_MAX) return longText(found.map(([words]) => words).join(""));
  return h("pre.json", {}, found.map(([words, kind]) => (kind ? h(`span.${kind}`, {}, words) : words)));
}

export const json = (value) => jsonText(JSON.stringify(value));
