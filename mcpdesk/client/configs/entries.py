"""Validation of one entry of a configuration file.

An invalid entry raises no exception. It becomes a server whose `problem` has the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcpdesk.client.configs.entry_values import InvalidEntry, pairs_at, text_at, texts_at
from mcpdesk.client.configs.login_keys import login_options
from mcpdesk.client.configs.mcp_remote import without_mcp_remote
from mcpdesk.client.configs.servers import ConfiguredServer

KEYS = frozenset(
    {
        "command", "args", "env", "cwd", "type", "transport", "transportType", "url", "serverUrl", "httpUrl",
        "uri", "headers", "envFile", "account",
        "oauth", "auth",
    }
)  # fmt: skip
"""Supported keys of an entry."""
IGNORED_KEYS = frozenset(
    {
        "disabled", "enabled", "autoApprove", "alwaysAllow", "trust", "includeTools", "excludeTools",
        "disabledTools", "gallery", "version", "dev", "description", "timeout", "tools", "source",
        "settings", "name",
        "startup_timeout_sec", "startup_timeout_ms", "tool_timeout_sec", "enabled_tools", "disabled_tools",
        "bundled", "display_name", "available_tools", "connectionTimeout",
    }
)  # fmt: skip
"""Keys for settings of other clients. They are ignored, and not reported as unknown."""
TRANSPORT_KINDS = {
    "stdio": "",
    "local": "",
    "http": "http",
    "remote": "",
    "streamable-http": "http",
    "sse": "sse",
    "ws": "ws",
    "websocket": "ws",
}
"""Transport by the type in an entry. Empty if the type leaves the transport open."""
URL_KEYS = ("url", "httpUrl", "serverUrl", "uri")
"""Keys of the URL in different clients."""
MAX_NAMES = 10
"""Maximum number of unknown keys of an entry that are reported."""


def configured_server(name: str, keys: Any, project: str = "") -> ConfiguredServer:
    """Return the server of an entry. `keys` are those of Claude and VS Code with their values."""
    try:
        return without_mcp_remote(_server(name, keys, project))
    except InvalidEntry as error:
        return ConfiguredServer(name, project=project, problem=str(error))


def _server(name: str, keys: Any, project: str) -> ConfiguredServer:
    """Parse an entry. Raises: InvalidEntry."""
    if not isinstance(keys, dict):
        raise InvalidEntry("it must be an object with a command or a url")
    url_keys = [key for key in URL_KEYS if keys.get(key) is not None]
    has_command = keys.get("command") is not None
    kind = _kind(keys)
    if has_command == bool(url_keys):
        conflict = f", and has both command and {url_keys[0]}" if has_command else ""
        raise InvalidEntry(f"it needs either a command or a url{conflict}")
    command = text_at(keys, "command")
    url = text_at(keys, url_keys[0]) if url_keys else ""
    if has_command and not command.strip():
        raise InvalidEntry("its command is empty")
    if url_keys and not url.strip():
        raise InvalidEntry(f"its {url_keys[0]} is empty")
    login, unknown_login_keys = login_options(keys)
    unknown_keys = [*sorted(str(key) for key in set(keys) - KEYS - IGNORED_KEYS), *unknown_login_keys]
    return ConfiguredServer(
        name,
        (command, *texts_at(keys, "args")) if has_command else (),
        pairs_at(keys, "env"),
        text_at(keys, "cwd"),
        url,
        pairs_at(keys, "headers"),
        kind,
        text_at(keys, "account"),
        login,
        text_at(keys, "envFile"),
        project,
        remarks=tuple(f"{key[:80]!r} is not allowed here" for key in unknown_keys[:MAX_NAMES]),
    )


def _kind(keys: Mapping[str, Any]) -> str:
    """Return the transport of an entry, or "" to detect it. Raises: InvalidEntry."""
    key = next((key for key in ("type", "transport", "transportType") if keys.get(key) is not None), "")
    if not key:
        return "http" if keys.get("httpUrl") is not None else ""
    value = keys[key]
    type_name = value.replace("_", "-").lower() if isinstance(value, str) else ""
    type_name = "streamable-http" if type_name == "streamablehttp" else type_name
    if type_name not in TRANSPORT_KINDS:
        raise InvalidEntry(f"{key} is {str(value)[:80]!r}; allowed: {', '.join(TRANSPORT_KINDS)}")
    return TRANSPORT_KINDS[type_name]
