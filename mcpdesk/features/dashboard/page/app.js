// The page: signs in if that is required, opens the stream, and passes each event to one part of the page.

import { byId, setText, span } from "./dom.js";
import { sparkline } from "./words.js";
import { Stream, ask, signIn, signOut } from "./wire.js";
import { showCore } from "./servers.js";
import { showClients, tickClients } from "./clients.js";
import { onFilter, showTraffic, tickTraffic } from "./traffic.js";
import { onFollow, showJobs, showOutput, tickJobs } from "./jobs.js";
import { showCallbacks, tickCallbacks } from "./callbacks.js";
import { showLogs } from "./logs.js";
import { showStatistics } from "./statistics.js";
import { showQuestions, tickQuestions } from "./questions.js";

const LIVE = { on: ["●", "good", "live"], off: ["○", "warn", "not connected, trying again"], out: ["○", "muted", "not signed in"], full: ["○", "warn", "closed: too many pages are open; reload to continue"] };

function count(name, number) {
  const badge = document.querySelector(`[data-count="${name}"]`);
  setText(badge, number ? String(number) : "");
  if (name !== "questions") return;
  badge.parentElement.classList.toggle("calls", number > 0);
  document.title = number ? `(${number}) mcpdesk` : "mcpdesk";
}

function showRate({ per_second: rates }) {
  const last = rates.slice(-5);
  const rate = Math.round(last.reduce((sum, each) => sum + each, 0) / last.length);
  byId("pace").replaceChildren(`${rate}/s `, span("spark", sparkline(rates.slice(-16))));
  byId("pace").querySelector(".spark").setAttribute("aria-hidden", "true");
}

const HANDLERS = {
  core: data => { showCore(data); count("servers", data.servers.length); },
  clients: data => { showClients(data); count("clients", data.count); },
  questions: data => count("questions", showQuestions(data)),
  jobs: data => count("jobs", showJobs(data)),
  callbacks: data => count("callbacks", showCallbacks(data)),
  logs: showLogs,
  rate: showRate,
  statistics: showStatistics,
  traffic: showTraffic,
  output: showOutput,
};

const stream = new Stream(
  (name, data) => {
    HANDLERS[name](data);
    if (!performance.getEntriesByName(name).length) performance.mark(name);
  },
  state => {
    const [glyph, kind, word] = LIVE[state];
    const live = byId("live");
    live.className = `fact ${state}`;
    live.querySelector(".glyph").className = `glyph ${kind}`;
    setText(live.querySelector(".glyph"), glyph);
    setText(live.querySelector(".word"), word);
    if (state === "out") askForKey();
  },
);

onFilter(filter => stream.watch({ filter }));
onFollow(job => stream.watch({ job }).catch(() => {}));

function showMain(isSignedIn) {
  byId("entry").hidden = isSignedIn;
  byId("main").hidden = byId("places").hidden = !isSignedIn;
}

function askForKey() {
  stream.close();
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  showMain(false);
  byId("sign-out").hidden = true;
  byId("protection").replaceChildren();
  byId("pace").replaceChildren();
  byId("secret").focus();
}

async function signInWith(word) {
  try {
    await signIn(word);
  } catch (error) {
    return error.status === 401 ? "That is not the operator's key." : `Not signed in: ${error.message}`;
  }
  return "";
}

byId("entry-form").addEventListener("submit", async event => {
  event.preventDefault();
  const problem = byId("entry-problem"), secret = byId("secret");
  problem.textContent = "";
  problem.textContent = await signInWith(secret.value.trim());
  if (problem.textContent) {
    secret.select();
    secret.focus();
    return;
  }
  secret.value = "";
  await begin().catch(() => stream.lost());
  byId("main").focus({ preventScroll: true });
});

// Signs in with a link. It ends with `#sign-in=WORD`. The word is removed from the address bar before it is sent.
async function signInWithLink() {
  const [, word] = /^#sign-in=([\w-]+)$/.exec(location.hash) ?? [];
  if (!word) return false;
  history.replaceState(null, "", location.pathname + location.search);
  const problem = await signInWith(word);
  byId("entry-problem").textContent = problem && "That link was used or has expired. Sign in with the key, or take another link.";
  return !problem;
}

addEventListener("hashchange", async () => { if (await signInWithLink()) start(); });

byId("sign-out").addEventListener("click", async () => {
  await signOut();
  location.reload();
});

async function begin() {
  const session = await ask("session");
  if (!session.signed_in) {
    stream.onState("out");
    return;
  }
  showMain(true);
  byId("sign-out").hidden = false;
  stream.open();
}

const start = () => begin().catch(() => stream.lost());
setInterval(() => { tickQuestions(); tickTraffic(); tickJobs(); tickCallbacks(); tickClients(); }, 500);
addEventListener("pagehide", () => stream.close());
addEventListener("pageshow", event => { if (event.persisted) start(); });
signInWithLink().then(start);
