"""Table of methods, with their revisions, capability, routing field and required parameters.

Source: MCP basic/transports/streamable-http, schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from mcpdesk.protocol.jsonrpc import invalid_params
from mcpdesk.protocol.revisions import REVISIONS

_ALL = frozenset(revision.name for revision in REVISIONS)
_HANDSHAKE = frozenset(revision.name for revision in REVISIONS if not revision.is_stateless)
_STATELESS = _ALL - _HANDSHAKE
_CORE_TASKS = frozenset(revision.name for revision in REVISIONS if revision.has_core_tasks)
_TASKS = _CORE_TASKS | _STATELESS
_TASK = (("taskId", str),)
_URI = (("uri", str),)


class Method(Struct, frozen=True):
    """One request that a client may send."""

    name: str
    revisions: frozenset[str]
    capability: str = ""
    """Capability that a server must declare to support the method. Empty for none."""
    routing_field: str = ""
    """Member of `params` that `Mcp-Name` repeats."""
    is_cacheable: bool = False
    list_key: str = ""
    """Member of a paginated result that contains the items."""
    param_types: tuple[tuple[str, type], ...] = ()
    """Required members of `params`."""


_ROWS = (
    Method("initialize", _HANDSHAKE),
    Method("server/discover", _STATELESS, is_cacheable=True),
    Method("ping", _HANDSHAKE),
    Method("tools/list", _ALL, "tools", is_cacheable=True, list_key="tools"),
    Method("tools/call", _ALL, "tools", routing_field="name", param_types=(("name", str),)),
    Method("resources/list", _ALL, "resources", is_cacheable=True, list_key="resources"),
    Method("resources/templates/list", _ALL, "resources", is_cacheable=True, list_key="resourceTemplates"),
    Method(
        "resources/read",
        _ALL,
        "resources",
        routing_field="uri",
        is_cacheable=True,
        param_types=_URI,
    ),
    Method("resources/subscribe", _HANDSHAKE, "resources", param_types=_URI),
    Method("resources/unsubscribe", _HANDSHAKE, "resources", param_types=_URI),
    Method("subscriptions/listen", _STATELESS, param_types=(("notifications", dict),)),
    Method("skills/list", _ALL, "skills", is_cacheable=True, list_key="skills"),
    Method("skills/get", _ALL, "skills", is_cacheable=True, param_types=_URI),
    Method("resources/directory/read", _ALL, "skills", param_types=_URI),
    Method("prompts/list", _ALL, "prompts", is_cacheable=True, list_key="prompts"),
    Method("prompts/get", _ALL, "prompts", routing_field="name", param_types=(("name", str),)),
    Method("completion/complete", _ALL, "completions", param_types=(("ref", dict), ("argument", dict))),
    Method("logging/setLevel", _HANDSHAKE, "logging", param_types=(("level", str),)),
    Method("tasks/get", _TASKS, "tasks", routing_field="taskId", param_types=_TASK),
    Method("tasks/cancel", _TASKS, "tasks", routing_field="taskId", param_types=_TASK),
    Method(
        "tasks/update",
        _STATELESS,
        "tasks",
        routing_field="taskId",
        param_types=(*_TASK, ("inputResponses", dict)),
    ),
    Method("tasks/result", _CORE_TASKS, "tasks", param_types=_TASK),
    Method("tasks/list", _CORE_TASKS, "tasks"),
)

CALLS = frozenset({"tools/call", "resources/read", "prompts/get"})
"""Methods that use an offered item and may ask the client questions. Only these are counted as calls."""

METHODS: dict[str, Method] = {row.name: row for row in _ROWS}

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Log levels in ascending severity."""

_DOTTED = {row.name.replace("/", "."): row.name for row in _ROWS if "/" in row.name}
_ALIASES = _DOTTED | {
    "notifications/canceled": "notifications/cancelled",
    "notifications.cancelled": "notifications/cancelled",
    "notifications.canceled": "notifications/cancelled",
    "notifications.initialized": "notifications/initialized",
}

TOOL_CALLS = frozenset({"tools/call", "tools.call", "callTool"})
"""Methods that call a tool, under all their names."""
_CALLED = TOOL_CALLS | CALLS | {dotted for dotted, name in _DOTTED.items() if name in CALLS}


def is_call(message: Mapping[str, Any]) -> bool:
    """Return True if a request counts as a call.

    A call has one of the methods in `CALLS`, and is not a later round. A later round has `inputResponses` or
    a `requestState`.
    """
    if message["method"] not in _CALLED:
        return False
    params = message.get("params")
    return not isinstance(params, dict) or not ("inputResponses" in params or "requestState" in params)


def canonical(name: str) -> str:
    """Return the specification's spelling of a method: `tools/list` for `tools.list`.

    Other spellings are accepted only in the handshake era.
    """
    return _ALIASES.get(name, name)


LONGEST_URI = 8192
"""Maximum number of characters in a URI."""


def check_uri(uri: str, where: str) -> None:
    """Check the length of a URI. `where` names the member that contains it.

    Raises: RemoteProtocolError (-32602) with the limit.
    """
    if len(uri) > LONGEST_URI:
        text = f"a URI of {len(uri)} characters is too long; the limit is {LONGEST_URI}"
        raise invalid_params(f"{where}: {text}")
