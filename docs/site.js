// Tables that are wider than the page can be scrolled with the keyboard.
const tables = () => {
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap")) {
    if (table.scrollWidth > table.clientWidth) {
      table.tabIndex = 0;
      table.setAttribute("role", "group");
      table.setAttribute("aria-label", "Table");
    }
  }
};
document$.subscribe(() => requestAnimationFrame(tables));
addEventListener("resize", tables);

// The search dialog: paths of results with enough contrast, and results that are named by all of their text.
const paths = new CSSStyleSheet();
paths.replaceSync("[role=option] menu { color: rgb(var(--color-foreground) / 0.7) }");
const watched = new WeakSet();
const nameResults = (root) => {
  for (const result of root.querySelectorAll("[role=option][aria-labelledby]")) {
    result.removeAttribute("aria-labelledby");
  }
};
const improveSearch = () => {
  for (const { shadowRoot } of document.querySelectorAll("body div")) {
    if (!shadowRoot || watched.has(shadowRoot)) continue;
    watched.add(shadowRoot);
    shadowRoot.adoptedStyleSheets.push(paths);
    const changes = { subtree: true, childList: true, attributeFilter: ["aria-labelledby"] };
    new MutationObserver(() => nameResults(shadowRoot)).observe(shadowRoot, changes);
    nameResults(shadowRoot);
  }
};
new MutationObserver(improveSearch).observe(document.body, { childList: true });
improveSearch();
