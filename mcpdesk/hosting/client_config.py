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

ClientTransport = Literal["stdio", "http", ""]
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
    """Functions that write the configuration of a client. None if the client lacks this transport."""

    pipe: Callable[[ServerAddress], str] | None
    """Writes a configuration with a command that the client starts."""
    url: Callable[[ServerAddress], str] | None
    """Writes a configuration with a URL that the client uses."""
    prefers_url: bool = False


def client_config(client: str, target: ServerAddress, over: ClientTransport = "") -> str:
    """Return the configuration text with which `client` reaches a server.

    Raises: DeskUserError if the client is unknown or does not support `over`, if the server would refuse all
    requests without a token, or if this program runs from a temporary environment.
    """
    formats = CLIENTS.get(client)
    if formats is None:
        raise DeskUserError(f"Unknown client {client!r}.", f"Known: {', '.join(CLIENTS)}.")
    if not over:
        over = "http" if formats.pipe is None or (formats.prefers_url and target.is_served) else "stdio"
    write_config = formats.url if over == "http" else formats.pipe
    if over == "stdio" and not target.folder and not target.program:
        raise DeskUserError(f"{target.server} is reached by its URL only.", "Use the form with the URL.")
    if over == "http" and not target.url and target.program:
        raise DeskUserError(f"{target.server} is not served over HTTP.", "Use the form with its command.")
    if write_config is None and over == "http":
        raise DeskUserError(
            f"The configuration of {client} cannot hold a URL.",
            "Use the command form: the client starts the server over stdio.",
        )
    if write_config is None:
        raise DeskUserError(f"{client} cannot start servers.", "Use the URL form.")
    if (
        target.needs_token
        and not target.token
        and not (over == "http" and target.has_login)
        and client != "curl"
    ):
        message = f"{target.server} requires a token, and this configuration would have none."
        raise DeskUserError(message, f"`mcpdesk config FOLDER --for {client} --token-env VAR` adds one.")
    return write_config(target)


def _command_entry(target: ServerAddress) -> dict[str, Any]:
    command, *arguments = target.pipe
    entry = {"command": command, "args": arguments}
    return entry | ({"env": target.environment} if target.environment else {})


def _url_entry(target: ServerAddress) -> dict[str, Any]:
    return {"url": target.address} | ({"headers": target.headers} if target.headers else {})


def _json_writer(
    root: str, make_entry: Callable[[ServerAddress], dict[str, Any]], **extra_members: str
) -> Callable[[ServerAddress], str]:
    """Return a function that writes JSON text. In this text, `root` maps the server's name to its entry."""
    return lambda target: json.dumps(
        {root: {target.server: {**extra_members, **make_entry(target)}}}, indent=2, ensure_ascii=False
    )


def _claude_pipe(target: ServerAddress) -> str:
    env_options = "".join(
        f"--env {shlex.quote(f'{name}={value}')} " for name, value in target.environment.items()
    )
    # `--env` accepts several values. Without another option after `--env`, the server's name would be read as
    # a value.
    env_options += "--transport stdio " if env_options else ""
    return f"claude mcp add {env_options}{_claude_name(target)} -- {shlex.join(target.pipe)}"


def _claude_url(target: ServerAddress) -> str:
    headers = "".join(
        f" --header {shlex.quote(f'{name}: {value}')}" for name, value in target.headers.items()
    )
    return f"claude mcp add --transport http {_claude_name(target)} {shlex.quote(target.address)}{headers}"


def _claude_name(target: ServerAddress) -> str:
    """Return the name in the form `claude` accepts: letters, digits, `-` and `_`."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", target.server)


def _curl(target: ServerAddress) -> str:
    body = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    headers = "".join(f" -H {shlex.quote(f'{name}: {value}')}" for name, value in target.headers.items())
    if target.needs_token and not target.token:
        headers += f' -H "Authorization: Bearer ${TOKEN_VARIABLE}"'
    destination = shlex.quote(target.address)
    if target.url.startswith("unix:"):
        socket_target = target._replace(url=f"http://localhost/mcp/{target.server}")
        path = target.url.removeprefix("unix:")
        destination = f"--unix-socket {shlex.quote(path)} {shlex.quote(socket_target.address)}"
    return f"curl -sS -H 'Content-Type: application/json'{headers} -d '{body}' {destination}"


CLIENTS: dict[str, _Client] = {
    "claude-desktop": _Client(_json_writer("mcpServers", _command_entry), None),
    "cursor": _Client(_json_writer("mcpServers", _command_entry), _json_writer("mcpServers", _url_entry)),
    "vscode": _Client(
        _json_writer("servers", _command_entry, type="stdio"),
        _json_writer("servers", _url_entry, type="http"),
    ),
    "claude-code": _Client(_claude_pipe, _claude_url, prefers_url=True),
    "curl": _Client(None, _curl, prefers_url=True),
}
"""All supported clients, by the name used on the command line."""
