"""Calls that only exist as tasks, followed to their end as if they were plain ones. Source: WIRE 8."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from mcpdesk.bridge.line import Line
from mcpdesk.bridge.partings import within_parting
from mcpdesk.errors import CallError, InvalidAnswer, RpcError
from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject
from mcpdesk.protocol.stateless import CAPABILITIES_KEY
from mcpdesk.protocol.tasks import EXTENSION, EXTENSION_CAPABILITY, POLL_MS, TaskStatus

SLOWEST_POLL_MS = 10_000
DECLARED: JSONObject = {"_meta": {CAPABILITIES_KEY: {"extensions": EXTENSION_CAPABILITY}}}
"""What goes along with each request about a task of the extension."""


def is_unknown_way(error: RpcError) -> bool:
    """Whether a refusal may mean that the call has to be made another way."""
    return error.code in (ErrorCode.METHOD_NOT_FOUND, ErrorCode.INVALID_REQUEST)


def has_to_be_task(line: Line, tool: JSONObject | None, error: RpcError) -> bool:
    """Whether a call was refused because it has to be a task: as the error says, or the tool of itself."""
    if line.revision.is_stateless:
        data = error.data if isinstance(error.data, dict) else {}
        required = data.get("requiredCapabilities")
        extensions = required.get("extensions") if isinstance(required, dict) else None
        is_asked = isinstance(extensions, dict) and EXTENSION in extensions
        return error.code == ErrorCode.MISSING_CAPABILITY and is_asked
    execution = (tool or {}).get("execution")
    support = execution.get("taskSupport") if isinstance(execution, dict) else None
    return line.revision.has_core_tasks and is_unknown_way(error) and support == "required"


async def call_as_task(line: Line, params: JSONObject, headers: dict[str, str]) -> JSONObject:
    """The result of a call that is made as a task. Whoever stops waiting cancels it.

    Raises: RpcError for a task that failed; CallError for one that was cancelled; InvalidAnswer.
    """
    if line.revision.is_stateless:
        created = await line.request("tools/call", params | DECLARED, headers)
        if created.get("resultType") != "task":
            return created
        return await _cancelling(line, _named(created, line), _polled(line, created), DECLARED)
    created = await line.request("tools/call", params | {"task": {}}, headers)
    task = created.get("task")
    named = _named(task if isinstance(task, dict) else {}, line)
    return await _cancelling(line, named, line.request("tasks/result", named, {}), {})


async def _cancelling(
    line: Line, named: JSONObject, work: Awaitable[JSONObject], declared: JSONObject
) -> JSONObject:
    try:
        return await work
    except asyncio.CancelledError:
        await within_parting(line.request("tasks/cancel", named | declared, {}))
        raise


async def _polled(line: Line, created: JSONObject) -> JSONObject:
    """Look at the task until it is over."""
    named = _named(created, line)
    task = created
    while True:
        match task.get("status"):
            case TaskStatus.COMPLETED if isinstance(task.get("result"), dict):
                result: JSONObject = task["result"]
                return result
            case TaskStatus.FAILED if isinstance(task.get("error"), dict):
                error = task["error"]
                code = error.get("code")
                raise RpcError(
                    code if isinstance(code, int) else ErrorCode.INTERNAL_ERROR,
                    str(error.get("message", "the task failed")),
                    error.get("data"),
                    line.target,
                )
            case TaskStatus.COMPLETED | TaskStatus.FAILED as status if task is not created:
                raise InvalidAnswer(f"a task is {status!r} and does not say how it ended", line.target)
            case TaskStatus.CANCELLED:
                raise CallError("the task was cancelled", line.target)
            case TaskStatus.WORKING:
                await asyncio.sleep(_pause_s(task))
            case status if task is not created:
                raise InvalidAnswer(
                    f"a task is {str(status)[:40]!r}: this client answers no questions", line.target
                )
        task = await line.request("tasks/get", named | DECLARED, {})


def _named(task: JSONObject, line: Line) -> JSONObject:
    identifier = task.get("taskId")
    if not isinstance(identifier, str):
        raise InvalidAnswer("a task has no taskId", line.target)
    return {"taskId": identifier}


def _pause_s(task: JSONObject) -> float:
    asked: Any = task.get("pollIntervalMs")
    if not isinstance(asked, int | float) or isinstance(asked, bool):
        asked = POLL_MS
    return float(min(max(asked, 1), SLOWEST_POLL_MS)) / 1000
