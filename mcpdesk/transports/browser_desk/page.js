"use strict";
// The terminal finds its socket here. It is loaded after this, and begins when the page is complete.
const scheme = location.protocol === "https:" ? "wss:" : "ws:";
document.getElementById("terminal").dataset.sessionWebsocketUrl = `${scheme}//${location.host}/ws`;
// Keys go to the desk once it has drawn something, without a click into it. Before that the socket is not open.
new MutationObserver((changes, observer) => {
  if (document.body.classList.contains("-first-byte")) {
    observer.disconnect();
    document.querySelector(".xterm-helper-textarea").focus();
  }
}).observe(document.body, { attributeFilter: ["class"] });
