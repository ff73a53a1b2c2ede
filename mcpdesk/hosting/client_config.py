"""Text to paste into the configuration of well-known clients."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import Any, NamedTuple

from mcpdesk.errors import DeskUserError


class _Facts(NamedTuple):
    server: str
    folder: str
    url: str
    key: str
    header: str


def client_config(client: str, server: str, folder: str, url: str, key: str, header: str) -> str:
    """What to paste for `client`. `url` is empty when nothing listens on TCP; `key` when none is asked for.

    Raises: DeskUserError for a client we do not know.
    """
    make = _CLIENTS.get(client)
    if make is None:
        raise DeskUserError(f"There is no client {client!r}.", f"Known: {', '.join(_CLIENTS)}.")
    return make(_Facts(server, folder, url, key, header))


def _pipe(facts: _Facts) -> dict[str, Any]:
    return {"command": "mcpdesk", "args": ["stdio", facts.folder]}


def _mcp_servers(facts: _Facts) -> str:
    return json.dumps({"mcpServers": {facts.server: _pipe(facts)}}, indent=2)


def _vscode(facts: _Facts) -> str:
    return json.dumps({"servers": {facts.server: {"type": "stdio", **_pipe(facts)}}}, indent=2)


def _claude_code(facts: _Facts) -> str:
    if facts.url.startswith("http"):
        key = f" --header {shlex.quote(f'{facts.header}: {facts.key}')}" if facts.key else ""
        return f"claude mcp add --transport http {facts.server} {facts.url}{key}"
    return f"claude mcp add {facts.server} -- mcpdesk stdio {shlex.quote(facts.folder)}"


def _curl(facts: _Facts) -> str:
    body = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    key = f" -H {shlex.quote(f'{facts.header}: {facts.key}')}" if facts.key else ""
    where = facts.url
    if facts.url.startswith("unix:"):
        path = facts.url.removeprefix("unix:")
        where = f"--unix-socket {shlex.quote(path)} http://localhost/mcp/{facts.server}"
    return f"curl -sS -H 'Content-Type: application/json'{key} -d '{body}' {where}"


_CLIENTS: dict[str, Callable[[_Facts], str]] = {
    "claude-desktop": _mcp_servers,
    "cursor": _mcp_servers,
    "vscode": _vscode,
    "claude-code": _claude_code,
    "curl": _curl,
}
