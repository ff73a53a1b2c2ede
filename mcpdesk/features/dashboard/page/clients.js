// Clients of the servers.

import { arrange, byId, el, isMeant, setText, span, toast } from "./dom.js";
import { count, duration, now, onReplica, oneLine, since } from "./words.js";
import { LOOKS } from "./states.js";
import { post } from "./wire.js";

const QUIET_S = 60;  // seconds after the last message, from which a client is shown as quiet
const nodes = new Map();
let shownClients = [];

export function showClients({ clients, count: total }) {
  shownClients = clients;
  byId("no-clients").hidden = clients.length > 0;
  const known = new Set(clients.map(client => client.connection));
  for (const key of nodes.keys()) if (!known.has(key)) nodes.delete(key);
  arrange(byId("client-list"), clients, client => {
    const node = nodes.get(client.connection) ?? createNode(client);
    fill(node, client);
    return node;
  });
  return total;
}

export function tickClients() {
  for (const client of shownClients) showTimes(nodes.get(client.connection), client);
}

function createNode(client) {
  const node = el("li", {},
    el("div", { class: "told" },
      el("div", { class: "top" }, span("name", ""), span("presence muted", ""), span("since muted", ""),
        client.transport !== "memory" && el("button", { type: "button", class: "quiet", onclick: () => disconnect(client) }, "Disconnect", span("hidden", " "), span("hidden of", ""))),
      el("p", { class: "sub" }, span("where", ""), span("revision", ""), span("who", ""), span("figures", ""), span("pace", ""), span("tools-seen warn", ""))));
  nodes.set(client.connection, node);
  return node;
}

function fill(node, client) {
  const put = (kind, text) => { const part = node.querySelector(`.${kind}`); if (part) { setText(part, text); part.hidden = !text; } };
  put("name", oneLine(client.name || "no name"));
  put("of", oneLine(client.name));
  put("where", oneLine(onReplica(client.transport ? `${client.server} over ${client.transport}` : client.server, client.replica)));
  put("revision", oneLine(client.revision));
  put("who", [client.caller ? `as ${oneLine(client.caller)}` : "", client.mode ? `in mode ${oneLine(client.mode)}` : ""].filter(Boolean).join(", "));
  put("figures", `${count(client.calls, "call")}, ${count(client.errors, "error")}${client.connections > 1 ? `, ${count(client.connections, "connection")}` : ""}`);
  put("pace", client.p50_s === null ? "" : `p50 ${duration(client.p50_s)}, p95 ${duration(client.p95_s)}`);
  put("tools-seen", client.tools === "stale" ? "knows an older list of tools" : "");
  showTimes(node, client);
}

function showTimes(node, client) {
  setText(node.querySelector(".since"), since((client.left ?? now()) - client.opened));
  setText(node.querySelector(".presence"), presence(client));
  const button = node.querySelector("button");
  if (button) button.hidden = client.left !== null;
}

function presence(client) {
  const { connected, quiet, left } = LOOKS.presences;
  if (client.left !== null) return `${left[0]} left ${since(now() - client.left)} ago`;
  if (client.seen === null) return `${connected[0]} connected`;
  const ago = now() - client.seen;
  return ago > QUIET_S ? `${quiet[0]} quiet for ${since(ago)}` : `${connected[0]} seen ${since(ago)} ago`;
}

async function disconnect(client) {
  const name = oneLine(client.name || "the client");
  if (!await isMeant("Disconnect the client?", `${name} loses its session or connection; its running calls end.`, "Disconnect")) return;
  try {
    await post("disconnect", { connection: client.connection });
    toast(`Disconnected ${name}.`);
  } catch (error) {
    toast(error.message, true);
  }
}
