// One exchange in full, in a drawer: both messages, what HTTP said around them, what came along.

import { byId, copy, el, setText, span } from "./dom.js";
import { clean, clock, duration, oneLine, size, onReplica } from "./words.js";
import { ask } from "./wire.js";
import { message, statusOf, tookText } from "./columns.js";
import { exchangesInSight, focusOn } from "./traffic.js";

const COLOURED = 60_000;  // characters beyond which JSON stays in one colour
const TOKENS = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(?:true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const dialog = byId("exchange"), body = byId("exchange-body"), title = byId("exchange-title");
let shown = null, seen = "";

export async function openExchange(number) {
  shown = number;
  if (!dialog.open) { body.replaceChildren(); title.textContent = "…"; dialog.showModal(); title.focus(); }
  await load(number);
}

// The line of an exchange changed: what is open is looked at again.
export function exchangeChanged(row) {
  if (dialog.open && row.n === shown && seen && row.status !== seen) load(row.n);
}

async function load(number) {
  try {
    const told = await ask("exchange", { number: String(number) });
    if (number !== shown) return;
    seen = told.row.status;
    show(told);
  } catch (error) {
    body.replaceChildren(el("p", { class: "problem" }, error.message));
  }
  const order = exchangesInSight(), at = order.indexOf(number);
  byId("exchange-newer").disabled = at <= 0;
  byId("exchange-older").disabled = at < 0 || at >= order.length - 1;
}

function show(told) {
  const { row } = told, [glyph, kind, word] = statusOf(row);
  title.replaceChildren(...message(row), " ", span(kind, `${glyph} ${word}`.trim()), ` ${tookText(row)}`);
  const facts = [`${oneLine(row.peer)} ${row.out ? "←" : "→"} ${oneLine(onReplica(row.server || "server", row.replica))}`, clock(row.time),
    row.id === null ? "" : `#${oneLine(row.id)}`, size(row.size), oneLine(row.revision), told.transport, row.more];
  body.replaceChildren(
    el("p", { class: "muted" }, facts.filter(Boolean).join(" · ")),
    row.slow ? el("p", { class: "warn" }, "▲ slow for its kind") : "",
    ...phases(told.phases),
    told.curl ? el("p", { class: "tools" }, el("button", { type: "button", onclick: () => copy(told.curl, "the curl command, secrets masked") }, "Copy as curl")) : "",
    ...side(row.kind === "notification" ? "Notification" : "Request", told.request),
    ...side("Response", told.response),
    ...events(told),
    ...parts(told.parts));
  body.scrollTop = 0;
}

// Where the time went, as one bar and in words.
function phases(spans) {
  if (spans.length < 2) return [];
  const bars = spans.map(({ kind, seconds }) => {
    const part = span(`phase ${kind}`, "");
    part.style.flexGrow = seconds;
    return part;
  });
  const words = spans.map(({ words, seconds }) => `${words} ${duration(seconds)}`).join(" · ");
  return [el("div", { class: "phases", "aria-hidden": "true" }, bars), el("p", { class: "muted" }, words)];
}

function side(name, told) {
  if (!told || told.missing === "") return [];
  if (told.missing) return [el("h3", {}, name), el("p", { class: "muted" }, told.missing)];
  return [
    el("div", { class: "side" }, el("h3", {}, name), el("button", { type: "button", class: "quiet", onclick: () => copy(told.text, `the ${name.toLowerCase()}`) }, "Copy", span("hidden", ` the ${name.toLowerCase()}`))),
    told.problem ? el("p", { class: "warn" }, clean(told.problem)) : "",
    el("pre", { class: "json", tabindex: "0", "aria-label": name }, ...coloured(clean(told.text))),
    told.http ? http(told.http) : "",
  ];
}

function http({ line, headers }) {
  return el("details", {}, el("summary", {}, "HTTP"), el("dl", { class: "http" },
    el("dd", { class: "line" }, clean(line)), headers.map(([name, value]) => [el("dt", {}, clean(name)), el("dd", {}, clean(value))])));
}

function events(told) {
  if (!told.events_count) return [];
  return [el("h3", {}, `Came along: ${told.events_count}`), el("ol", { class: "events" }, told.events.map(event =>
    el("li", {}, span("muted", event.after_s === null ? "" : `+${duration(event.after_s)} `), oneLine(event.method), el("pre", { class: "json" }, ...coloured(clean(event.text))))))];
}

function parts(rows) {
  if (!rows.length) return [];
  return [el("h3", {}, "Belongs to it"), el("ol", { class: "events" }, rows.map(row => el("li", {},
    el("button", { type: "button", class: "quiet", onclick: () => openExchange(row.n) }, clock(row.time), " ", ...message(row)), " ", statusOf(row)[2])))];
}

// JSON in colours: pieces of text in elements of their own.
function coloured(text) {
  if (text.length > COLOURED) return [text];
  const pieces = [];
  let at = 0;
  for (const found of text.matchAll(TOKENS)) {
    if (found.index > at) pieces.push(text.slice(at, found.index));
    at = found.index + found[0].length;
    if (found[2]) pieces.push(span("key", found[1]), found[2]);
    else pieces.push(span(found[1] ? "text" : "other", found[0]));
  }
  pieces.push(text.slice(at));
  return pieces;
}

function step(by) {
  const order = exchangesInSight(), next = order[order.indexOf(shown) + by];
  if (next !== undefined) openExchange(next);
}

byId("exchange-newer").addEventListener("click", () => step(-1));
byId("exchange-older").addEventListener("click", () => step(1));
byId("exchange-close").addEventListener("click", () => dialog.close());
dialog.addEventListener("click", event => { if (event.target === dialog) dialog.close(); });
dialog.addEventListener("close", () => { const number = shown; shown = null; seen = ""; focusOn(number); });
