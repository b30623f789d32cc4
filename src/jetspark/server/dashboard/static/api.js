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

// Calls back with every beat of the server, and with the state of the line: live, connecting or lost.
export function listen(onBeat, onState) {
  let source;
  let timer = 0;
  const open = () => {
    source = new EventSource("api/events");
    source.addEventListener("beat", (event) => { onState("live"); onBeat(JSON.parse(event.data)); });
    source.addEventListener("error", () => {
      onState(source.readyState === EventSource.CLOSED ? "lost" : "connecting");
      if (source.readyState === EventSource.CLOSED) { clearTimeout(timer); timer = setTimeout(open, 2000); }
    });
  };
  open();
}
