// Jobs: their states, progress, output and files.

import { arrange, byId, el, isMeant, setText, span, toast } from "./dom.js";
import { clock, duration, grouped, now, oneLine, printed, size, onReplica } from "./words.js";
import { LOOKS } from "./states.js";
import { post } from "./wire.js";

const MAX_OUTPUT_LENGTH = 200_000;  // maximum number of characters of output in the page
const nodes = new Map();
let shownJobs = [], followedJob = "", watch = () => {};

export const onFollow = follow => { watch = follow; };

export function showJobs({ jobs, running }) {
  shownJobs = jobs;
  byId("no-jobs").hidden = jobs.length > 0;
  const known = new Set(jobs.map(job => job.id));
  for (const key of nodes.keys()) if (!known.has(key)) nodes.delete(key);
  arrange(byId("job-list"), jobs, job => {
    const node = nodes.get(job.id) ?? createNode(job);
    fill(node, job);
    return node;
  });
  return running;
}

export function tickJobs() {
  for (const job of shownJobs) if (!job.over) setText(nodes.get(job.id).querySelector(".took"), duration(now() - job.started));
}

function createNode(job) {
  const output = `output-${nodes.size}-${Date.now()}`;
  const node = el("li", { "data-job": job.id },
    el("div", { class: "told" },
      el("div", { class: "top" }, span("state", ""), span("took muted", ""), span("name", "")),
      el("p", { class: "sub" }, span("of", ""), span("by", ""), span("began", ""), span("said", ""), span("wrote", "")),
      el("ul", { class: "files", hidden: true, "aria-label": `Files of ${oneLine(job.name)}` }),
      el("progress", { max: "1", hidden: true, "aria-label": "Progress" }),
      el("p", { class: "problem" })),
    el("div", { class: "tools" },
      el("button", { type: "button", class: "quiet show", "aria-expanded": "false", "aria-controls": output, onclick: () => follow(job.id) }, "Output", span("hidden", ` of ${oneLine(job.name)}`)),
      el("button", { type: "button", class: "quiet stop", onclick: () => stop(job) }, "Cancel", span("hidden", ` ${oneLine(job.name)}`))),
    el("pre", { class: "output", id: output, tabindex: "0", hidden: true, "aria-label": `Output of ${oneLine(job.name)}` }));
  nodes.set(job.id, node);
  return node;
}

function fill(node, job) {
  const put = (kind, text) => { const part = node.querySelector(`.${kind}`); setText(part, text); part.hidden = !text; };
  const [glyph, kind] = LOOKS.jobs[job.state] ?? ["·", "muted"];
  const state = node.querySelector(".state");
  state.className = `state ${kind}`;
  setText(state, `${glyph} ${job.state}`);
  put("name", oneLine(job.name));
  put("took", duration((job.ended ?? now()) - job.started));
  put("of", `${job.number ? `${job.number} · ` : ""}${job.kind} of ${oneLine(job.server)}`);
  put("by", job.peer ? `by ${oneLine(onReplica(job.peer, job.replica))}` : "");
  put("began", `since ${clock(job.started, true)}`);
  put("said", oneLine(job.message));
  put("wrote", job.size ? size(job.size) : "");
  put("problem", job.problem ? `! ${oneLine(job.problem)}` : "");
  showFiles(node.querySelector(".files"), job);
  const bar = node.querySelector("progress"), share = /^(\d+) %/.exec(job.message);
  bar.hidden = job.over || !share;
  if (!bar.hidden) bar.value = Number(share[1]) / 100;
  node.querySelector(".show").hidden = !job.has_output;
  node.querySelector(".stop").hidden = job.over;
}

// Lists the files of an ended job, which no longer change. The server chooses the name of a downloaded file.
function showFiles(list, job) {
  list.hidden = !job.over || !job.made.length;
  if (list.hidden || list.childElementCount) return;
  const url = `/dashboard/jobs/${encodeURIComponent(job.id)}/download`;
  const line = (words, query, bytes) =>
    el("li", {}, el("a", { href: url + query, download: "", onclick: event => fetchFile(event, job.id) }, words), " ", span("muted", size(bytes)));
  if (job.made_count > 1) list.append(line(`all ${grouped(job.made_count)} in one archive`, "", job.made_bytes));
  list.append(...job.made.map(file => line(oneLine(file.name), `?file=${encodeURIComponent(file.name)}`, file.size)));
  const more = job.made_count - job.made.length;
  if (more) list.append(el("li", { class: "muted" }, `and ${grouped(more)} more, in the archive`));
}

// Downloads a file. A link cannot send the page key, so a ticket for the files of this job is added to its address.
async function fetchFile(event, job) {
  event.preventDefault();
  const url = new URL(event.currentTarget.href);
  try {
    const { ticket } = await post("download", { job });
    url.searchParams.set("ticket", ticket);
    el("a", { href: url.href, download: "" }).click();
  } catch (error) {
    toast(error.message, true);
  }
}

// Shows the output of a job, or hides it. Only the output of one job is shown at a time.
function follow(id) {
  followedJob = followedJob === id ? "" : id;
  for (const [key, node] of nodes) {
    const isFollowed = key === followedJob, output = node.querySelector(".output");
    node.querySelector(".show").setAttribute("aria-expanded", String(isFollowed));
    output.hidden = !isFollowed;
    if (isFollowed) output.textContent = "Waiting for output…";
  }
  watch(followedJob);
}

export function showOutput({ job, none, fresh, text, start, last }) {
  const node = nodes.get(job);
  if (!node || job !== followedJob) return;
  const output = node.querySelector(".output");
  if (none) {
    output.textContent = "This job has no separate output.";
    return;
  }
  const isAtEnd = output.scrollHeight - output.scrollTop - output.clientHeight < 24;
  if (fresh) node.written = start ? `[${size(start)} before this are not shown]\n` : "";
  node.written = (node.written + text).slice(-MAX_OUTPUT_LENGTH);
  setText(output, printed(node.written) || (last ? "It wrote nothing." : "Nothing was written so far."));
  if (isAtEnd || fresh) output.scrollTop = output.scrollHeight;
}

async function stop(job) {
  if (!await isMeant("Cancel the job?", `${oneLine(job.name)} ends with everything it started.`, "Cancel the job")) return;
  try {
    await post("cancel-job", { job: job.id });
    toast("The job is being ended.");
  } catch (error) {
    toast(error.message, true);
  }
}
