// Newest exchanges that match the filter. At the top, the list follows new exchanges. After scrolling down or
// pausing, the visible lines do not change.

import { arrange, byId, copy, el, setText, toast } from "./dom.js";
import { grouped } from "./words.js";
import { emptyCells, fillCells, tickCells } from "./columns.js";
import { ask } from "./wire.js";
import { openExchange, exchangeChanged } from "./exchange.js";
import { addressOf, proofs, servers } from "./servers.js";

const MAX_ROWS = 2000;  // maximum number of rows in the page

const rows = new Map(), nodes = new Map();
let order = [];  // numbers of the listed exchanges, newest first
let newest = [];  // numbers that are listed when the list is no longer held
let counts = { shown: 0, total: 0, done: 1, behind: 0, gone: 0, removed: 0 };
let shownWhenHeld = 0, isPaused = false, isDown = false, isRead = false, isHeld = false, isDue = false, current = null, hasOlder = true;
let filter = "", requestedFilter = "";  // filter of the listed exchanges, and the last requested filter
let watch = async () => {};

const list = byId("traffic-list"), scroll = byId("traffic-scroll"), input = byId("filter");
const newer = byId("newer"), older = byId("older"), pause = byId("pause");

export const onFilter = change => { watch = change; };
export const exchangesInSight = () => order;

export function showTraffic(data) {
  if (data.filter !== filter) {
    // The lines of a requested filter may arrive before the response to its request.
    if (data.filter !== requestedFilter || !data.all) return;
    filter = requestedFilter;
    toTop();
  }
  if (data.all) { rows.clear(); nodes.clear(); order = []; isHeld = false; hasOlder = true; }
  hold();
  for (const row of data.rows) {
    rows.set(row.n, row);
    exchangeChanged(row);
  }
  counts = data;
  newest = data.lines;
  if (rows.size > 2 * MAX_ROWS) prune([...order, ...newest]);
  if (!isDue) requestAnimationFrame(() => { isDue = false; settle(); });
  isDue = true;  // the list is drawn once a frame, even if several updates arrive
}

// Holds the list while it is paused, scrolled down, or has the focus.
function hold() {
  const holds = order.length > 0 && (isPaused || isDown || isRead);
  if (holds && !isHeld) shownWhenHeld = counts.shown;
  isHeld = holds;
}

// Lists the newest exchanges, unless the list is held.
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
  const listedNumbers = new Set(numbers);
  for (const number of [...rows.keys()]) if (!listedNumbers.has(number)) rows.delete(number);
}

function toTop() {
  scroll.scrollTop = 0;
  isDown = isRead = false;
}

// Draws the list. Nodes of removed lines are used again for new lines, because creating nodes is slow.
function draw() {
  const listedNumbers = new Set(order), spare = [];
  for (const [number, node] of nodes) if (!listedNumbers.has(number)) { nodes.delete(number); spare.push(node); }
  spare.reverse();
  arrange(list, order, number => {
    let node = nodes.get(number);
    if (!node) {
      nodes.set(number, node = spare.pop() ?? createNode());
      node.firstElementChild.dataset.n = number;
    }
    fill(node, rows.get(number));
    return node;
  });
  if (!nodes.has(current)) current = order[0] ?? null;
  for (const [number, node] of nodes) node.firstElementChild.tabIndex = number === current ? 0 : -1;
}

function createNode() {
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
  older.hidden = !many || !hasOlder || last === undefined || order.length >= MAX_ROWS;
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
  const hint = byId("no-traffic"), isEmpty = order.length === 0;
  hint.hidden = !isEmpty;
  const lesson = !isEmpty ? "" : counts.total && filter ? "filter" : counts.behind ? "reading" : `first ${servers()[0]?.name ?? ""}`;
  if (hint.dataset.lesson === lesson) return;
  hint.dataset.lesson = lesson;
  if (lesson === "filter") {
    hint.replaceChildren(el("p", {}, "Nothing matches the filter. "),
      el("button", { type: "button", onclick: () => { input.value = ""; apply(); input.focus(); } }, "Clear the filter"));
  } else if (lesson.startsWith("first") && servers().length) {
    const proof = proofs().map(header => ` -H '${header}'`).join("");
    const command = `curl -sS -H 'Content-Type: application/json'${proof} -d '{"jsonrpc":"2.0","id":1,"method":"tools/list"}' ${addressOf(servers()[0])}`;
    hint.replaceChildren(el("p", {}, "No messages yet. Connect a client, or try by hand:"), el("pre", {}, command),
      el("button", { type: "button", onclick: () => copy(command, "the command") }, "Copy the command"));
  } else hint.replaceChildren(el("p", {}, lesson === "reading" ? "Reading the earlier traffic…" : "No messages yet."));
}

async function apply() {
  const filterText = input.value.trim(), problem = byId("filter-problem");
  if (filterText === requestedFilter && !problem.textContent) return;
  requestedFilter = filterText;
  setText(byId("traffic-counts"), "searching…");
  try {
    await watch(filterText);
    problem.textContent = "";
    input.removeAttribute("aria-invalid");
  } catch (error) {
    requestedFilter = filter;
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
// The scroll position is read only when it changes. Reading it at every update would force a layout of the page.
scroll.addEventListener("scroll", () => {
  const was = isDown;
  isDown = scroll.scrollTop > 8;
  if (isDown !== was && !isPaused) settle();
}, { passive: true });

older.addEventListener("click", async () => {
  try {
    const answer = await ask("older", { filter, before: String(order.at(-1)) });
    const first = answer.rows[0]?.n;
    for (const row of answer.rows) rows.set(row.n, row);
    order = [...order, ...answer.rows.map(row => row.n)];
    hasOlder = answer.rows.length > 0;
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
