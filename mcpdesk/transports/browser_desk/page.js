"use strict";
// The terminal finds its socket here. It is loaded after this, and begins when the page is complete.
const scheme = location.protocol === "https:" ? "wss:" : "ws:";
document.getElementById("terminal").dataset.sessionWebsocketUrl = `${scheme}//${location.host}/ws`;
