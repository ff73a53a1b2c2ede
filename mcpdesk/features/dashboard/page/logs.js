// Newest lines of the log, of all replicas.

import { arrange, byId, el, span } from "./dom.js";
import { clean, clock, oneLine } from "./words.js";

const KINDS = { debug: "muted", info: "muted", notice: "muted", warning: "warn" };
const nodes = new Map();

export function showLogs({ lines }) {
  byId("no-logs").hidden = lines.length > 0;
  const known = new Set(lines.map(line => line.number));
  for (const number of nodes.keys()) if (!known.has(number)) nodes.delete(number);
  arrange(byId("log-list"), lines, line => {
    if (!nodes.has(line.number)) nodes.set(line.number, createNode(line));
    return nodes.get(line.number);
  });
}

function createNode(line) {
  const source = line.tool || line.source.split(".").pop();
  const from = [line.replica, line.server, source].filter(Boolean).map(oneLine).join(" · ");
  return el("li", {},
    span("time", clock(line.time, true)), span(`level ${KINDS[line.level] ?? "bad"}`, oneLine(line.level)),
    span("from", from),
    span("text", clean(line.text)));
}
