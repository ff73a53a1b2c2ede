// Creates and fills elements. Texts are inserted as text nodes, so they cannot become markup.

export const byId = id => document.getElementById(id);

// el("p", { class: "hint", "aria-live": "off", onclick: f }, "text", el("b", {}, "bold"))
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && typeof value === "boolean") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter(child => child !== undefined && child !== null && child !== false && child !== ""));
  return element;
}

export const span = (kind, text) => el("span", { class: kind }, text);

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Replaces the children of `parent` by the nodes of `keys`, in the same order. Nodes that remain are moved and not
// created again, so that focus and selection do not change.
export function arrange(parent, keys, nodeOf) {
  const newChildren = new Set();
  let next = parent.firstElementChild;
  for (const key of keys) {
    const node = nodeOf(key);
    newChildren.add(node);
    if (node === next) next = next.nextElementSibling;
    else {
      const focused = node.contains(document.activeElement) && document.activeElement;
      parent.insertBefore(node, next);
      if (focused) focused.focus({ preventScroll: true });
    }
  }
  for (const child of [...parent.children]) if (!newChildren.has(child)) child.remove();
}

const openDialog = () => document.querySelector("dialog[open]");

// Shows a line in the corner for some seconds. Screen readers read it.
export function toast(text, isBad = false) {
  const list = byId("toast"), parent = openDialog() ?? document.body;
  if (list.parentElement !== parent) parent.append(list);
  const line = el("p", { class: isBad ? "bad" : "" }, text);
  list.append(line);
  while (list.children.length > 4) list.firstElementChild.remove();
  setTimeout(() => line.remove(), isBad ? 10000 : 6000);
}

// Lets screen readers read a text that is not shown.
export function say(text) {
  const region = byId("said");
  region.textContent = "";
  setTimeout(() => { region.textContent = text; }, 50);
}

export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    toast(`Copied ${what}.`);
  } catch {
    const dialog = byId("by-hand"), area = byId("by-hand-text");
    area.value = text;
    dialog.showModal();
    area.select();
  }
}

// Asks the person to confirm an action. Returns a promise of true or false.
export function isMeant(title, text, yes) {
  const dialog = byId("sure");
  setText(byId("sure-title"), title);
  setText(byId("sure-text"), text);
  setText(byId("sure-yes"), yes);
  dialog.returnValue = "";
  return new Promise(resolve => {
    byId("sure-yes").onclick = () => dialog.close("yes");
    byId("sure-no").onclick = () => dialog.close("no");
    dialog.onclose = () => resolve(dialog.returnValue === "yes");
    dialog.showModal();
    byId("sure-no").focus();
  });
}

byId("by-hand-close").addEventListener("click", () => byId("by-hand").close());
