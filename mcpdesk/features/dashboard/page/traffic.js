// The newest messages through a filter. Follows at the top; whoever scrolls down or pauses keeps their place.

import { arrange, byId, copy, el, setText, toast } from "./dom.js";
import { grouped } from "./words.js";
import { emptyCells, fillCells, tickCells } from "./columns.js";
import { ask } from "./wire.js";
import { openExchange, exchangeChanged } from "./exchange.js";
import { addressOf, proofs, servers } from "./servers.js";

const MOST = 2000;  // rows in the page, however many older ones are shown

const rows = new Map(), nodes = new Map();
let order = [];  // numbers in sight, the newest first
let newest = [];  // what would be in sight if nobody held it
let counts = { shown: 0, total: 0, done: 1, behind: 0, gone: 0, removed: 0 };
let shownWhenHeld = 0, isPaused = false, isDown = false, isRead = false, isHeld = false, isDue = false, current = null, hasOlder = true;
let filter = "", wanted = "";  // what is shown, and what was asked for
let watch = async () => {};

const list = byId("traffic-list"), scroll = byId("traffic-scroll"), input = byId("filter");
const newer = byId("newer"), older = byId("older"), pause = byId("pause");

export const onFilter = change => { watch = change; };
export const exchangesInSight = () => order;

export function showTraffic(told) {
  if (told.filter !== filter) {
    // What was asked for last may come before the answer that it will.
    if (told.filter !== wanted || !told.all) return;
    filter = wanted;
    toTop();
  }
  if (told.all) { rows.clear(); nodes.clear(); order = []; isHeld = false; hasOlder = true; }
  hold();
  for (const row of told.rows) {
    rows.set(row.n, row);
    exchangeChanged(row);
  }
  counts = told;
  newest = told.lines;
  if (rows.size > 2 * MOST) prune([...order, ...newest]);
  if (!isDue) requestAnimationFrame(() => { isDue = false; settle(); });
  isDue = true;  // however many come until the next picture, it is drawn once
}

// Whoever reads further down, walks along the lines, or paused, keeps what is in sight.
function hold() {
  const holds = order.length > 0 && (isPaused || isDown || isRead);
  if (holds && !isHeld) shownWhenHeld = counts.shown;
  isHeld = holds;
}

// Take up the newest lines, unless they are held.
function settle() {
  hold();
  if (!isHeld) {
    order = newest;
    prune(order);
  }
  draw();
  describe();
}

function prune(numbers) {
  const wanted = new Set(numbers);
  for (const number of [...rows.keys()]) if (!wanted.has(number)) rows.delete(number);
}

function toTop() {
  scroll.scrollTop = 0;
  isDown = isRead = false;
}

// Lines that went out of sight become those that came: while much passes nothing is made anew.
function draw() {
  const wanted = new Set(order), spare = [];
  for (const [number, node] of nodes) if (!wanted.has(number)) { nodes.delete(number); spare.push(node); }
  spare.reverse();
  arrange(list, order, number => {
    let node = nodes.get(number);
    if (!node) {
      nodes.set(number, node = spare.pop() ?? made());
      node.firstElementChild.dataset.n = number;
    }
    fill(node, rows.get(number));
    return node;
  });
  if (!nodes.has(current)) current = order[0] ?? null;
  for (const [number, node] of nodes) node.firstElementChild.tabIndex = number === current ? 0 : -1;
}

function made() {
  return el("li", {}, el("button", { type: "button", class: "row" }, emptyCells()));
}

function fill(node, row) {
  if (node.row === row) return;
  node.row = row;
  node.firstElementChild.classList.toggle("negotiation", row.status === "negotiation");
  fillCells(node.firstElementChild.children, row);
}

export function tickTraffic() {
  for (const number of order) {
    const row = rows.get(number);
    if (row?.status === "pending") tickCells(nodes.get(number).firstElementChild.children, row);
  }
}

function describe() {
  const came = isHeld ? Math.max(0, counts.shown - shownWhenHeld) : 0;
  const mode = byId("traffic-mode");
  setText(mode, isPaused ? `paused${came ? `, ${grouped(came)} waiting` : ""}` : isHeld ? "holding" : "following");
  mode.classList.toggle("held", isHeld || isPaused);
  newer.hidden = !came || isPaused;
  setText(newer, `↑ ${grouped(came)} newer`);
  const last = order.at(-1), many = counts.shown > order.length;
  older.hidden = !many || !hasOlder || last === undefined || order.length >= MOST;
  const noun = counts.total === 1 ? "exchange" : "exchanges";
  const total = grouped(counts.total), shown = grouped(counts.shown);
  const parts = [filter ? `${shown} of ${total} ${noun}` : `${total} ${noun}`];
  if (counts.shown > order.length) parts.push(`the newest ${grouped(order.length)} in sight`);
  if (counts.done < 1) parts.push(`searching ${Math.round(counts.done * 100)} %`);
  if (counts.behind) parts.push(`${grouped(counts.behind)} frames not read yet`);
  if (counts.removed) parts.push(`${grouped(counts.removed)} frames removed from the capture`);
  if (counts.gone) parts.push(`${grouped(counts.gone)} frames deleted`);
  setText(byId("traffic-counts"), parts.join(" · "));
  teach();
}

function teach() {
  const place = byId("no-traffic"), isEmpty = order.length === 0;
  place.hidden = !isEmpty;
  const lesson = !isEmpty ? "" : counts.total && filter ? "filter" : counts.behind ? "reading" : `first ${servers()[0]?.name ?? ""}`;
  if (place.dataset.lesson === lesson) return;
  place.dataset.lesson = lesson;
  if (lesson === "filter") {
    place.replaceChildren(el("p", {}, "Nothing matches the filter. "),
      el("button", { type: "button", onclick: () => { input.value = ""; apply(); input.focus(); } }, "Clear the filter"));
  } else if (lesson.startsWith("first") && servers().length) {
    const proof = proofs().map(header => ` -H '${header}'`).join("");
    const command = `curl -sS -H 'Content-Type: application/json'${proof} -d '{"jsonrpc":"2.0","id":1,"method":"tools/list"}' ${addressOf(servers()[0])}`;
    place.replaceChildren(el("p", {}, "No messages yet. Connect a client, or try by hand:"), el("pre", {}, command),
      el("button", { type: "button", onclick: () => copy(command, "the command") }, "Copy the command"));
  } else place.replaceChildren(el("p", {}, lesson === "reading" ? "Reading the earlier traffic…" : "No messages yet."));
}

async function apply() {
  const asked = input.value.trim(), problem = byId("filter-problem");
  if (asked === wanted && !problem.textContent) return;
  wanted = asked;
  setText(byId("traffic-counts"), "searching…");
  try {
    await watch(asked);
    problem.textContent = "";
    input.removeAttribute("aria-invalid");
  } catch (error) {
    wanted = filter;
    describe();
    problem.textContent = error.message;
    input.setAttribute("aria-invalid", "true");
  }
}

let typing = null;
input.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(apply, 250); });
byId("traffic-form").addEventListener("submit", event => { event.preventDefault(); clearTimeout(typing); apply(); });

pause.addEventListener("click", () => {
  isPaused = !isPaused;
  pause.setAttribute("aria-pressed", String(isPaused));
  setText(pause, isPaused ? "Resume" : "Pause");
  if (!isPaused) toTop();
  settle();
});
newer.addEventListener("click", () => { toTop(); settle(); scroll.focus({ preventScroll: true }); });
// Where it stands is noted when it moves: asking at every message would lay the page out each time.
scroll.addEventListener("scroll", () => {
  const was = isDown;
  isDown = scroll.scrollTop > 8;
  if (isDown !== was && !isPaused) settle();
}, { passive: true });

older.addEventListener("click", async () => {
  try {
    const found = await ask("older", { filter, before: String(order.at(-1)) });
    const first = found.rows[0]?.n;
    for (const row of found.rows) rows.set(row.n, row);
    order = [...order, ...found.rows.map(row => row.n)];
    hasOlder = found.rows.length > 0;
    draw();
    describe();
    if (first !== undefined) focusOn(first);
  } catch (error) {
    toast(error.message, true);
  }
});

export function focusOn(number) {
  const button = nodes.get(number)?.firstElementChild;
  if (!button) return;
  if (nodes.has(current)) nodes.get(current).firstElementChild.tabIndex = -1;
  current = number;
  button.tabIndex = 0;
  button.focus();
}

const STEPS = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };
list.addEventListener("keydown", event => {
  const step = STEPS[event.key];
  if (step === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  focusOn(order[Math.max(0, Math.min(order.length - 1, order.indexOf(current) + step))]);
});
list.addEventListener("focusin", () => { isRead = true; });
list.addEventListener("focusout", event => {
  isRead = list.contains(event.relatedTarget);
  if (!isRead && !isPaused) settle();
});
list.addEventListener("click", event => {
  const button = event.target.closest("button.row");
  if (button) { focusOn(Number(button.dataset.n)); openExchange(Number(button.dataset.n)); }
});
