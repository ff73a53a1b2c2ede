// Hosted servers: their addresses, their items, and configurations of clients to copy.

import { byId, copy, el, span, toast } from "./dom.js";
import { clean, count, oneLine } from "./words.js";
import { LOOKS } from "./states.js";
import { ask } from "./wire.js";

const CLIENTS = [
  ["curl", "curl", "the curl command"], ["claude-code", "Claude Code", "the command for Claude Code"],
  ["claude-desktop", "Claude Desktop", "the configuration for Claude Desktop"],
  ["cursor", "Cursor", "the configuration for Cursor"], ["vscode", "VS Code", "the configuration for VS Code"],
];
const KINDS = ["tool", "resource", "template", "prompt", "skill"].map(kind => [kind, kind]);
const PROTECTIONS = {
  key: ["●", "good", "key", "Callers need the key."],
  loopback: ["○", "muted", "loopback", "No key: only this machine can reach it."],
  open: ["▲", "bad", "OPEN", "Callers need no key, but they should: tools can run programs, or the desk can be reached from other machines."],
  socket: ["●", "good", "socket", "Only programs of this user can reach the Unix socket."],
  offline: ["✕", "warn", "not listening", "HTTP is not served."],
};
const TOKENS = {
  key: ["●", "good", "key", "Callers need the key and a token."],
  offline: PROTECTIONS.offline,
};
const TOKEN = ["●", "good", "token", "Callers need a token."];
const opened = new Set();  // open details, by server and title
let core = { servers: [] };

export const servers = () => core.servers;
// Headers that a caller of the first server must send, with placeholders for secrets.
export const proofs = () => [
  core.protection === "key" && `${core.key_header}: YOUR-KEY`,
  core.servers[0]?.wants_token && "Authorization: Bearer YOUR-TOKEN",
].filter(Boolean);
export const addressOf = server => `${location.origin}/mcp/${encodeURIComponent(server.name)}`;

export function showCore(data) {
  core = data;
  const [glyph, kind, word, meaning] = protection(data);
  const badge = byId("protection");
  badge.replaceChildren(span(kind, `${glyph} ${word}`));
  badge.title = meaning;
  byId("protection").append(span("hidden", ` ${meaning}`));
  const list = byId("server-list");
  const focused = document.activeElement?.closest("[data-focus]")?.dataset.focus;
  list.replaceChildren(...data.servers.map(server => card(server, data)));
  if (data.replicas.length) list.append(el("ul", { class: "counts", "aria-label": "Replicas" }, data.replicas.map(replica)));
  if (!data.servers.length) list.append(el("p", { class: "empty" }, "No server is hosted."));
  if (focused) list.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus();
}

function replica({ name, state, reason }) {
  const [glyph, tone] = LOOKS.cores[state] ?? ["?", "bad"];
  return el("li", {}, span(tone, `${glyph} `), oneLine(name), reason && span("muted", ` ${oneLine(reason)}`));
}

function protection({ protection, servers }) {
  if (servers.length && servers.every(server => server.wants_token)) return TOKENS[protection] ?? TOKEN;
  return PROTECTIONS[protection] ?? ["?", "warn", protection, ""];
}

function card(server, data) {
  const address = addressOf(server);
  const title = server.title !== server.name ? server.title : "";
  return el("article", { class: "server", "aria-label": `Server ${oneLine(server.name)}` },
    el("h3", {}, span("name", oneLine(server.name)), span("version", oneLine(server.version))),
    title && el("p", { class: "title" }, clean(title)),
    el("p", { class: "url" }, address),
    el("ul", { class: "counts", "aria-label": "It offers" }, KINDS.map(([kind, noun]) => {
      const [number, ...words] = count(server.counts[kind] ?? 0, noun).split(" ");
      return el("li", {}, el("b", {}, number), ` ${words.join(" ")}`);
    }), server.left_out > 0 && el("li", {}, span("warn", `${server.left_out} left out`))),
    server.wants_token && el("p", { class: "muted" }, span("good", "● "), "asks every caller for a token"),
    server.problems.map(problem => el("p", { class: "problem" }, `! ${clean(problem)}`)),
    el("div", { class: "tools copies", role: "group", "aria-label": `Copy for ${oneLine(server.name)}` },
      el("span", { class: "muted", "aria-hidden": "true" }, "Copy"),
      copying(server, "url", "URL", () => copy(address, "the URL")),
      CLIENTS.map(([client, word, what]) => copying(server, client, word, () => copyConfig(server, client, what)))),
    items(server),
    modes(server),
    addresses(server, data),
    server.folder && el("p", { class: "folder" }, clean(server.folder)),
  );
}

function copying(server, key, word, onclick) {
  return el("button", {
    type: "button", onclick, "data-focus": `${server.name}/${key}`, "data-copy": key, title: `Copy ${word}`,
  }, span("hidden", "Copy "), word);
}

async function copyConfig(server, client, what) {
  try {
    const { text } = await ask("config", { server: server.name, client });
    const here = server.url && !server.url.startsWith("unix:") ? text.replaceAll(server.url, addressOf(server)) : text;
    await copy(here, here.includes("YOUR-KEY") ? `${what}. Put the key where it says YOUR-KEY` : what);
  } catch (error) {
    toast(error.message, true);
  }
}

function items(server) {
  if (!server.items.length) return "";
  const rows = [];
  let kind = "";
  for (const item of server.items) {
    if (item.kind !== kind) rows.push(el("li", { class: "kind" }, `${(kind = item.kind)[0].toUpperCase()}${kind.slice(1)}s`));
    rows.push(el("li", {},
      item.problem ? span("bad", "✕ ") : "",
      span("strong", oneLine(item.name)),
      item.policy && item.policy !== "allow" ? span("warn", ` ${item.policy === "ask" ? "asks first" : "denied"}`) : "",
      span("about", ` ${brief(oneLine(item.problem || item.description || ""))}`)));
  }
  if (server.more_items) rows.push(el("li", { class: "muted" }, `and ${server.more_items} more`));
  return unfolding(server, "What it offers", el("ul", { class: "items", tabindex: "0", "aria-label": "What it offers" }, rows));
}

// Returns the first sentence, cut if it is long.
function brief(text) {
  const sentence = /^.*?[.!?](?=\s|$)/.exec(text)?.[0] ?? text;
  return sentence.length > 110 ? `${sentence.slice(0, 108).trimEnd()} …` : sentence;
}

function modes(server) {
  if (!server.modes.length) return "";
  return unfolding(server, "Modes", el("ul", { class: "addresses" }, server.modes.map(mode => {
    const address = `${addressOf(server)}?mode=${encodeURIComponent(mode.name)}`;
    return el("li", {}, el("span", {}, span("strong", oneLine(mode.name)), mode.name === server.mode ? span("good", " for every client") : "",
      span("about muted", ` ${oneLine(mode.description)} ${mode.tools.map(oneLine).join(", ") || "no tools"}`)),
      el("button", { type: "button", class: "quiet", "data-focus": `${server.name}?${mode.name}`, onclick: () => copy(address, `the URL of mode ${oneLine(mode.name)}`) },
        "Copy URL", span("hidden", ` of mode ${oneLine(mode.name)}`)));
  })));
}

function addresses(server, data) {
  const socket = location.origin.replace(/^http/, "ws");
  const all = [
    ["MCP", addressOf(server)], ["MCP over a WebSocket", `${socket}/mcp/${encodeURIComponent(server.name)}/ws`],
    ["MCP of 2024-11-05, events", `${addressOf(server)}/sse`],
  ];
  if (server === data.servers[0])
    all.push(["gateway dialect", `${location.origin}/v1/mcp`], ["status", `${location.origin}/status`],
      ["health", `${location.origin}/health`], ["metrics", `${location.origin}/metrics`]);
  return unfolding(server, "Endpoints", el("ul", { class: "addresses" }, all.map(([what, address]) =>
    el("li", {}, el("span", {}, span("muted what-for", what), span("", new URL(address).pathname)),
      el("button", { type: "button", class: "quiet", "data-focus": `${server.name} ${what}`, onclick: () => copy(address, `the address of ${what}`) },
        "Copy", span("hidden", ` the address of ${what}`))))));
}

function unfolding(server, title, ...content) {
  const key = `${server.name}/${title}`;
  const details = el("details", {}, el("summary", { "data-focus": key }, title), ...content);
  details.open = opened.has(key);
  details.addEventListener("toggle", () => details.open ? opened.add(key) : opened.delete(key));
  return details;
}
