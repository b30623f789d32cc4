// Building the page. Every text goes in as a text node: nothing a message contains is ever read as HTML or script.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "path", "polyline", "polygon", "line", "circle", "g", "rect"]);

// h("a.name", {href: "#/x"}, "text", child, [more children])
export function h(tag, props = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const node = SVG_TAGS.has(name) ? document.createElementNS(SVG, name) : document.createElement(name);
  if (classes.length) node.setAttribute("class", classes.join(" "));
  for (const [key, value] of Object.entries(props)) set(node, key, value);
  append(node, children);
  return node;
}

function set(node, key, value) {
  if (value === undefined || value === null || value === false) return;
  if (key === "css") {
    for (const [name, text] of Object.entries(value)) node.style.setProperty(name, text);
  } else if (key === "data") {
    for (const [name, text] of Object.entries(value)) node.dataset[name] = text;
  } else if (key === "plot") {
    node.plot = value;
  } else if (key === "class") {
    node.setAttribute("class", [node.getAttribute("class"), value].filter(Boolean).join(" "));
  } else if (key === "on") {
    for (const [name, listener] of Object.entries(value)) node.addEventListener(name, listener);
  } else if (/^on|^style$|^srcdoc$/i.test(key)) {
    throw new Error(`${key} is not set by name here`);
  } else if (key === "href" && !String(value).startsWith("#")) {
    throw new Error(`links stay on this page: ${value}`);
  } else {
    node.setAttribute(key, value === true ? "" : String(value));
  }
}

function append(node, children) {
  for (const child of children.flat(3)) {
    if (child === undefined || child === null || child === false || child === "") continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

// Makes the children of a node look like these, changing only what differs: focus, scrolling and selection stay.
export function render(container, ...children) {
  const wanted = document.createElement("div");
  append(wanted, children);
  patchChildren(container, wanted);
}

// Rows with a key stay the nodes they are while others come and go around them.
function patchChildren(old, wanted) {
  const next = [...wanted.childNodes];
  const wantedKeys = new Set(next.map(keyOf));
  // Several may have the same key; each is used once, in their order.
  const kept = new Map();
  for (const node of [...old.childNodes].filter(keyOf)) kept.set(keyOf(node), [...(kept.get(keyOf(node)) ?? []), node]);
  let present = old.firstChild;
  for (const node of next) {
    const known = kept.get(keyOf(node))?.shift();
    while (known && present !== known && !wantedKeys.has(keyOf(present))) present = removed(present);
    if (known && present !== known) old.insertBefore(known, present);
    const same = known ?? present;
    if (same && isSame(same, node)) {
      patch(same, node);
      present = same.nextSibling;
    } else if (present && (!keyOf(present) || !wantedKeys.has(keyOf(present)))) {
      const after = present.nextSibling;
      present.replaceWith(node);
      present = after;
    } else {
      old.insertBefore(node, present);
    }
  }
  while (present) present = removed(present);
}

function removed(node) {
  const after = node.nextSibling;
  node.remove();
  return after;
}

const keyOf = (node) => node.dataset?.key;
const isSame = (one, two) => one.nodeName === two.nodeName && keyOf(one) === keyOf(two);

function patch(old, wanted) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== wanted.data) old.data = wanted.data;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (name !== "style" && !wanted.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of [...wanted.attributes]) {
    if (name !== "style" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.style && old.style.cssText !== wanted.style.cssText) old.style.cssText = wanted.style.cssText;
  if (wanted.plot) old.plot = wanted.plot;
  patchChildren(old, wanted);
  if (wanted.plot) old.dispatchEvent(new Event("redrawn", { bubbles: true }));
}

// Asking between two beats: when it fails, the next beat says why.
export const early = (refresh) => () => { refresh().catch(() => {}); };

export function debounce(action, wait_ms) {
  let timer = 0;
  return (...args) => { clearTimeout(timer); timer = setTimeout(() => action(...args), wait_ms); };
}
