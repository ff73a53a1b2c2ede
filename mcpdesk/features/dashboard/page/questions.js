// Questions to a person, with forms for their answers. The first answer counts, here or at another screen.

import { arrange, byId, el, say, setText, span, toast } from "./dom.js";
import { clean, now, oneLine, since, onReplica } from "./words.js";
import { post } from "./wire.js";

const SOON_S = 60;
const forms = new Map();  // form by the question's number; it keeps the typed text until the question ends
const mine = new Set();  // numbers of the questions that were answered here
let shownQuestions = [];

export function showQuestions({ waiting, ended }) {
  shownQuestions = waiting;
  const numbers = new Set(waiting.map(question => question.id));
  const lost = [...forms.keys()].filter(id => !numbers.has(id));
  const hadFocus = lost.some(id => forms.get(id).contains(document.activeElement));
  for (const id of lost) {
    forms.delete(id);
    announceEnd(ended.find(question => question.id === id), id);
  }
  const fresh = waiting.filter(question => !forms.has(question.id));
  arrange(byId("waiting"), waiting, question => {
    if (!forms.has(question.id)) forms.set(question.id, form(question));
    return forms.get(question.id);
  });
  byId("no-questions").hidden = waiting.length > 0;
  if (fresh.length) say(fresh.map(question => `${oneLine(onReplica(question.asker, question.replica))} asks: ${oneLine(question.pages[0].question)}`).join(". "));
  if (hadFocus) (byId("waiting").querySelector("input, textarea, button") ?? titleOfAll()).focus();
  showEnded(ended);
  tickQuestions();
  return waiting.length;
}

function titleOfAll() {
  const title = byId("questions-title");
  title.tabIndex = -1;
  return title;
}

export function tickQuestions() {
  for (const question of shownQuestions) {
    const left = question.deadline - now();
    const lasting = seconds => since(seconds).replaceAll(" ", "\u00a0");
    const text = ` asks · waiting ${lasting(now() - question.asked)}${left < SOON_S ? ` · ${lasting(left)} left` : ""}`;
    setText(forms.get(question.id).querySelector(".since"), text);
  }
}

function announceEnd(question, id) {
  const isMine = mine.delete(id);
  if (!question) return toast("The question no longer exists.");
  const who = oneLine(question.asker);
  if (isMine) return toast(`${question.word[0].toUpperCase()}${question.word.slice(1)}. ${who} continues.`);
  const by = question.by ? ` by ${oneLine(question.by)}` : "", because = question.reason ? `: ${oneLine(question.reason)}` : "";
  toast(`The question of ${who} was ${question.word}${by}${because}.`.replace("was timed out", "timed out"));
}

function showEnded(ended) {
  const section = byId("ended");
  section.hidden = ended.length === 0;
  section.querySelector("ul").replaceChildren(...ended.map(question => {
    const answerText = question.answers.flatMap(answer => [...answer.selected, answer.other]).filter(Boolean).join(", ");
    const by = question.by ? ` by ${oneLine(question.by)}` : "";
    return el("li", {}, el("b", {}, oneLine(question.question)), ` ${oneLine(question.asker)} · ${question.word}${by} after ${since(question.ended - question.asked)}`,
      answerText ? `: ${oneLine(answerText)}` : question.reason ? `: ${oneLine(question.reason)}` : "");
  }));
}

function form(question) {
  const title = `question-${question.id}`;
  const isApproval = question.kind === "approval";
  const problem = el("p", { class: "problem", role: "alert" });
  const node = el("form", { class: "question", novalidate: true, "aria-labelledby": title, "data-question": String(question.id) },
    el("h3", { id: title }, oneLine(onReplica(question.asker, question.replica)), span("since", " asks")),
    el("div", { class: "pages" }, question.pages.map((page, at) =>
      isApproval ? approvalPage(page, title) : pagePart(page, `${title}-${at}`, question.pages.length > 1))),
    problem,
    isApproval ? approvalDeeds(question, problem) : deeds(question, problem));
  node.addEventListener("submit", event => {
    event.preventDefault();
    if (!isApproval) send(question, "answer", { answers: answersOf(node, question) }, problem);
  });
  return node;
}

// A call that needs approval: a description of its effects. `approvalDeeds` returns the buttons.
function approvalPage(page, id) {
  return el("fieldset", { "aria-describedby": `${id}-detail` }, el("legend", {}, clean(page.question), page.header && span("header", oneLine(page.header))),
    page.detail && el("pre", { class: "detail", id: `${id}-detail`, tabindex: "0", "aria-label": "What it would do" }, clean(page.detail)));
}

function approvalDeeds(question, problem) {
  const answer = label => () => send(question, "answer", { answers: [{ selected: [label], other: "" }] }, problem);
  const options = question.pages[0].options;
  const allows = options.filter(option => option.label !== "deny").map((option, at) => el("button",
    { type: "button", class: at ? "" : "main", title: clean(option.description), onclick: answer(option.label) }, capital(option.label)));
  const meant = el("ul", { class: "hint" }, options.map(option => el("li", {}, el("b", {}, clean(option.label)), `: ${clean(option.description)}`)));
  return withReason(question, problem, allows, [], "Deny", "danger", meant);
}

function deeds(question, problem) {
  const isLink = question.pages.every(page => page.link);
  const answer = el("button", { type: "submit", class: "main" }, isLink ? "I agree" : "Answer");
  const close = el("button", { type: "button", onclick: () => send(question, "dismiss", {}, problem) }, "Close without an answer");
  return withReason(question, problem, [answer], question.may_cancel ? [close] : [], "Decline", "", "");
}

// Returns the buttons of a form. The button for refusal opens a field for the reason, which may be empty.
function withReason(question, problem, before, after, word, kind, hint) {
  const id = `reason-${question.id}`;
  const input = el("input", { id, type: "text", maxlength: "2000", autocomplete: "off" });
  const refuse = () => send(question, "decline", { reason: input.value }, problem);
  const row = el("div", { class: "reason", hidden: true }, el("label", { for: id }, `${word}, because (may stay empty)`), input,
    el("div", { class: "tools" }, el("button", { type: "button", class: "danger", onclick: refuse }, `${word} it`),
      el("button", { type: "button", class: "quiet", onclick: () => { row.hidden = true; opener.setAttribute("aria-expanded", "false"); opener.focus(); } }, "Back")));
  input.addEventListener("keydown", event => { if (event.key === "Enter") { event.preventDefault(); refuse(); } });
  const opener = el("button", { type: "button", class: kind, "aria-expanded": "false", onclick: () => { row.hidden = false; opener.setAttribute("aria-expanded", "true"); input.focus(); } }, `${word}…`);
  return el("div", { class: "deeds" }, el("div", { class: "tools" }, before, opener, after), hint, row);
}

const capital = text => text[0].toUpperCase() + text.slice(1);

function pagePart(page, id, isOneOfSeveral) {
  const set = el("fieldset", { "aria-describedby": `${id}-detail ${id}-problem` },
    el("legend", {}, clean(page.question), page.header && span("header", oneLine(page.header)), isOneOfSeveral && !page.required && !page.detail ? span("header", "may stay empty") : ""),
    page.detail && detail(page.detail, `${id}-detail`),
    page.link && link(page));
  const kind = page.multi_select ? "checkbox" : "radio";
  const choice = (label, about, value, checked) => el("label", { class: "choice" }, el("input", { type: kind, name: id, value, checked }),
    el("span", {}, span("label", label), about && span("about", about)));
  page.options.forEach((option, at) => set.append(choice(clean(option.label), clean(option.description), String(at), page.default.selected.includes(option.label))));
  if (page.options.length && !page.required && !page.multi_select) set.append(choice("no answer", "", "none", !page.default.selected.length && !page.default.other));
  if (page.own_words) set.append(ownWords(page, id, kind, choice));
  set.append(el("p", { class: "problem", id: `${id}-problem` }));
  return set;
}

// Returns the text to read before answering: a short hint, or a separate block.
function detail(text, id) {
  const isShort = text.length < 160 && !text.includes("\n");
  if (isShort) return el("p", { class: "detail", id }, clean(text));
  return el("pre", { class: "detail", id, tabindex: "0", "aria-label": "To read first" }, clean(text));
}

function ownWords(page, id, kind, choice) {
  const hasOptions = page.options.length > 0, label = hasOptions ? "something else" : "your answer";
  const field = page.long ? el("textarea", { rows: "5" }) : el("input", { type: "text", autocomplete: "off", ...inputMode(page.rules) });
  field.classList.add("words");
  field.value = page.default.other;
  if (!hasOptions) return el("label", { class: "own" }, span("", label), field);
  const pick = choice(label, "", "own", Boolean(page.default.other));
  field.setAttribute("aria-label", label);
  field.addEventListener("input", () => { pick.firstElementChild.checked = Boolean(field.value.trim()); });
  return el("div", { class: "else" }, pick, el("div", { class: "own" }, field));
}

function inputMode(rules) {
  if (rules.type === "integer") return { inputmode: "numeric" };
  if (rules.type === "number") return { inputmode: "decimal" };
  return { email: { inputmode: "email" }, uri: { inputmode: "url" }, date: { placeholder: "2026-07-28" } }[rules.format] ?? {};
}

// Shows a link as text, with its host emphasized. Only links with http or https can be opened.
function link(page) {
  let url = null;
  try { url = new URL(page.link); } catch { /* shown as text */ }
  const isWeb = url && ["http:", "https:"].includes(url.protocol);
  const parts = [];
  const hostStart = isWeb ? page.link.toLowerCase().indexOf(url.host.toLowerCase()) : -1;
  if (hostStart >= 0) parts.push(clean(page.link.slice(0, hostStart)), el("b", {}, clean(page.link.slice(hostStart, hostStart + url.host.length))), clean(page.link.slice(hostStart + url.host.length)));
  else parts.push(clean(page.link));
  return el("div", {},
    isWeb ? el("a", { class: "link", href: page.link, target: "_blank", rel: "noopener noreferrer" }, parts, span("hidden", " (opens a new tab)")) : el("p", { class: "link" }, parts),
    page.oddities.map(odd => el("p", { class: "warn" }, `! ${odd}`)));
}

function answersOf(node, question) {
  return [...node.querySelectorAll("fieldset")].map((set, at) => {
    const page = question.pages[at], words = set.querySelector(".words")?.value ?? "";
    const chosen = [...set.querySelectorAll(".choice input:checked")].map(input => input.value);
    const selected = page.options.filter((_, index) => chosen.includes(String(index))).map(option => option.label);
    const other = !page.options.length || chosen.includes("own") ? words : "";
    return { selected, other };
  });
}

async function send(question, name, given, problem) {
  const node = forms.get(question.id), sets = [...node.querySelectorAll("fieldset")];
  problem.textContent = "";
  sets.forEach(set => mark(set, ""));
  mine.add(question.id);
  node.setAttribute("aria-busy", "true");
  try {
    await post(name, { question: question.id, ...given });
  } catch (error) {
    mine.delete(question.id);
    if (error.problems) {
      error.problems.forEach((words, at) => mark(sets[at], words));
      const first = sets[error.problems.findIndex(Boolean)];
      first?.querySelector("input, textarea")?.focus();
      say(error.problems.filter(Boolean).map(capital).join(". "));
    } else problem.textContent = capital(error.message) + ".";
  } finally {
    node.removeAttribute("aria-busy");
  }
}

function mark(set, words) {
  const line = set.querySelector(".problem");
  if (!line) return;
  line.textContent = words && `${capital(words)}.`;
  for (const input of set.querySelectorAll("input, textarea")) words ? input.setAttribute("aria-invalid", "true") : input.removeAttribute("aria-invalid");
}
