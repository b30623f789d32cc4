// Forms that change something. Each says what it will do and asks before it does it.

import { post } from "./api.js";
import { h } from "./dom.js";
import * as f from "./format.js";

export function toast(words, tone = "") {
  const note = h("div.toast", { class: tone }, words);
  document.getElementById("toasts").append(note);
  setTimeout(() => note.remove(), 6000);
}

function open(title, content) {
  const box = h("dialog", { "aria-label": title, on: { close: () => box.remove(), click: (event) => { if (event.target === box) box.close(); } } }, content);
  document.body.append(box);
  box.showModal();
  return box;
}

// `actions` stand beside the button that closes. The title has the focus: what is long begins at its beginning.
export function showDialog(title, content, actions = []) {
  const box = open(title, h("div.inside", {}, h("h2", { tabindex: "-1", autofocus: true }, title), content,
    h("div.actions", {}, actions, h("button.button", { type: "button", on: { click: () => box.close() } }, "Close"))));
  return box;
}

// fields: what to fill in, if anything; question(values): the sentence that is asked; perform(values): does it.
function form({ title, words, fields, question, action, danger, perform, done }) {
  const problem = h("p.problem", { role: "alert", hidden: true });
  const asking = h("div", { hidden: true });
  const filling = h("div", {}, fields.map((field) => field.node));
  const review = h("button.button.primary", { type: "submit" }, "Review");
  const back = h("button.button", { type: "button", hidden: true, on: { click: () => turn(false) } }, "Back");
  const go = h("button.button", { type: "submit", class: danger ? "danger solid" : "primary", hidden: true }, action);
  let isAsking = false;
  const values = () => Object.fromEntries(fields.filter((field) => field.read).map((field) => [field.name, field.read()]));
  const fail = (error) => { problem.textContent = error.message; problem.hidden = false; };
  const turn = (toAsking) => {
    isAsking = toAsking;
    problem.hidden = true;
    filling.hidden = review.hidden = toAsking;
    asking.hidden = go.hidden = !toAsking;
    back.hidden = !toAsking || !fields.length;
    if (toAsking) { asking.replaceChildren(h("div.ask", {}, question(values()))); go.focus(); }
  };
  const submit = async (event) => {
    event.preventDefault();
    try {
      for (const field of fields) field.check?.();
      if (!isAsking) { turn(true); return; }
      go.disabled = true;
      const answer = await perform(values());
      box.close();
      toast(answer.message);
      done?.(answer);
    } catch (error) {
      go.disabled = false;
      fail(error);
    }
  };
  const cancel = h("button.button", { type: "button", on: { click: () => box.close() } }, "Cancel");
  const box = open(title, h("form", { method: "dialog", on: { submit } }, h("h2", {}, title), words ? h("p.muted", {}, words) : "", filling, asking, problem,
    h("div.actions", {}, cancel, back, review, go)));
  // Nothing to fill in: the question at once, and whoever only presses Enter does no harm.
  if (!fields.length) { turn(true); cancel.focus(); }
}

function input(name, label, props = {}, check) {
  const control = h("input", { name, autocomplete: "off", spellcheck: "false", ...props });
  return { name, node: h("label", {}, label, control), read: () => control.value.trim(), check: check && (() => check(control.value.trim())) };
}

function area(name, label, props = {}, check) {
  const control = h("textarea", { name, spellcheck: "false", ...props });
  return { name, node: h("label", {}, label, control), read: () => control.value, check: check && (() => check(control.value)) };
}

function checkSubject(value) {
  if (/\s|^\.|\.$|\.\.|(^|\.)[*>](\.|$)/.test(value)) throw new Error(`“${value}” is not a subject to publish to: words between dots, without * and >.`);
}

const number = (words) => (value) => { if (value && !/^[1-9][0-9]*$/.test(value)) throw new Error(`${words} is a whole number above 0.`); };

export function publish(subject, done) {
  form({
    title: "Publish a message",
    fields: [
      input("subject", "Subject", { value: subject, required: true, placeholder: "orders.new" }, checkSubject),
      area("headers", "Headers, one a line (Name: value)", { rows: 2, placeholder: "Nats-Msg-Id: 42" }, readHeaders),
      area("body", "Body", { placeholder: '{"id": 42}' }),
    ],
    question: (values) => `Publish ${f.counted(new Blob([values.body]).size, "byte")} to ${values.subject}?`,
    action: "Publish",
    perform: ({ subject: target, headers, body }) => post(["publish"], { subject: target, body, headers: readHeaders(headers) }),
    done,
  });
}

function readHeaders(text) {
  return text.split("\n").filter((line) => line.trim()).map((line) => {
    const at = line.indexOf(":");
    if (at < 1) throw new Error(`“${line}” is not a header: write Name: value.`);
    return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  });
}

export function purge(stream, messages, done) {
  form({
    title: `Purge ${stream}`,
    words: "Removes messages for good. Leave everything empty to remove them all.",
    fields: [
      input("filter", "Only this subject", { placeholder: "orders.done.>" }),
      input("seq", "Only below this sequence", { inputmode: "numeric" }, number("The sequence")),
      input("keep", "Keep this many of the newest", { inputmode: "numeric" }, number("The number to keep")),
    ],
    question: ({ filter, seq, keep }) => {
      const which = filter || seq || keep ? "messages" : messages === 1 ? "the one message" : `all ${f.exact(messages)} messages`;
      const rest = [filter && `on ${filter}`, seq && `below sequence ${seq}`, keep && `but the newest ${keep}`].filter(Boolean).join(" ");
      return `Remove ${which} ${rest} from ${stream}? They cannot be brought back.`.replace("  ", " ");
    },
    action: "Purge",
    danger: true,
    perform: ({ filter, seq, keep }) => post(["streams", stream, "purge"], { filter, seq: seq ? Number(seq) : 0, keep: keep ? Number(keep) : 0 }),
    done,
  });
}

function deletion(kind, name, parts, consequence, done) {
  form({
    title: `Delete ${kind} ${name}`,
    words: consequence,
    fields: [input("confirm", `Type ${name} to confirm`, { required: true }, (value) => { if (value !== name) throw new Error(`Type ${name} to confirm.`); })],
    question: () => `Delete ${kind} ${name} now? It cannot be brought back.`,
    action: "Delete",
    danger: true,
    perform: (values) => post([...parts, "delete"], values),
    done,
  });
}

export const deleteStream = (stream, done) =>
  deletion("stream", stream, ["streams", stream], "Its messages and consumers go with it.", done);
export const deleteConsumer = (stream, consumer, done) =>
  deletion("consumer", consumer, ["streams", stream, "consumers", consumer], "Its position and what it has acknowledged go with it.", done);

export function ask(title, question, action, perform, done) {
  form({ title, fields: [], question: () => question, action, danger: true, perform, done });
}
