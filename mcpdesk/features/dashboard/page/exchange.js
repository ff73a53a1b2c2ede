// Dialog with one exchange: both messages, their HTTP heads, and the notifications during the exchange.

import { byId, copy, el, setText, span } from "./dom.js";
import { clean, clock, duration, oneLine, size, onReplica } from "./words.js";
import { ask } from "./wire.js";
import { message, statusOf, tookText } from "./columns.js";
import { exchangesInSight, focusOn } from "./traffic.js";

const MAX_COLOURED_LENGTH = 60_000;  // maximum number of characters of JSON that is shown in colours
const TOKENS = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(?:true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const dialog = byId("exchange"), body = byId("exchange-body"), title = byId("exchange-title");
let shownNumber = null, shownStatus = "";

export async function openExchange(number) {
  shownNumber = number;
  if (!dialog.open) { body.replaceChildren(); title.textContent = "…"; dialog.showModal(); title.focus(); }
  await load(number);
}

// Loads the shown exchange again if its status has changed.
export function exchangeChanged(row) {
  if (dialog.open && row.n === shownNumber && shownStatus && row.status !== shownStatus) load(row.n);
}

async function load(number) {
  try {
    const data = await ask("exchange", { number: String(number) });
    if (number !== shownNumber) return;
    shownStatus = data.row.status;
    show(data);
  } catch (error) {
    body.replaceChildren(el("p", { class: "problem" }, error.message));
  }
  const order = exchangesInSight(), at = order.indexOf(number);
  byId("exchange-newer").disabled = at <= 0;
  byId("exchange-older").disabled = at < 0 || at >= order.length - 1;
}

function show(data) {
  const { row } = data, [glyph, kind, word] = statusOf(row);
  title.replaceChildren(...message(row), " ", span(kind, `${glyph} ${word}`.trim()), ` ${tookText(row)}`);
  const facts = [`${oneLine(row.peer)} ${row.out ? "←" : "→"} ${oneLine(onReplica(row.server || "server", row.replica))}`, clock(row.time),
    row.id === null ? "" : `#${oneLine(row.id)}`, size(row.size), oneLine(row.revision), data.transport, row.more];
  body.replaceChildren(
    el("p", { class: "muted" }, facts.filter(Boolean).join(" · ")),
    row.slow ? el("p", { class: "warn" }, "▲ slow for its kind") : "",
    ...phases(data.phases),
    data.curl ? el("p", { class: "tools" }, el("button", { type: "button", onclick: () => copy(data.curl, "the curl command, secrets masked") }, "Copy as curl")) : "",
    ...side(row.kind === "notification" ? "Notification" : "Request", data.request),
    ...side("Response", data.response),
    ...events(data),
    ...parts(data.parts));
  body.scrollTop = 0;
}

// Time of each phase, as a bar and in words.
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

function side(name, data) {
  if (!data || data.missing === "") return [];
  if (data.missing) return [el("h3", {}, name), el("p", { class: "muted" }, data.missing)];
  return [
    el("div", { class: "side" }, el("h3", {}, name), el("button", { type: "button", class: "quiet", onclick: () => copy(data.text, `the ${name.toLowerCase()}`) }, "Copy", span("hidden", ` the ${name.toLowerCase()}`))),
    data.problem ? el("p", { class: "warn" }, clean(data.problem)) : "",
    el("pre", { class: "json", tabindex: "0", "aria-label": name }, ...coloured(clean(data.text))),
    data.http ? http(data.http) : "",
  ];
}

function http({ line, headers }) {
  return el("details", {}, el("summary", {}, "HTTP"), el("dl", { class: "http" },
    el("dd", { class: "line" }, clean(line)), headers.map(([name, value]) => [el("dt", {}, clean(name)), el("dd", {}, clean(value))])));
}

function events(data) {
  if (!data.events_count) return [];
  return [el("h3", {}, `Notifications: ${data.events_count}`), el("ol", { class: "events" }, data.events.map(event =>
    el("li", {}, span("muted", event.after_s === null ? "" : `+${duration(event.after_s)} `), oneLine(event.method), el("pre", { class: "json" }, ...coloured(clean(event.text))))))];
}

function parts(rows) {
  if (!rows.length) return [];
  return [el("h3", {}, "Parts"), el("ol", { class: "events" }, rows.map(row => el("li", {},
    el("button", { type: "button", class: "quiet", onclick: () => openExchange(row.n) }, clock(row.time), " ", ...message(row)), " ", statusOf(row)[2])))];
}

// Returns JSON as texts, and as elements with the class of their colour.
function coloured(text) {
  if (text.length > MAX_COLOURED_LENGTH) return [text];
  const pieces = [];
  let end = 0;
  for (const match of text.matchAll(TOKENS)) {
    if (match.index > end) pieces.push(text.slice(end, match.index));
    end = match.index + match[0].length;
    if (match[2]) pieces.push(span("key", match[1]), match[2]);
    else pieces.push(span(match[1] ? "text" : "other", match[0]));
  }
  pieces.push(text.slice(end));
  return pieces;
}

function step(by) {
  const order = exchangesInSight(), next = order[order.indexOf(shownNumber) + by];
  if (next !== undefined) openExchange(next);
}

byId("exchange-newer").addEventListener("click", () => step(-1));
byId("exchange-older").addEventListener("click", () => step(1));
byId("exchange-close").addEventListener("click", () => dialog.close());
dialog.addEventListener("click", event => { if (event.target === dialog) dialog.close(); });
dialog.addEventListener("close", () => { const number = shownNumber; shownNumber = null; shownStatus = ""; focusOn(number); });
