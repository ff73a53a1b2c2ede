"""Configuration text for well-known clients, over stdio or over HTTP."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from mcpdesk.auth.principal import TOKEN_VARIABLE
from mcpdesk.errors import DeskUserError

Over = Literal["stdio", "http", ""]
"""Transport between a client and a server. Empty to use the client's preferred transport."""


class ServerAddress(NamedTuple):
    """Command and URL with which a client reaches a server."""

    server: str
    """Name of the server."""
    folder: str
    url: str = ""
    """HTTP URL, or `unix:PATH` on a Unix socket, or "" if the server is not served over HTTP."""
    key: str = ""
    """API key that callers must send, or "" if none is required."""
    header: str = "X-API-Key"
    mode: str = ""
    command: tuple[str, ...] = ()
    """Command that starts this program from any folder. Empty to use `own_command`."""
    program: tuple[str, ...] = ()
    """Command of an upstream server that is a program. The client then starts mcpdesk, which starts the
    server.
    """
    needs_token: bool = False
    """True if every request needs a bearer token."""
    has_login: bool = False
    """True if clients over HTTP can get a token from an authorization server."""
    token: str = ""
    """Bearer token of the client, or "" if the client has no token."""

    @property
    def is_served(self) -> bool:
        """True if the server has a URL that clients can use. Clients cannot use a Unix socket."""
        return self.url.startswith("http")

    @property
    def address(self) -> str:
        """URL with the mode as a query parameter."""
        return f"{self.url}?mode={quote(self.mode)}" if self.mode else self.url

    @property
    def pipe(self) -> list[str]:
        """Command that a client starts for stdio. Raises: DeskUserError if no command starts this program."""
        from mcpdesk.client.configs.own_program import own_command

        command = self.command or own_command()
        if self.program:
            return [*command, "stdio", "--", *self.program]
        return [*command, "stdio", self.folder, *(["--mode", self.mode] if self.mode else [])]

    @property
    def headers(self) -> dict[str, str]:
        """Headers that a client must send."""
        headers = {self.header: self.key} if self.key else {}
        return headers | ({"Authorization": f"Bearer {self.token}"} if self.token else {})

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that a client must pass to the command."""
        return {TOKEN_VARIABLE: self.token} if self.token and not self.program else {}


class _Client(NamedTuple):
    pipe: Callable[[ServerAddress], str] | None
    url: Callable[[ServerAddress], str] | None
    prefers_url: bool = False


def client_config(client: str, facts: ServerAddress, over: Over = "") -> str:
    """Return the configuration text for `client`.

    Raises: DeskUserError for an unknown client, for a client that does not support `over`, for a server that
    would refuse all requests without a token, and if this program runs from a temporary environment.
    """
    known = CLIENTS.get(client)
    if known is None:
        raise DeskUserError(f"Unknown client {client!r}.", f"Known: {', '.join(CLIENTS)}.")
    if not over:
        over = "http" if known.pipe is None or (known.prefers_url and facts.is_served) else "stdio"
    make = known.url if over == "http" else known.pipe
    if over == "stdio" and not facts.folder and not facts.program:
        raise DeskUserError(f"{facts.server} is reached by its URL only.", "Use the form with the URL.")
    if over == "http" and not facts.url and facts.program:
        raise DeskUserError(f"{facts.server} is not served over HTTP.", "Use the form with its command.")
    if make is None and over == "http":
        raise DeskUserError(
            f"The configuration of {client} cannot hold a URL.",
            "Use the command form: the client starts the server over stdio.",
        )
    if make is None:
        raise DeskUserError(f"{client} cannot start servers.", "Use the URL form.")
    if (
        facts.needs_token
        and not facts.token
        and not (over == "http" and facts.has_login)
        and client != "curl"
    ):
        message = f"{facts.server} requires a token, and this configuration would have none."
        raise DeskUserError(message, f"`mcpdesk config FOLDER --for {client} --token-env VAR` adds one.")
    return make(facts)


def _command(facts: ServerAddress) -> dict[str, Any]:
    command, *arguments = facts.pipe
    entry = {"command": command, "args": arguments}
    return entry | ({"env": facts.environment} if facts.environment else {})


def _remote(facts: ServerAddress) -> dict[str, Any]:
    return {"url": facts.address} | ({"headers": facts.headers} if facts.headers else {})


def _listed(
    root: str, make: Callable[[ServerAddress], dict[str, Any]], **more: str
) -> Callable[[ServerAddress], str]:
    """Return a function that writes a JSON file where `root` maps the server's name to its entry."""
    return lambda facts: json.dumps(
        {root: {facts.server: {**more, **make(facts)}}}, indent=2, ensure_ascii=False
    )


def _claude_pipe(facts: ServerAddress) -> str:
    env_options = "".join(
        f"--env {shlex.quote(f'{name}={value}')} " for name, value in facts.environment.items()
    )
    # `--env` accepts several values. Without another option after `--env`, the server's name would be read as
    # a value.
    env_options += "--transport stdio " if env_options else ""
    return f"claude mcp add {env_options}{_claude_name(facts)} -- {shlex.join(facts.pipe)}"


def _claude_url(facts: ServerAddress) -> str:
    headers = "".join(f" --header {shlex.quote(f'{name}: {value}')}" for name, value in facts.headers.items())
    return f"claude mcp add --transport http {_claude_name(facts)} {shlex.quote(facts.address)}{headers}"


def _claude_name(facts: ServerAddress) -> str:
    """Return the name in the form `claude` accepts: letters, digits, `-` and `_`."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", facts.server)


def _curl(facts: ServerAddress) -> str:
    body = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    headers = "".join(f" -H {shlex.quote(f'{name}: {value}')}" for name, value in facts.headers.items())
    if facts.needs_token and not facts.token:
        headers += f' -H "Authorization: Bearer ${TOKEN_VARIABLE}"'
    where = shlex.quote(facts.address)
    if facts.url.startswith("unix:"):
        local = facts._replace(url=f"http://localhost/mcp/{facts.server}")
        path = facts.url.removeprefix("unix:")
        where = f"--unix-socket {shlex.quote(path)} {shlex.quote(local.address)}"
    return f"curl -sS -H 'Content-Type: application/json'{headers} -d '{body}' {where}"


CLIENTS: dict[str, _Client] = {
    "claude-desktop": _Client(_listed("mcpServers", _command), None),
    "cursor": _Client(_listed("mcpServers", _command), _listed("mcpServers", _remote)),
    "vscode": _Client(_listed("servers", _command, type="stdio"), _listed("servers", _remote, type="http")),
    "claude-code": _Client(_claude_pipe, _claude_url, prefers_url=True),
    "curl": _Client(None, _curl, prefers_url=True),
}
"""All supported clients, by the name used on the command line."""
