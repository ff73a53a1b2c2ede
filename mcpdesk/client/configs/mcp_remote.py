"""Entries that wrap a URL with `npx mcp-remote`: it is reached directly, with the same headers and client.

Arguments are those of https://github.com/geelen/mcp-remote. An entry with an argument that is not in these
tables starts the program, as its client does.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

import msgspec

from mcpdesk.client.configs.login_keys import LAST_PORT
from mcpdesk.client.configs.servers import ConfiguredServer
from mcpdesk.client.oauth.login_options import NO_OPTIONS, LoginOptions, Secret

_FLAGS = frozenset({"--allow-http", "--debug", "--silent", "--enable-proxy"})
_WITH_VALUE = frozenset({"--auth-timeout", "--ignore-tool", "--resource"})
"""Options about its own output and its store of tokens, which are not used."""
_METADATA, _CLIENT = "--static-oauth-client-metadata", "--static-oauth-client-info"
"""Options whose value is JSON, or `@` and the path of a file with it."""
_MEMBERS = {_METADATA: ("scope",), _CLIENT: ("client_id", "client_secret")}
"""Members of that JSON that are used."""
_CALLBACK_PATH = "/oauth/callback"
_HOSTS = ("localhost", "127.0.0.1")
_TRANSPORTS = {"http-first": "", "sse-first": "", "http-only": "http", "sse-only": "sse"}


def reached_directly(server: ConfiguredServer) -> ConfiguredServer:
    """The server behind mcp-remote; the same server for any other command."""
    words = _arguments(server.argv)
    if not words or not words[0].startswith(("http://", "https://", "${")):
        return server
    headers, login = dict[str, str](), dict[str, str]()
    kind, host, port = "", _HOSTS[0], 0
    url, *rest = words
    while rest:
        word = rest.pop(0)
        if word.isdecimal():
            port = int(word)
        if word in _FLAGS or word.isdecimal():
            continue
        if not rest or word not in ("--header", "--transport", "--host", _METADATA, _CLIENT, *_WITH_VALUE):
            return server
        value = rest.pop(0)
        if word == "--header":
            name, colon, text = value.partition(":")
            if not colon:
                return server
            headers[name.strip()] = text.strip()
        elif word == "--transport":
            if value not in _TRANSPORTS:
                return server
            kind = _TRANSPORTS[value]
        elif word == "--host":
            host = value
        elif word == _CLIENT or (word == _METADATA and not value.startswith("@")):
            if (found := _texts(value)) is None:
                return server
            login |= {key: text for key, text in found.items() if key in _MEMBERS[word]}
    if login.get("client_id") and not (host in _HOSTS and port <= LAST_PORT):
        return server  # its browser would be sent elsewhere
    remark = "reached directly, without mcp-remote"
    return msgspec.structs.replace(
        server,
        argv=(),
        url=url,
        headers=headers,
        kind=kind,
        login=server.login if server.login != NO_OPTIONS else _login(login, host, port),
        remarks=(*server.remarks, remark),
    )


def _texts(value: str) -> dict[str, str] | None:
    """The texts of a JSON object that an option has; None for anything else, and for a file."""
    try:
        found = msgspec.json.decode(value, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    return {key: text for key, text in found.items() if isinstance(text, str)}


def _login(texts: Mapping[str, str], host: str, port: int) -> LoginOptions:
    """The options of a login. The way back counts for a client that is registered with it."""
    options = LoginOptions(scope=texts.get("scope", ""))
    if not (client := texts.get("client_id", "")):
        return options
    return msgspec.structs.replace(
        options,
        client_id=client,
        client_secret=Secret(texts.get("client_secret", "")),
        callback_port=port,
        callback_host=host,
        callback_path=_CALLBACK_PATH,
    )


def _arguments(argv: tuple[str, ...]) -> list[str]:
    """The arguments of mcp-remote; empty if the command starts something else."""
    words = list(argv)
    if words and PurePath(words[0]).name in ("npx", "npx.cmd", "bunx"):
        words = words[1:]
        while words and words[0] in ("-y", "--yes", "-q", "--quiet"):
            words = words[1:]
    if not words:
        return []
    name, at, _ = PurePath(words[0]).name.partition("@")
    return words[1:] if name == "mcp-remote" and (at or words[0].endswith("mcp-remote")) else []
