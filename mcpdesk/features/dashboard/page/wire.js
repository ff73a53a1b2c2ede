// What goes to the core and comes from it: requests, and the one stream of events.

import { setClock } from "./words.js";

export class Refused extends Error {
  constructor(status, told) {
    super(told.error ?? `the core answered ${status}`);
    this.status = status;
    this.problems = told.problems;
  }
}

async function answered(response) {
  if (response.status === 204) return {};
  let told = {};
  try { told = await response.json(); } catch { /* not from the core: the status says enough */ }
  if (!response.ok) throw new Refused(response.status, told);
  return told;
}

// The second half of a sign-in, beside the cookie: other ports of this host receive the cookie, but not this key.
const PAGE_KEY = "mcpdesk-page-key";
let pageKey = "";
try { pageKey = sessionStorage.getItem(PAGE_KEY) ?? ""; } catch { /* no storage: signed in until it is reloaded */ }

function setPageKey(key) {
  pageKey = key;
  try { sessionStorage.setItem(PAGE_KEY, key); } catch { /* as above */ }
}

const own = (headers = {}) => pageKey ? { "X-Mcpdesk-Page": pageKey, ...headers } : headers;

export async function ask(name, query = {}) {
  const search = new URLSearchParams(query).toString();
  return answered(await fetch(`/dashboard/${name}${search && "?" + search}`, { headers: own() }));
}

export async function tell(name, given = {}) {
  return answered(await fetch(`/dashboard/${name}`, {
    method: "POST",
    headers: own({ "Content-Type": "application/json" }),
    body: JSON.stringify(given),
  }));
}

// `word` is the operator's key, or that of a sign-in link.
export async function signIn(word) {
  const { page_key: key } = await tell("sign-in", { word });
  setPageKey(key);
}

export async function signOut() {
  await tell("sign-out").catch(() => {});
  setPageKey("");
}

// The events of a response as they arrive: [name, data] each. EventSource cannot send the page key.
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

// The stream. `hear(name, data)` gets every event, `turn(state)` hears "on", "off", "out" (not signed in) and "full" (too many pages).
export class Stream {
  constructor(hear, turn) {
    this.hear = hear;
    this.turn = turn;
    this.wanted = { filter: "", job: "" };
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
    const headers = own({ Accept: "text/event-stream" });
    const response = await fetch("/dashboard/events", { headers, signal: source.signal, cache: "no-store" });
    if (!response.ok) return;
    for await (const [name, told] of eventsOf(response)) {
      if (this.source !== source) return;
      if (name === "hello") this.begin(told);
      else if (name === "closed") {
        this.close();
        this.turn("full");
      } else this.hear(name, told);
    }
  }

  begin({ page, now }) {
    setClock(now);
    this.page = page;
    this.turn("on");
    if (this.wanted.filter || this.wanted.job) this.watch({}).catch(() => {});
  }

  close() {
    clearTimeout(this.retry);
    this.source?.abort();
    this.source = this.page = null;
  }

  async lost() {
    this.close();
    this.turn("off");
    try {
      const session = await ask("session");
      if (!session.signed_in) return this.turn("out");
    } catch { /* nobody is there: try again */ }
    this.retry = setTimeout(() => this.open(), 2000);
  }

  // Say what this page looks at: a filter, and the job whose output is open.
  async watch(change) {
    const { filter } = this.wanted;
    Object.assign(this.wanted, change);
    try {
      if (this.page) await tell("watch", { page: this.page, ...this.wanted });
    } catch (error) {
      if (error.status === 422) this.wanted.filter = filter;
      throw error;
    }
  }
}
