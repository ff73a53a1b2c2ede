"use strict";
// The host page. It passes messages between the sandbox and the core. The core decides which of them are allowed.

const MAX_NOTES = 50;
const SETTLE_MS = 100;
const REST_MS = 700; // a new question moves the app, and a click on the app must not accept the question
const byId = id => document.getElementById(id);
const socket = new WebSocket(`ws://${location.host}${location.pathname}socket`);
const dark = matchMedia("(prefers-color-scheme: dark)");
let frame = null;
let origin = "";
let isOver = false;
let timer = 0;

const send = message => {
  if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
};

const facts = () => ({
  theme: dark.matches ? "dark" : "light",
  locale: navigator.language,
  timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
  width: Math.max(0, Math.round(byId("app").clientWidth)),
  height: Math.max(0, Math.round(innerHeight - byId("app").getBoundingClientRect().top)),
  touch: matchMedia("(any-pointer: coarse)").matches,
  hover: matchMedia("(any-hover: hover)").matches,
});

const sendFactsSoon = () => {
  clearTimeout(timer);
  timer = setTimeout(() => send({facts: facts()}), SETTLE_MS);
};

const element = (name, text, kind = "") => {
  const node = document.createElement(name);
  node.textContent = text;
  if (kind) node.className = kind;
  return node;
};

const showText = text => {
  frame?.remove();
  frame = null;
  byId("app").replaceChildren(Object.assign(element("p", text), {id: "state"}));
  byId("mode").hidden = true;
};

const handlers = {
  view(message) {
    frame?.contentWindow.postMessage(message, origin);
  },

  show(state) {
    document.title = `${state.name} · ${state.server}`;
    byId("name").textContent = state.name;
    byId("about").textContent = `${state.uri} of ${state.server}, in a sandbox`;
    if (state.failure) return showText(state.failure);
    const warnings = [];
    if (state.outside.length) warnings.push(`It may use ${state.outside.join(", ")}.`);
    if (state.permissions.length) warnings.push(`It may ask for ${state.permissions.join(", ")}.`);
    if (state.refused.length) warnings.push(`It must not use ${state.refused.join(", ")}.`);
    byId("warning").textContent = warnings.join(" ");
    byId("warning").hidden = !warnings.length;
    byId("app").classList.toggle("border", state.border);
    origin = new URL(state.frame).origin;
    frame = document.createElement("iframe");
    frame.title = state.name;
    frame.setAttribute("sandbox", "allow-scripts allow-same-origin allow-forms");
    frame.allow = state.allow;
    frame.referrerPolicy = "no-referrer";
    frame.src = state.frame;
    byId("app").replaceChildren(frame);
    byId("mode").hidden = false;
    sendFactsSoon();
  },

  size({width, height}) {
    if (!frame) return;
    if (height !== null) frame.style.height = `${height}px`;
    if (width !== null) frame.style.width = `min(100%, ${width}px)`;
  },

  mode(mode) {
    document.body.classList.toggle("fullscreen", mode === "fullscreen");
    byId("mode").textContent = mode === "fullscreen" ? "Show in the page" : "Fill the window";
    sendFactsSoon();
  },

  ask({number, text, agree, detail, link}) {
    const question = element("div", "", "question");
    question.dataset.number = number;
    const answer = agreed => {
      if (agreed && link) open(link, "_blank", "noopener,noreferrer");
      send({answer: {number, agreed}});
      question.remove();
    };
    const yes = element("button", agree, "agree");
    const no = element("button", "Decline");
    yes.disabled = true;
    setTimeout(() => { yes.disabled = false; }, REST_MS);
    yes.addEventListener("click", event => event.isTrusted && answer(true));
    no.addEventListener("click", () => answer(false));
    question.append(element("p", text), element("pre", detail), yes, no);
    byId("questions").append(question);
  },

  withdraw(number) {
    document.querySelector(`.question[data-number="${Number(number)}"]`)?.remove();
  },

  note({title, text}) {
    const list = byId("notes").querySelector("ol");
    list.append(element("li", `${title}\n${text}`));
    while (list.children.length > MAX_NOTES) list.firstChild.remove();
    byId("notes").hidden = false;
  },

  end(reason) {
    isOver = true;
    byId("questions").replaceChildren();
    byId("close").hidden = true;
    document.body.classList.remove("fullscreen");
    showText(`The app has ended: ${reason}.`);
  },
};

addEventListener("message", event => {
  // Only messages of the sandbox are accepted. The app has an opaque origin, and another window.
  if (frame && event.source === frame.contentWindow && event.origin === origin) send({view: event.data});
});
socket.addEventListener("open", () => send({hello: facts()}));
socket.addEventListener("message", event => {
  const message = JSON.parse(event.data);
  for (const [kind, value] of Object.entries(message)) handlers[kind]?.(value);
});
socket.addEventListener("close", () => {
  if (!isOver) handlers.end("the desk is no longer connected");
});
dark.addEventListener("change", sendFactsSoon);
addEventListener("resize", sendFactsSoon);
byId("close").addEventListener("click", () => send({close: true}));
byId("mode").addEventListener("click", () =>
  send({mode: document.body.classList.contains("fullscreen") ? "inline" : "fullscreen"}));
