"""Entries that wrap a URL with `npx mcp-remote`: the URL is reached directly, with the same headers.

Arguments are those of https://github.com/geelen/mcp-remote. An entry with an argument that is not in these
tables starts the program, as its client does.
"""

from __future__ import annotations

from pathlib import PurePath

import msgspec

from mcpdesk.client.configs.servers import ConfiguredServer

_FLAGS = frozenset({"--allow-http", "--debug", "--silent", "--enable-proxy"})
_WITH_VALUE = frozenset({"--host", "--auth-timeout", "--ignore-tool", "--static-oauth-client-metadata"})
"""Options about its own login and output, which is not used."""
_TRANSPORTS = {"http-first": "", "sse-first": "", "http-only": "http", "sse-only": "sse"}


def reached_directly(server: ConfiguredServer) -> ConfiguredServer:
    """The server behind mcp-remote; the same server for any other command."""
    words = _arguments(server.argv)
    if not words or not words[0].startswith(("http://", "https://", "${")):
        return server
    headers: dict[str, str] = {}
    kind = ""
    url, *rest = words
    while rest:
        word = rest.pop(0)
        if word in _FLAGS or word.isdecimal():
            continue
        if not rest or word not in ("--header", "--transport", *_WITH_VALUE):
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
    remark = "reached directly, without mcp-remote"
    return msgspec.structs.replace(
        server, argv=(), url=url, headers=headers, kind=kind, remarks=(*server.remarks, remark)
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
