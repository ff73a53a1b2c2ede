// Loads the page's parts after the first paint. A hidden tab is not painted, so there they are loaded at once.

const begin = () => import("./app.js");
if (document.hidden) begin();
else requestAnimationFrame(() => setTimeout(begin));
