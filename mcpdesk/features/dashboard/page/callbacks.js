// Callbacks: messages that are sent at a set time.

import { arrange, byId, el, setText, span, toast } from "./dom.js";
import { clean, clock, countdown, now, onReplica, oneLine } from "./words.js";
import { post } from "./wire.js";

const nodes = new Map();
let shownCallbacks = [];
const keyOf = callback => `${callback.server}:${callback.id}`;

export function showCallbacks({ callbacks, count }) {
  shownCallbacks = callbacks;
  byId("no-callbacks").hidden = callbacks.length > 0;
  const known = new Set(callbacks.map(keyOf));
  for (const key of nodes.keys()) if (!known.has(key)) nodes.delete(key);
  arrange(byId("callback-list"), callbacks, callback => {
    const node = nodes.get(keyOf(callback)) ?? createNode(callback);
    fill(node, callback);
    return node;
  });
  return count;
}

export function tickCallbacks() {
  for (const callback of shownCallbacks) if (callback.due !== null) setText(nodes.get(keyOf(callback)).querySelector(".due"), due(callback));
}

const due = callback => `in ${countdown(callback.due - now())}`.replace("in now", "now");

function createNode(callback) {
  const label = clean(callback.message).slice(0, 60);
  const act = name => async () => {
    try {
      await post(name, { server: callback.server, callback: callback.id });
      toast(name === "fire-callback" ? "Fired." : "Cancelled.");
    } catch (error) {
      toast(error.message, true);
    }
  };
  const node = el("li", {},
    el("div", { class: "told" },
      el("div", { class: "top" }, span("due", ""), span("name", clean(callback.message))),
      el("p", { class: "sub" }, span("of", ""), span("left", ""), span("last", ""))),
    el("div", { class: "tools" },
      el("button", { type: "button", class: "quiet", onclick: act("fire-callback") }, "Fire now", span("hidden", `: ${label}`)),
      el("button", { type: "button", class: "quiet", onclick: act("cancel-callback") }, "Cancel", span("hidden", `: ${label}`))));
  nodes.set(keyOf(callback), node);
  return node;
}

function fill(node, callback) {
  const put = (kind, text) => { const part = node.querySelector(`.${kind}`); setText(part, text); part.hidden = !text; };
  const isOver = callback.due === null;
  put("due", isOver ? (callback.cancelled ? "⊘ cancelled" : "✓ over") : due(callback));
  put("of", `${callback.number} of ${oneLine(onReplica(callback.server, callback.replica))}${callback.peer ? ` by ${oneLine(callback.peer)}` : ""}`);
  put("left", `${callback.fired} of ${callback.repeats} fired`);
  put("last", callback.last_fired ? `last at ${clock(callback.last_fired, true)}` : "");
  node.querySelector(".tools").hidden = isOver;
}
