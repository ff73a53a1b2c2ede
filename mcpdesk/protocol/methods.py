"""Table of methods, with their revisions, capability, routing field and required parameters.

Source: MCP basic/transports/streamable-http, schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from mcpdesk.protocol.jsonrpc import invalid_params
from mcpdesk.protocol.revisions import REVISIONS

_ALL_REVISIONS = frozenset(revision.name for revision in REVISIONS)
_HANDSHAKE_REVISIONS = frozenset(revision.name for revision in REVISIONS if not revision.is_stateless)
_STATELESS_REVISIONS = _ALL_REVISIONS - _HANDSHAKE_REVISIONS
_CORE_TASK_REVISIONS = frozenset(revision.name for revision in REVISIONS if revision.has_core_tasks)
_TASK_REVISIONS = _CORE_TASK_REVISIONS | _STATELESS_REVISIONS
_TASK_PARAMS = (("taskId", str),)
_URI_PARAMS = (("uri", str),)


class Method(Struct, frozen=True):
    """One request that a client may send."""

    name: str
    revisions: frozenset[str]
    capability: str = ""
    """Capability that a server must declare to support the method, or "" if it needs none."""
    routing_field: str = ""
    """Member of `params` that `Mcp-Name` repeats."""
    is_cacheable: bool = False
    list_key: str = ""
    """Member of a paginated result that contains the items."""
    param_types: tuple[tuple[str, type], ...] = ()
    """Required members of `params`."""


_ROWS = (
    Method("initialize", _HANDSHAKE_REVISIONS),
    Method("server/discover", _STATELESS_REVISIONS, is_cacheable=True),
    Method("ping", _HANDSHAKE_REVISIONS),
    Method("tools/list", _ALL_REVISIONS, "tools", is_cacheable=True, list_key="tools"),
    Method("tools/call", _ALL_REVISIONS, "tools", routing_field="name", param_types=(("name", str),)),
    Method("resources/list", _ALL_REVISIONS, "resources", is_cacheable=True, list_key="resources"),
    Method(
        "resources/templates/list",
        _ALL_REVISIONS,
        "resources",
        is_cacheable=True,
        list_key="resourceTemplates",
    ),
    Method(
        "resources/read",
        _ALL_REVISIONS,
        "resources",
        routing_field="uri",
        is_cacheable=True,
        param_types=_URI_PARAMS,
    ),
    Method("resources/subscribe", _HANDSHAKE_REVISIONS, "resources", param_types=_URI_PARAMS),
    Method("resources/unsubscribe", _HANDSHAKE_REVISIONS, "resources", param_types=_URI_PARAMS),
    Method("subscriptions/listen", _STATELESS_REVISIONS, param_types=(("notifications", dict),)),
    Method("skills/list", _ALL_REVISIONS, "skills", is_cacheable=True, list_key="skills"),
    Method("skills/get", _ALL_REVISIONS, "skills", is_cacheable=True, param_types=_URI_PARAMS),
    Method("resources/directory/read", _ALL_REVISIONS, "skills", param_types=_URI_PARAMS),
    Method("prompts/list", _ALL_REVISIONS, "prompts", is_cacheable=True, list_key="prompts"),
    Method("prompts/get", _ALL_REVISIONS, "prompts", routing_field="name", param_types=(("name", str),)),
    Method(
        "completion/complete", _ALL_REVISIONS, "completions", param_types=(("ref", dict), ("argument", dict))
    ),
    Method("logging/setLevel", _HANDSHAKE_REVISIONS, "logging", param_types=(("level", str),)),
    Method("tasks/get", _TASK_REVISIONS, "tasks", routing_field="taskId", param_types=_TASK_PARAMS),
    Method("tasks/cancel", _TASK_REVISIONS, "tasks", routing_field="taskId", param_types=_TASK_PARAMS),
    Method(
        "tasks/update",
        _STATELESS_REVISIONS,
        "tasks",
        routing_field="taskId",
        param_types=(*_TASK_PARAMS, ("inputResponses", dict)),
    ),
    Method("tasks/result", _CORE_TASK_REVISIONS, "tasks", param_types=_TASK_PARAMS),
    Method("tasks/list", _CORE_TASK_REVISIONS, "tasks"),
)

CALLS = frozenset({"tools/call", "resources/read", "prompts/get"})
"""Methods that use an offered item and may ask the client questions. Only these are counted as calls."""

METHODS: dict[str, Method] = {row.name: row for row in _ROWS}

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Log levels in ascending severity."""
ALL_LOGS = "debug"
"""Log level at which a server sends every message."""

_DOTTED = {row.name.replace("/", "."): row.name for row in _ROWS if "/" in row.name}
_ALIASES = _DOTTED | {
    "notifications/canceled": "notifications/cancelled",
    "notifications.cancelled": "notifications/cancelled",
    "notifications.canceled": "notifications/cancelled",
    "notifications.initialized": "notifications/initialized",
}

TOOL_CALLS = frozenset({"tools/call", "tools.call", "callTool"})
"""Methods that call a tool, under all their names."""
_CALL_METHODS = TOOL_CALLS | CALLS | {dotted for dotted, name in _DOTTED.items() if name in CALLS}


def is_call(message: Mapping[str, Any]) -> bool:
    """Return True if a request counts as a call.

    A call has one of the methods in `CALLS`, and is not a later round. A later round has `inputResponses` or
    a `requestState`.
    """
    if message["method"] not in _CALL_METHODS:
        return False
    params = message.get("params")
    return not isinstance(params, dict) or not ("inputResponses" in params or "requestState" in params)


def canonical(name: str) -> str:
    """Return the specification's spelling of a method: `tools/list` for `tools.list`.

    Other spellings are accepted only in the handshake era.
    """
    return _ALIASES.get(name, name)


MAX_URI_LENGTH = 8192
"""Maximum number of characters in a URI."""


def check_uri(uri: str, member: str) -> None:
    """Check the length of a URI. `member` names the member that contains it.

    Raises: RemoteProtocolError (-32602) with the limit.
    """
    if len(uri) > MAX_URI_LENGTH:
        text = f"a URI of {len(uri)} characters is too long; the limit is {MAX_URI_LENGTH}"
        raise invalid_params(f"{member}: {text}")
