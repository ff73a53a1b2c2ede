// The page is painted before its parts are set up. In a tab nobody sees there is nothing to paint.

const begin = () => import("./app.js");
if (document.hidden) begin();
else requestAnimationFrame(() => setTimeout(begin));
