"""Conversion of entries that start `npx mcp-remote URL` to a direct connection to the URL.

The connection uses the headers and the OAuth client in the arguments of mcp-remote. For the arguments, see
https://github.com/geelen/mcp-remote. An entry with an argument that is not in the tables below is not
converted: mcp-remote is started.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

import msgspec

from mcpdesk.client.configs.login_keys import LAST_PORT
from mcpdesk.client.configs.servers import ConfiguredServer
from mcpdesk.client.oauth.login_options import NO_OPTIONS, LoginOptions, Secret

_IGNORED_FLAGS = frozenset({"--allow-http", "--debug", "--silent", "--enable-proxy"})
_IGNORED_OPTIONS = frozenset({"--auth-timeout", "--ignore-tool", "--resource"})
"""Options with a value that are ignored."""
_METADATA_OPTION, _CLIENT_OPTION = "--static-oauth-client-metadata", "--static-oauth-client-info"
"""Options with a JSON value, or `@` and the path of a JSON file."""
_VALUE_OPTIONS = frozenset(
    {"--header", "--transport", "--host", _METADATA_OPTION, _CLIENT_OPTION, *_IGNORED_OPTIONS}
)
"""Known options with a value."""
_JSON_MEMBERS = {_METADATA_OPTION: ("scope",), _CLIENT_OPTION: ("client_id", "client_secret")}
"""Supported members of the JSON value, by option."""
_CALLBACK_PATH = "/oauth/callback"
_CALLBACK_HOSTS = ("localhost", "127.0.0.1")
_TRANSPORTS = {"http-first": "", "sse-first": "", "http-only": "http", "sse-only": "sse"}


def without_mcp_remote(server: ConfiguredServer) -> ConfiguredServer:
    """Return the server that mcp-remote would connect to. Any other entry is returned unchanged."""
    arguments = _remote_arguments(server.argv)
    if not arguments or not arguments[0].startswith(("http://", "https://", "${")):
        return server
    headers, login = dict[str, str](), dict[str, str]()
    kind, host, port = "", _CALLBACK_HOSTS[0], 0
    url, *options = arguments
    while options:
        option = options.pop(0)
        if option.isdecimal():
            port = int(option) if len(option) <= len(str(LAST_PORT)) else LAST_PORT + 1
        if option in _IGNORED_FLAGS or option.isdecimal():
            continue
        if not options or option not in _VALUE_OPTIONS:
            return server
        value = options.pop(0)
        if option == "--header":
            name, colon, text = value.partition(":")
            if not colon:
                return server
            headers[name.strip()] = text.strip()
        elif option == "--transport":
            if value not in _TRANSPORTS:
                return server
            kind = _TRANSPORTS[value]
        elif option == "--host":
            host = value
        elif option == _CLIENT_OPTION or (option == _METADATA_OPTION and not value.startswith("@")):
            if (members := _string_members(value)) is None:
                return server
            login |= {key: text for key, text in members.items() if key in _JSON_MEMBERS[option]}
    if login.get("client_id") and not (host in _CALLBACK_HOSTS and port <= LAST_PORT):
        return server  # the client is registered with a redirect URI that BrowserLogin cannot serve
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


def _string_members(value: str) -> dict[str, str] | None:
    """Return the string members of an option's JSON object. None for any other value, such as `@FILE`."""
    try:
        values = msgspec.json.decode(value, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    return {key: text for key, text in values.items() if isinstance(text, str)}


def _login(members: Mapping[str, str], host: str, port: int) -> LoginOptions:
    """Return the login options. The redirect URI is set only for a registered client."""
    options = LoginOptions(scope=members.get("scope", ""))
    if not (client := members.get("client_id", "")):
        return options
    return msgspec.structs.replace(
        options,
        client_id=client,
        client_secret=Secret(members.get("client_secret", "")),
        callback_port=port,
        callback_host=host,
        callback_path=_CALLBACK_PATH,
    )


def _remote_arguments(argv: tuple[str, ...]) -> list[str]:
    """Return the arguments of mcp-remote, or an empty list if the command starts another program."""
    words = list(argv)
    if words and PurePath(words[0]).name in ("npx", "npx.cmd", "bunx"):
        words = words[1:]
        while words and words[0] in ("-y", "--yes", "-q", "--quiet"):
            words = words[1:]
    if not words:
        return []
    name, version_separator, _ = PurePath(words[0]).name.partition("@")
    is_mcp_remote = name == "mcp-remote" and (version_separator or words[0].endswith("mcp-remote"))
    return words[1:] if is_mcp_remote else []
