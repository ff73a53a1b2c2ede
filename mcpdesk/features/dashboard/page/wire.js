// Requests to the core, and the stream of events from it.

import { setClock } from "./words.js";

export class Refused extends Error {
  constructor(status, data) {
    super(data.error ?? `the core answered ${status}`);
    this.status = status;
    this.problems = data.problems;
  }
}

async function jsonOf(response) {
  if (response.status === 204) return {};
  let data = {};
  try { data = await response.json(); } catch { /* a proxy answered, so only the status is known */ }
  if (!response.ok) throw new Refused(response.status, data);
  return data;
}

// Second credential of a sign-in, besides the cookie. Other ports of this host receive the cookie, but not this key.
const PAGE_KEY = "mcpdesk-page-key";
let pageKey = "";
try { pageKey = sessionStorage.getItem(PAGE_KEY) ?? ""; } catch { /* without storage, a reload signs out */ }

function setPageKey(key) {
  pageKey = key;
  try { sessionStorage.setItem(PAGE_KEY, key); } catch { /* without storage, a reload signs out */ }
}

const withPageKey = (headers = {}) => pageKey ? { "X-Mcpdesk-Page": pageKey, ...headers } : headers;

export async function ask(name, query = {}) {
  const search = new URLSearchParams(query).toString();
  return jsonOf(await fetch(`/dashboard/${name}${search && "?" + search}`, { headers: withPageKey() }));
}

export async function post(name, given = {}) {
  return jsonOf(await fetch(`/dashboard/${name}`, {
    method: "POST",
    headers: withPageKey({ "Content-Type": "application/json" }),
    body: JSON.stringify(given),
  }));
}

// Signs in. `word` is the operator's key, or the word of a sign-in link.
export async function signIn(word) {
  const { page_key: key } = await post("sign-in", { word });
  setPageKey(key);
}

export async function signOut() {
  await post("sign-out").catch(() => {});
  setPageKey("");
}

// Yields the events of a response as [name, data]. EventSource is not used, because it cannot send the page key.
async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      let name = "", data = "";
      for (const line of part.split("\n")) {
        if (line.startsWith("event: ")) name = line.slice(7);
        else if (line.startsWith("data: ")) data = line.slice(6);
      }
      if (name) yield [name, JSON.parse(data)];
    }
  }
}

// Stream of events. `onEvent(name, data)` is called with every event. `onState(state)` is called with "on", "off",
// "out" (not signed in) or "full" (too many pages).
export class Stream {
  constructor(onEvent, onState) {
    this.onEvent = onEvent;
    this.onState = onState;
    this.watched = { filter: "", job: "" };
    this.page = null;
    this.source = null;
    this.retry = null;
  }

  open() {
    this.close();
    const source = this.source = new AbortController();
    this.read(source).catch(() => {}).then(() => { if (this.source === source) this.lost(); });
  }

  async read(source) {
    const headers = withPageKey({ Accept: "text/event-stream" });
    const response = await fetch("/dashboard/events", { headers, signal: source.signal, cache: "no-store" });
    if (!response.ok) return;
    for await (const [name, data] of eventsOf(response)) {
      if (this.source !== source) return;
      if (name === "hello") this.begin(data);
      else if (name === "closed") {
        this.close();
        this.onState("full");
      } else this.onEvent(name, data);
    }
  }

  begin({ page, now }) {
    setClock(now);
    this.page = page;
    this.onState("on");
    if (this.watched.filter || this.watched.job) this.watch({}).catch(() => {});
  }

  close() {
    clearTimeout(this.retry);
    this.source?.abort();
    this.source = this.page = null;
  }

  async lost() {
    this.close();
    this.onState("off");
    try {
      const session = await ask("session");
      if (!session.signed_in) return this.onState("out");
    } catch { /* the core does not answer */ }
    this.retry = setTimeout(() => this.open(), 2000);
  }

  // Sends the filter of this page, and the job whose output is open.
  async watch(change) {
    const { filter } = this.watched;
    Object.assign(this.watched, change);
    try {
      if (this.page) await post("watch", { page: this.page, ...this.watched });
    } catch (error) {
      if (error.status === 422) this.watched.filter = filter;
      throw error;
    }
  }
}
