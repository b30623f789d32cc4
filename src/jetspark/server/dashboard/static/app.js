// The page: which view is shown, the beat that keeps it fresh, keys, colours.

import * as api from "./api.js";
import { h, render } from "./dom.js";
import { setClock } from "./format.js";
import { empty } from "./parts.js";
import { watchPlots } from "./plot.js";
import { connections } from "./view_connections.js";
import { consumer } from "./view_consumer.js";
import { messages } from "./view_messages.js";
import { overview } from "./view_overview.js";
import { pipelines } from "./view_pipelines.js";
import { stream, streamConsumers } from "./view_stream.js";
import { streams } from "./view_streams.js";

const main = document.getElementById("main");
const VIEWS = ["overview", "streams", "pipelines", "connections"];
let refresh = null;
let place = h("div");
let visit = 0;
// The visit whose question is under way; a view that was left does not hold up the next.
let busyVisit = 0;

function route() {
  let parts;
  try { parts = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decodeURIComponent); } catch { return ["", "Not found", null]; }
  const [first, name, tab, item] = parts;
  if (!first) return ["overview", "Overview", overview];
  if (first === "pipelines") return ["pipelines", "Pipelines", pipelines];
  if (first === "connections") return ["connections", "Connections", connections];
  if (first !== "streams") return ["", "Not found", null];
  if (!name) return ["streams", "Streams", streams];
  if (tab === "messages") return ["streams", `Messages of ${name}`, (place) => messages(place, name)];
  if (tab === "consumers" && !item) return ["streams", `Consumers of ${name}`, (place) => streamConsumers(place, name)];
  if (tab === "consumers") return ["streams", item, (place) => consumer(place, name, item)];
  return ["streams", name, (place) => stream(place, name, tab ?? "summary")];
}

function showProblem(error) {
  main.replaceChildren(h("div.card", {}, empty(error.status === 404 ? "Not there" : "This did not work", error.message)));
}

async function showView({ focus = false } = {}) {
  const mine = ++visit;
  const [view, title, make] = route();
  document.title = `${title} · Jetspark`;
  for (const link of document.querySelectorAll("#nav a")) {
    if (link.dataset.view === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  refresh = null;
  // A place of its own for each visit: an answer that comes when somebody has gone elsewhere is shown to nobody.
  place = h("div", {}, h("p.loading.muted", {}, "Loading…"));
  main.replaceChildren(place);
  // At once, not when the answer is there: by then somebody may already type into the view's search.
  if (focus) { main.focus({ preventScroll: true }); scrollTo(0, 0); }
  if (!make) { showProblem({ status: 404, message: "There is no such page." }); return; }
  const fresh = await make(place);
  if (mine !== visit) return;
  refresh = fresh;
  await beat();
}

async function beat() {
  const mine = visit;
  if (!refresh || busyVisit === mine) return;
  busyVisit = mine;
  try {
    await refresh();
    // After a problem the view is back as it was left, with what was typed into it.
    if (mine === visit && !place.isConnected) main.replaceChildren(place);
  } catch (error) { if (mine === visit) showProblem(error); } finally { if (busyVisit === mine) busyVisit = 0; }
}

function showSession() {
  const { server, account, user, version, jetspark, allow_changes: changes } = api.session;
  const short = server.length > 24 ? `${server.slice(0, 10)}…` : server;
  render(document.getElementById("who"), h("b", { title: server }, short), h("span", {}, [user, account === "$G" ? "" : account].filter(Boolean).join(" @ ")));
  render(document.getElementById("foot"), `Jetspark ${jetspark} · NATS ${version} · ${changes ? "changes allowed" : "read-only"}`,
    h("span.keys", {}, " · ", h("kbd", {}, "1"), "–", h("kbd", {}, "4"), " views, ", h("kbd", {}, "/"), " find"));
}

function showState(state) {
  const live = document.getElementById("live");
  if (live.dataset.state === state) return;
  const wasAway = live.dataset.state !== "live";
  live.dataset.state = state;
  live.textContent = state === "live" ? "live" : state === "lost" ? "not reachable" : "connecting";
  // After a restart of the server its token is another.
  if (state === "live" && wasAway) api.loadSession().then(showSession, () => {});
}

function showTrouble(figures) {
  const banner = document.getElementById("banner");
  banner.hidden = !figures.disk_error;
  banner.textContent = figures.disk_error ? `The disk refuses writes: ${figures.disk_error}` : "";
}

function watchKeys() {
  addEventListener("keydown", (event) => {
    const isTyping = event.target.closest?.("input, textarea, select, dialog") || event.ctrlKey || event.metaKey || event.altKey;
    if (isTyping) return;
    if (event.key === "/") {
      const search = document.getElementById("search");
      if (search) { search.focus(); event.preventDefault(); }
    } else if ("1234".includes(event.key)) {
      location.hash = event.key === "1" ? "#/" : `#/${VIEWS[Number(event.key) - 1]}`;
    }
  });
}

function watchTheme() {
  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("jetspark-theme", root.dataset.theme); } catch { /* a private window forgets */ }
  });
}

document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
watchTheme();
watchKeys();
watchPlots(main);
addEventListener("hashchange", () => showView({ focus: true }));
try {
  await api.loadSession();
  showSession();
  await showView();
  api.listen((figures) => { setClock(figures.now); showTrouble(figures); beat(); }, showState);
} catch (error) {
  showProblem(error);
}
