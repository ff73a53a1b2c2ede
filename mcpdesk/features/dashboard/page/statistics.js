// Statistics of calls by tool and by client: numbers, durations and costs. A click on a heading sorts the rows.

import { byId, el } from "./dom.js";
import { duration, oneLine, size } from "./words.js";

const number = value => value === null ? "–" : value.toLocaleString("en");
const took = value => value === null ? "–" : duration(value);
const COLUMNS = [
  ["name", "name", oneLine], ["server", "server", oneLine], ["calls", "calls", number], ["errors", "errors", number],
  ["p50_s", "p50", took], ["p95_s", "p95", took], ["p99_s", "p99", took], ["bytes_in", "in", size], ["bytes_out", "out", size],
  ["result_tokens", "result tok", number], ["definition_tokens", "def tok", number],
];
const isText = field => field === "name" || field === "server";
const section = byId("statistics"), heads = section.querySelector("thead tr"), body = section.querySelector("tbody");
let data = { tools: [], clients: [] }, by = "tools", order = "calls";

for (const [field, title] of COLUMNS) {
  heads.append(el("th", { scope: "col", class: isText(field) ? "" : "number", "data-field": field },
    el("button", { type: "button", class: "quiet", onclick: () => { order = field; draw(); } }, title)));
}
for (const button of section.querySelectorAll("[data-by]")) button.addEventListener("click", () => { by = button.dataset.by; draw(); });

export function showStatistics(news) {
  data = news;
  draw();
}

function draw() {
  const [total, ...rows] = data[by];
  rows.sort((a, b) => isText(order) ? a[order].localeCompare(b[order]) : (b[order] ?? -1) - (a[order] ?? -1));
  for (const button of section.querySelectorAll("[data-by]")) button.setAttribute("aria-pressed", String(button.dataset.by === by));
  for (const head of heads.children) {
    if (head.dataset.field === order) head.setAttribute("aria-sort", isText(order) ? "ascending" : "descending");
    else head.removeAttribute("aria-sort");
  }
  byId("no-statistics").hidden = rows.length > 0;
  section.querySelector(".scroll").hidden = rows.length === 0;
  body.replaceChildren(...(rows.length ? [total, ...rows] : []).map(row => el("tr", {}, COLUMNS.map(([field, , words]) =>
    el("td", { class: isText(field) ? field : `number${field === "errors" && row.errors ? " bad" : ""}` }, words(row[field]))))));
}
