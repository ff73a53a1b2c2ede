"use strict";
// Signs in, then loads the script of the terminal, which finds its socket in an attribute.
const byId = id => document.getElementById(id);

// Second credential of a sign-in, besides the cookie. Other ports of this host receive the cookie, but not this key.
const PAGE_KEY = "mcpdesk-page-key";
const pageKey = () => { try { return sessionStorage.getItem(PAGE_KEY) ?? ""; } catch { return ""; } };

async function signIn(word) {
  const headers = { "Content-Type": "application/json" };
  const response = await fetch("/sign-in", { method: "POST", headers, body: JSON.stringify({ word }) });
  const data = await response.json();
  if (!response.ok) throw new Error(data.error);
  sessionStorage.setItem(PAGE_KEY, data.page_key);
}

async function isSignedIn() {
  const response = await fetch("/session", { headers: { "X-Mcpdesk-Page": pageKey() } });
  return response.ok && (await response.json()).signed_in;
}

function open() {
  byId("entry").hidden = true;
  document.body.classList.add("opens");
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  byId("terminal").dataset.sessionWebsocketUrl = `${scheme}//${location.host}/ws/${pageKey()}`;
  const script = document.createElement("script");
  script.src = "/static/js/textual.js";
  // The script begins at the event `load`, which may have been sent already.
  script.onload = () => { if (document.readyState === "complete") window.onload(new Event("load")); };
  document.head.append(script);
  // After the first output, focus the terminal, so that it receives keys without a click. Before the first output,
  // its socket is not open.
  new MutationObserver((changes, observer) => {
    if (document.body.classList.contains("-first-byte")) {
      observer.disconnect();
      document.querySelector(".xterm-helper-textarea").focus();
    }
  }).observe(document.body, { attributeFilter: ["class"] });
}

function askForKey(problem = "") {
  byId("problem").textContent = problem;
  byId("entry").hidden = false;
  byId("word").focus();
}

byId("entry").addEventListener("submit", async event => {
  event.preventDefault();
  const word = byId("word").value.trim();
  byId("word").value = "";
  try {
    await signIn(word);
  } catch (error) {
    return askForKey(error.message);
  }
  open();
});

// A sign-in link ends with `#sign-in=WORD`. The word is removed from the address bar before it is sent.
async function begin() {
  const [, word] = /^#sign-in=([\w-]+)$/.exec(location.hash) ?? [];
  let problem = "";
  if (word) {
    history.replaceState(null, "", location.pathname);
    try {
      await signIn(word);
    } catch {
      problem = "That link was used or has expired. Sign in with the key, or take another link.";
    }
  }
  if (await isSignedIn()) open();
  else askForKey(problem);
}

addEventListener("hashchange", () => location.reload());
begin().catch(() => askForKey("The desk does not answer."));
