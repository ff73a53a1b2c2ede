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

export async function ask(name, query = {}) {
  const search = new URLSearchParams(query).toString();
  return answered(await fetch(`/dashboard/${name}${search && "?" + search}`));
}

export async function tell(name, given = {}, headers = {}) {
  return answered(await fetch(`/dashboard/${name}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body: JSON.stringify(given),
  }));
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
    const source = this.source = new EventSource("/dashboard/events");
    source.addEventListener("hello", event => {
      const { page, now } = JSON.parse(event.data);
      setClock(now);
      this.page = page;
      this.turn("on");
      if (this.wanted.filter || this.wanted.job) this.watch({}).catch(() => {});
    });
    for (const name of ["core", "clients", "questions", "jobs", "callbacks", "logs", "statistics", "rate", "traffic", "output"])
      source.addEventListener(name, event => this.hear(name, JSON.parse(event.data)));
    source.addEventListener("closed", () => {
      this.close();
      this.turn("full");
    });
    source.onerror = () => this.lost();
  }

  close() {
    clearTimeout(this.retry);
    this.source?.close();
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
