"""A server folder with an app, and with tools that the app may and may not call."""

from __future__ import annotations

from pathlib import Path

from tests.support.folders import write

URI = "ui://board/main"
MIME_TYPE = "text/html;profile=mcp-app"
TOOLS = '''
from mcpdesk import Context, tool

UI = {"resourceUri": "ui://board/main"}


@tool(meta={"ui": UI})
async def board(ctx: Context, team: str = "red") -> str:
    """Show the board of a team."""
    shown = ctx.offers({"extensions": {"io.modelcontextprotocol/ui": {}}})
    return f"board of {team}, {'with' if shown else 'without'} an app"


@tool(meta={"ui": UI | {"visibility": ["app"]}})
async def refresh(step: int) -> str:
    """Count, for the app only."""
    return f"step {step}"


@tool(meta={"ui": {"visibility": ["model"]}})
async def secret() -> str:
    """Not for apps."""
    return "hidden from apps"
'''
PAGE = """<!doctype html>
<title>Board</title>
<p id="out">waiting</p>
<script>
  const answers = [], told = [], errors = [];
  let next = 1;
  window.ask = (method, params) => new Promise(resolve => {
    const id = next++;
    answers[id] = resolve;
    parent.postMessage({jsonrpc: "2.0", id, method, params}, "*");
  });
  window.tell = (method, params) => parent.postMessage({jsonrpc: "2.0", method, params}, "*");
  window.told = told;
  addEventListener("message", ({data}) => {
    if (data.method === "ui/resource-teardown") {
      parent.postMessage({jsonrpc: "2.0", id: data.id, result: {}}, "*");
    } else if (data.method) {
      told.push(data);
      document.getElementById("out").textContent = told.map(each => each.method).join(" ");
    } else {
      answers[data.id]?.(data);
    }
  });
  window.ready = ask("ui/initialize", {
    appInfo: {name: "board", version: "1"},
    appCapabilities: {availableDisplayModes: ["inline"]},
    protocolVersion: "2026-01-26",
  }).then(answer => {
    window.initialized = answer;
    tell("ui/notifications/initialized", {});
    return answer;
  });
</script>
"""


def board_folder(folder: Path, meta: str = "{}", page: str = PAGE) -> Path:
    """Write the folder. `meta` is the Python expression of the page's `_meta.ui`."""
    resource = f'''
from mcpdesk import resource

PAGE = {page!r}


@resource("{URI}", mime_type="{MIME_TYPE}")
async def main(uri: str) -> list[dict]:
    """The page of the board."""
    return [{{"uri": uri, "mimeType": "{MIME_TYPE}", "text": PAGE, "_meta": {{"ui": {meta}}}}}]
'''
    return write(
        folder,
        {"mcp.json": '{"name": "boards"}', "tools/board.py": TOOLS, "resources/main.py": resource},
    )
