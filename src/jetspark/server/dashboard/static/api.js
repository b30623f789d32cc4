// Talking to the server this page came from, and to no other.

let token = "";
export let session = {};

const path = (...parts) => "api/" + parts.map(encodeURIComponent).join("/");

async function answer(response) {
  let document;
  try { document = await response.json(); } catch { document = {}; }
  if (!response.ok) {
    const error = new Error(document.error || `The server answered ${response.status}.`);
    error.status = response.status;
    throw error;
  }
  return document;
}

export async function get(parts, query = {}) {
  const words = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "" && value !== undefined));
  const address = path(...parts) + (words.size ? `?${words}` : "");
  return answer(await fetch(address, { credentials: "same-origin", cache: "no-store" }));
}

export async function post(parts, form) {
  const headers = { "Content-Type": "application/json", "X-Jetspark-Token": token };
  return answer(await fetch(path(...parts), { method: "POST", credentials: "same-origin", headers, body: JSON.stringify(form) }));
}

export async function loadSession() {
  const { token: fresh, ...rest } = await get(["session"]);
  token = fresh;
  session = rest;
  return session;
}

// Beats come every two seconds, and after twenty at the latest.
const SILENCE_MS = 25000;

// Calls back with every beat of the server, and with the state of the line: live, connecting or lost. A page that nobody
// sees does not listen: it costs nothing, and a browser allows only a few lines to one server.
export function listen(onBeat, onState) {
  let source;
  let timer = 0;
  let silence = 0;
  const close = () => { source?.close(); source = undefined; clearTimeout(timer); clearTimeout(silence); };
  const open = () => {
    close();
    if (document.hidden) return;
    const mine = source = new EventSource("api/events");
    const again = (wait_ms) => { timer = setTimeout(open, wait_ms); };
    const expect = () => { clearTimeout(silence); silence = setTimeout(() => { onState("lost"); open(); }, SILENCE_MS); };
    expect();
    mine.addEventListener("beat", (event) => { if (mine === source) { expect(); onState("live"); onBeat(JSON.parse(event.data)); } });
    mine.addEventListener("error", () => {
      if (mine !== source) return;
      onState(mine.readyState === EventSource.CLOSED ? "lost" : "connecting");
      if (mine.readyState === EventSource.CLOSED) again(2000);
    });
  };
  document.addEventListener("visibilitychange", open);
  open();
}
