// Elements made and filled. Text goes in as text: nothing here can turn it into markup.

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

// Makes the children of `parent` those of `keys`, in their order. What stays is moved, never made anew, so
// that focus and selection stay where they are.
export function arrange(parent, keys, nodeOf) {
  const wanted = new Set();
  let at = parent.firstElementChild;
  for (const key of keys) {
    const node = nodeOf(key);
    wanted.add(node);
    if (node === at) at = at.nextElementSibling;
    else {
      const hadFocus = node.contains(document.activeElement) && document.activeElement;
      parent.insertBefore(node, at);
      if (hadFocus) hadFocus.focus({ preventScroll: true });
    }
  }
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
}

const openDialog = () => document.querySelector("dialog[open]");

// A line in the corner, read out; gone after a while.
export function toast(text, isBad = false) {
  const place = byId("toast"), home = openDialog() ?? document.body;
  if (place.parentElement !== home) home.append(place);
  const line = el("p", { class: isBad ? "bad" : "" }, text);
  place.append(line);
  while (place.children.length > 4) place.firstElementChild.remove();
  setTimeout(() => line.remove(), isBad ? 10000 : 6000);
}

// Read out only.
export function say(text) {
  const place = byId("said");
  place.textContent = "";
  setTimeout(() => { place.textContent = text; }, 50);
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

// Asks before something is lost; the answer is yes or no.
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
