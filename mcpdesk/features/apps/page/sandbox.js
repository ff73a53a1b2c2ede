"use strict";
// The sandbox between the host page and the app. It only passes messages.
// Source: MCP Apps 2026-01-26, Sandbox proxy

const RESERVED = "ui/notifications/sandbox-";
const FEATURES = {
  camera: "camera", microphone: "microphone", geolocation: "geolocation", clipboardWrite: "clipboard-write",
};
const host = document.querySelector("meta[name=host]").content;
let frame = null;

const isReserved = message => typeof message?.method === "string" && message.method.startsWith(RESERVED);

const show = ({html, permissions}) => {
  frame?.remove();
  frame = document.createElement("iframe");
  frame.title = "App";
  // Without allow-same-origin the app has an opaque origin: no storage, no cookies, no access to this page.
  frame.setAttribute("sandbox", "allow-scripts allow-forms");
  frame.allow = Object.keys(permissions ?? {}).filter(each => FEATURES[each]).map(each => `${FEATURES[each]} *`).join("; ");
  frame.srcdoc = html; // it inherits the content security policy of this page
  document.body.append(frame);
};

addEventListener("message", event => {
  if (event.source === parent) {
    if (event.origin !== host) return;
    if (!isReserved(event.data)) frame?.contentWindow.postMessage(event.data, "*");
    else if (event.data.method === "ui/notifications/sandbox-resource-ready") show(event.data.params);
  } else if (frame && event.source === frame.contentWindow && !isReserved(event.data)) {
    parent.postMessage(event.data, host);
  }
});
parent.postMessage({jsonrpc: "2.0", method: "ui/notifications/sandbox-proxy-ready", params: {}}, host);
