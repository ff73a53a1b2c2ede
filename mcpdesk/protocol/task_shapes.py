"""JSON forms of tasks in two designs: the core of 2025-11-25 and the extension of 2026-07-28.

Both designs describe the same task with different members. The revision determines which design is used.
Source: MCP basic/utilities/tasks of 2025-11-25.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import orjson
from msgspec import Struct

from mcpdesk.errors import ProtocolError, RemoteProtocolError
from mcpdesk.protocol import codec
from mcpdesk.protocol.client_questions import TASKS, Terms
from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject, invalid_params

EXTENSION = TASKS
RELATED_KEY = "io.modelcontextprotocol/related-task"
CORE_STATUS = "notifications/tasks/status"
EXTENSION_STATUS = "notifications/tasks"
CORE_CAPABILITY: JSONObject = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
EXTENSION_CAPABILITY: JSONObject = {EXTENSION: {}}
POLL_MS = 500
"""Recommended polling interval for clients, in milliseconds."""
MAX_TTL_MS = (1 << 53) - 1
"""Maximum lifetime of a task in milliseconds: the largest integer that every JSON parser can read."""


class TaskStatus(StrEnum):
    """Status of a task. The last three are final."""

    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """True if the status is final."""
        return not _NEXT_STATUSES[self]

    def may_become(self, other: TaskStatus) -> bool:
        """Return True if the transition is allowed."""
        return other in _NEXT_STATUSES[self]


_FINAL_STATUSES = frozenset({TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED})
_NEXT_STATUSES: dict[TaskStatus, frozenset[TaskStatus]] = {
    TaskStatus.WORKING: _FINAL_STATUSES | {TaskStatus.INPUT_REQUIRED},
    TaskStatus.INPUT_REQUIRED: _FINAL_STATUSES | {TaskStatus.WORKING},
    TaskStatus.COMPLETED: frozenset(),
    TaskStatus.FAILED: frozenset(),
    TaskStatus.CANCELLED: frozenset(),
}


class TaskView(Struct):
    """Fields of a task that both designs have. Times are Unix seconds. `ttl_s` counts from `created`."""

    id: str
    status: TaskStatus
    created: float
    updated: float
    ttl_s: float | None
    """Lifetime, or None for a task that is kept without limit."""
    message: str = ""

    @property
    def status_message(self) -> str:
        """Status message for the client. Subclasses may add to `message`."""
        return self.message


def core(view: TaskView) -> JSONObject:
    """Return the Task object of the core design."""
    return _common(view) | {"ttl": _milliseconds(view.ttl_s), "pollInterval": POLL_MS}


def extension(view: TaskView) -> JSONObject:
    """Return the Task fields of the extension."""
    return _common(view) | {"ttlMs": _milliseconds(view.ttl_s), "pollIntervalMs": POLL_MS}


def detailed(view: TaskView, result: bytes, error: ProtocolError | None, requests: JSONObject) -> JSONObject:
    """Return the DetailedTask of the extension, with the encoded result, the error or the questions."""
    body = extension(view)
    match view.status:
        case TaskStatus.FAILED if error is not None:
            body["error"] = codec.error_object(error)
        case TaskStatus.COMPLETED | TaskStatus.FAILED:
            # A tool that fails (`isError`) still has a result, so its task is `completed` here. In the
            # core design, the same task is `failed`.
            body |= {"status": TaskStatus.COMPLETED.value, "result": orjson.Fragment(result)}
        case TaskStatus.INPUT_REQUIRED:
            body["inputRequests"] = requests
    return body


def created(view: TaskView, terms: Terms) -> JSONObject:
    """Return the result of the request that became a task."""
    if terms.revision.is_stateless:
        return {"resultType": "task"} | extension(view)
    return {"task": core(view)}


def related(identifier: str) -> JSONObject:
    """Return the metadata that links a message of the core design to its task."""
    return {RELATED_KEY: {"taskId": identifier}}


def missing_extension(subject: str) -> RemoteProtocolError:
    """Return the error for a request that needs the extension and does not declare it."""
    data = {"requiredCapabilities": {"extensions": EXTENSION_CAPABILITY}}
    return RemoteProtocolError(
        ErrorCode.MISSING_CAPABILITY, f"{subject} needs the extension {EXTENSION}", data
    )


def requested_ttl_s(params: Mapping[str, Any]) -> float | None:
    """Return the lifetime that a client of the core design requests. Raises: RemoteProtocolError (-32602)."""
    task = params["task"]
    if not isinstance(task, dict):
        raise invalid_params("task must be an object")
    ttl = task.get("ttl")
    if ttl is None:
        return None
    if isinstance(ttl, float) and ttl.is_integer():
        ttl = int(ttl)
    if not isinstance(ttl, int) or isinstance(ttl, bool) or ttl <= 0:
        raise invalid_params("task.ttl must be a positive whole number of milliseconds")
    return min(ttl, MAX_TTL_MS) / 1000


def _common(view: TaskView) -> JSONObject:
    body: JSONObject = {
        "taskId": view.id,
        "status": view.status.value,
        "createdAt": _timestamp(view.created),
        "lastUpdatedAt": _timestamp(view.updated),
    }
    return body | {"statusMessage": codec.sendable(view.status_message)} if view.status_message else body


def _timestamp(seconds: float) -> str:
    """Return a time as ISO 8601 in UTC: `2026-08-01T10:00:00.123Z`."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else max(1, round(seconds * 1000))
