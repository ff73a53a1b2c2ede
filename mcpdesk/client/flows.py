"""Calls that take several requests, followed to their end as if they took one.

Tools that only exist as tasks (WIRE 8), and servers of the stateless era that ask on the way (WIRE 7).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any

from mcpdesk.client.answer_checks import excerpt, question_fault
from mcpdesk.client.farewells import within_parting
from mcpdesk.client.line import ELICITATION, Elicit, Line
from mcpdesk.errors import CallError, InvalidAnswer, RpcError
from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject
from mcpdesk.protocol.stateless import CAPABILITIES_KEY
from mcpdesk.protocol.task_shapes import EXTENSION, EXTENSION_CAPABILITY, POLL_MS, TaskStatus

SLOWEST_POLL_MS = 10_000
DECLARED: JSONObject = {"_meta": {CAPABILITIES_KEY: {"extensions": EXTENSION_CAPABILITY}}}
"""What goes along with each request about a task of the extension."""
MAY_ASK = frozenset({"tools/call", "prompts/get", "resources/read"})
MOST_ROUNDS = 100
PAUSE_S = 0.1
"""How long to wait before a request is sent again whose result asks nothing."""


class AskingLine:
    """A line in the stateless era whose server may ask: `elicit` answers, and the request is sent again."""

    def __init__(self, line: Line, elicit: Elicit) -> None:
        self.target = line.target
        self.revision = line.revision
        self.mirrors = line.mirrors
        self.server = line.server
        self.instructions = line.instructions
        self.close = line.close
        self._line = line
        self._elicit = elicit

    async def request(self, method: str, params: JSONObject, headers: Mapping[str, str]) -> JSONObject:
        """The result after all questions. Raises: CallError; what `elicit` raises."""
        declared = _declaring(params)
        sent = declared
        for _ in range(MOST_ROUNDS):
            result = await self._line.request(method, sent, headers)
            if result.get("resultType") != "input_required":
                return result
            if method not in MAY_ASK:
                raise InvalidAnswer(f"{method}: it cannot be answered with questions", self.target)
            answers = await self.answers(result)
            if not answers:
                await asyncio.sleep(PAUSE_S)
            state = {"requestState": result["requestState"]} if "requestState" in result else {}
            sent = declared | {"inputResponses": answers} | state
        raise InvalidAnswer(f"{method}: it asked {MOST_ROUNDS} times and still has questions", self.target)

    async def answers(self, asking: JSONObject, known: Mapping[str, Any] | None = None) -> JSONObject:
        """The answers to its `inputRequests`, by key, without those `known` already.

        Raises: InvalidAnswer for what is no question, or is none that was offered to be answered.
        """
        requests = asking.get("inputRequests", {})
        if not isinstance(requests, dict):
            raise InvalidAnswer("inputRequests is no object", self.target, excerpt(repr(requests)))
        new = {key: each for key, each in requests.items() if key not in (known or {})}
        for key, each in new.items():
            method = each.get("method") if isinstance(each, dict) else None
            if method != "elicitation/create":
                reason = f"{key[:80]!r} asks for {str(method)[:80]!r}, which was not offered"
                raise InvalidAnswer(reason, self.target)
            if fault := question_fault(each.get("params")):
                raise InvalidAnswer(f"the question {key[:80]!r} is wrong: {fault}", self.target)
        return {key: await self._elicit(each["params"]) for key, each in new.items()}


def _declaring(params: JSONObject) -> JSONObject:
    """The parameters with elicitation among the capabilities they declare."""
    meta = params.get("_meta", {})
    return params | {"_meta": meta | {CAPABILITIES_KEY: ELICITATION | meta.get(CAPABILITIES_KEY, {})}}


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
    answered: JSONObject = {}
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
            case TaskStatus.INPUT_REQUIRED if isinstance(line, AskingLine):
                if answers := await line.answers(task, answered):
                    answered |= answers
                    await line.request("tasks/update", named | DECLARED | {"inputResponses": answers}, {})
                else:
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
