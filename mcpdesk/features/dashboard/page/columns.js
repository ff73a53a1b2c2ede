// Columns of the traffic, from left to right. The headings, the cells of a row and the grid are made from this list.

import { byId, el, setText, span } from "./dom.js";
import { clock, duration, now, oneLine, size } from "./words.js";
import { LOOKS } from "./states.js";

const LARGE_BYTES = 1 << 20;
const LAYOUTS = ["wide", "82rem", "72rem", "58rem"];  // style.css uses the same names

// name: class of the cells
// widths: track of the grid in each layout; "" leaves the column out
// look: other classes of the cells, such as their colour; `right` aligns them
// cell: text or nodes for a row
// kind: class of one cell, by its row
// ticks: the cell of a pending row changes with time
//
// Below 43rem, a row has several lines. Only the columns with a position in style.css are shown there.
const COLUMNS = [
  { name: "time", title: "time", widths: ["12ch", "12ch", "12ch", "8ch"], look: "muted", cell: row => clock(row.time) },
  { name: "peer", title: "peer", widths: ["minmax(9ch, 16ch)", "minmax(9ch, 15ch)", "minmax(9ch, 15ch)", "minmax(8ch, 13ch)"],
    cell: row => oneLine(`${row.replica} ${row.peer}`.trim()) },
  { name: "way", title: "", widths: ["1ch", "1ch", "1ch", "1ch"], cell: row => (row.kind === "notification" ? "⇢⇠" : "→←")[row.out ? 1 : 0] },
  { name: "what", title: "message", widths: ["minmax(0, 1fr)", "minmax(0, 1fr)", "minmax(0, 1fr)", "minmax(0, 1fr)"], cell: message },
  { name: "id", title: "id", widths: ["7ch", "7ch", "6ch", ""], look: "muted right", cell: row => row.id === null ? "" : `#${oneLine(row.id)}` },
  { name: "status", title: "status", widths: ["13ch", "13ch", "13ch", "13ch"], cell: row => `${statusOf(row)[0]} ${statusOf(row)[2]}`.trim(),
    kind: row => statusOf(row)[1] },
  { name: "took", title: "took", widths: ["9ch", "9ch", "9ch", "8ch"], look: "right", cell: tookText, kind: row => row.slow ? "warn" : "", ticks: true },
  { name: "size", title: "size", widths: ["9ch", "9ch", "8ch", ""], look: "muted right",
    cell: row => `${row.size >= LARGE_BYTES ? "▲" : ""}${size(row.size)}`, kind: row => row.size >= LARGE_BYTES ? "warn" : "" },
  { name: "revision", title: "revision, era", widths: ["20ch", "10ch", "", ""], look: "muted", cell: row => oneLine(row.revision) },
];

const classesOf = ({ name, widths, look = "" }) =>
  [name, look, ...LAYOUTS.filter((_, at) => !widths[at]).map(layout => `not-${layout}`)].filter(Boolean).join(" ");
const CLASSES = COLUMNS.map(classesOf);

LAYOUTS.forEach((layout, at) =>
  byId("traffic").style.setProperty(`--columns-${layout}`, COLUMNS.map(({ widths }) => widths[at]).filter(Boolean).join(" ")));
byId("traffic-heads").append(...COLUMNS.map(({ title }, at) => span(CLASSES[at], title)));

export const emptyCells = () => CLASSES.map(classes => el("span", { class: classes }));

export function fillCells(cells, row) {
  COLUMNS.forEach(({ cell, kind }, at) => {
    const classes = `${CLASSES[at]} ${kind?.(row) ?? ""}`.trim(), content = cell(row);
    if (cells[at].className !== classes) cells[at].className = classes;
    if (typeof content === "string") setText(cells[at], content);
    else cells[at].replaceChildren(...content);
  });
}

export function tickCells(cells, row) {
  COLUMNS.forEach(({ cell, ticks }, at) => { if (ticks) setText(cells[at], cell(row)); });
}

export function message(row) {
  const more = row.more ? [" ", span("more", row.more)] : [];
  if (row.kind === "malformed") return [span("bad", "not a JSON-RPC message")];
  if (row.kind === "response") return [span("warn", "response to no request")];
  return [span("method", oneLine(row.method)), ...(row.name ? [" ", span("name", oneLine(row.name))] : []), ...more];
}

export function statusOf(row) {
  return LOOKS.exchanges[row.status] ?? ["", "", row.status];
}

export function tookText(row) {
  if (!row.request) return "";
  return `${row.slow ? "▲" : ""}${duration(Math.max(0, row.took_s ?? now() - row.time))}`;
}
