"""Requests that need several exchanges, as generators of steps. This module does no input or output.

A flow yields what is to be done next and is sent the outcome: `Send` brings a `ServerResponse`, `Ask` the
answers. An exception of a step is thrown into the flow. Lists have pages; calls may be answered with
questions, or become tasks, or need headers that repeat arguments.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from mcpdesk.client.answer_checks import checked_result
from mcpdesk.client.transport import ServerResponse, excerpt
from mcpdesk.errors import CallError, InvalidAnswer
from mcpdesk.protocol.headers import encode_value, mirrored, value_at
from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject
from mcpdesk.protocol.revisions import Revision
from mcpdesk.protocol.task_shapes import EXTENSION, EXTENSION_CAPABILITY, POLL_MS, TaskStatus

MAY_ASK = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Methods that may be answered with questions."""
MOST_ROUNDS = 100
MOST_PAGES = 10_000
MOST_ITEMS = 100_000
PAUSE_S = 0.1
"""How long to wait before a request is sent again whose result asks nothing."""
SLOWEST_POLL_MS = 10_000
TASKS: JSONObject = {"extensions": EXTENSION_CAPABILITY}
"""The capability that goes along with each request about a task of the extension."""
_LOG = logging.getLogger("mcpdesk.client")


class Send(Struct, frozen=True):
    """Send a request. `capabilities` are declared besides what the client can be asked."""

    method: str
    params: JSONObject
    headers: Mapping[str, str] = {}
    capabilities: JSONObject = {}
    is_main: bool = False
    """Whether this is the request the caller made, rather than one about it."""


class Ask(Struct, frozen=True):
    """Have the questions of a server answered: key -> `{method, params}`."""

    requests: Mapping[str, Any]


class Wait(Struct, frozen=True):
    """Let some seconds pass."""

    seconds: float


class Report(Struct, frozen=True):
    """Report the state of a task to the observer of the call."""

    text: str


class Leave(Struct, frozen=True):
    """Send a request without waiting for its response."""

    request: Send


FlowStep: TypeAlias = Send | Ask | Wait | Report | Leave
Flow: TypeAlias = Generator[FlowStep, Any, ServerResponse]
ListFlow: TypeAlias = Generator[FlowStep, Any, list[JSONObject]]


class RequestFlows:
    """The flows of one connection. `tools` are those listed last, by name."""

    def __init__(self, is_required_task: Callable[[str], bool] | None = None) -> None:
        """`is_required_task` says which tools exist as tasks only; None: it is learnt from the server."""
        self.tools: dict[str, JSONObject] = {}
        self.revision: Revision
        self.mirrors = False
        """Whether headers repeat arguments."""
        self._is_required_task = is_required_task or self._listed_as_task

    def request(self, method: str, params: JSONObject) -> Flow:
        """Any request, followed to its end."""
        if method == "tools/call":
            return self._tool_call(params)
        return _rounds(Send(method, params, is_main=True))

    def list_all(self, method: str, key: str) -> ListFlow:
        """The items of all pages. Raises: RpcError, InvalidAnswer.

        Tools whose arguments cannot be repeated in headers as they ask are left out: the protocol demands it.
        """
        items: list[JSONObject] = []
        cursors: set[str] = set()
        params: JSONObject = {}
        while True:
            response = yield Send(method, params)
            page = checked_result(method, response.value())
            items += page.get(key, [])
            cursor = page.get("nextCursor")
            if cursor is None:
                break
            if cursor in cursors or len(cursors) == MOST_PAGES or len(items) > MOST_ITEMS:
                raise InvalidAnswer(f"{method}: the pages have no end")
            cursors.add(cursor)
            params = {"cursor": cursor}
        if method == "tools/list":
            items = without_invalid_headers(items) if self.mirrors else items
            self.tools = {tool["name"]: tool for tool in items}
        return items

    def _tool_call(self, params: JSONObject) -> Flow:
        """A call, in whatever way the tool wants to be called: that may only show when it refuses."""
        name = str(params.get("name"))
        if not self._is_required_task(name):
            response = yield from _rounds(self._call(params))
            if response.error is None:
                return response
            code = response.error["code"]
            is_unknown_way = code in (ErrorCode.METHOD_NOT_FOUND, ErrorCode.INVALID_REQUEST)
            if code == ErrorCode.HEADER_MISMATCH and self.mirrors:
                yield from self.list_all("tools/list", "tools")  # its schema is not the one we know
                return (yield from _rounds(self._call(params)))
            if self.revision.has_core_tasks and is_unknown_way and name not in self.tools:
                yield from self.list_all("tools/list", "tools")
            is_listed = is_unknown_way and self._listed_as_task(name)
            if not is_listed and not (self.revision.is_stateless and _needs_extension(response.error)):
                return response
        if self.revision.is_stateless:
            return (yield from self._extension_task(params))
        if self.revision.has_core_tasks:
            return (yield from self._core_task(params))
        return (yield from _rounds(self._call(params)))

    def _call(self, params: JSONObject, capabilities: JSONObject | None = None) -> Send:
        known = self.tools.get(str(params.get("name")))
        arguments = params.get("arguments") or {}
        headers = argument_headers(known["inputSchema"], arguments) if known and self.mirrors else {}
        return Send("tools/call", params, headers, capabilities or {}, is_main=True)

    def _listed_as_task(self, name: str) -> bool:
        execution = self.tools.get(name, {}).get("execution")
        required = isinstance(execution, dict) and execution.get("taskSupport") == "required"
        return required and self.revision.has_core_tasks

    def _core_task(self, params: JSONObject) -> Flow:
        """A call as a task of 2025-11-25: its result is waited for in one request."""
        response: ServerResponse = yield self._call(params | {"task": {}})
        if response.error is not None:
            return response
        task = response.value().get("task")
        named = _named(task if isinstance(task, dict) else {})
        return (yield from _cancelling(_rounds(Send("tasks/result", named)), Send("tasks/cancel", named)))

    def _extension_task(self, params: JSONObject) -> Flow:
        """A call as a task of the extension: it is polled until it is over."""
        response = yield from _rounds(self._call(params, TASKS))
        if response.error is not None or response.value().get("resultType") != "task":
            return response
        created = response.value()
        named = _named(created)
        cancel = Send("tasks/cancel", named, capabilities=TASKS)
        return (yield from _cancelling(_followed(created, named, response), cancel))


def _rounds(request: Send) -> Flow:
    """A request that is sent again with answers, as long as its result asks for them."""
    sent = request.params
    for _ in range(MOST_ROUNDS):
        response: ServerResponse = yield Send(
            request.method, sent, request.headers, request.capabilities, is_main=request.is_main
        )
        result = response.result
        if result is None or result.get("resultType") != "input_required":
            return response
        asked = result.get("inputRequests", {})
        answers = yield Ask(asked)
        if not answers:
            yield Wait(PAUSE_S)
        state = {"requestState": result["requestState"]} if "requestState" in result else {}
        sent = request.params | {"inputResponses": answers} | state
    raise InvalidAnswer(f"{request.method}: it asked {MOST_ROUNDS} times and still has questions")


def _cancelling(flow: Flow, cancel: Send) -> Flow:
    """A flow that cancels its task when it is interrupted."""
    try:
        return (yield from flow)
    except (CallError, GeneratorExit):
        raise
    except BaseException:
        yield Leave(cancel)
        raise


def _followed(task: JSONObject, named: JSONObject, response: ServerResponse) -> Flow:
    """Poll a task until it is over. Raises: CallError when it was cancelled."""
    answered: JSONObject = {}
    is_new = True
    while True:
        status = task.get("status")
        if status == TaskStatus.CANCELLED:
            reason = task.get("statusMessage")
            raise CallError(f"the task was cancelled{f': {excerpt(str(reason))}' if reason else ''}")
        if status in (TaskStatus.COMPLETED, TaskStatus.FAILED) and not is_new:
            return _ended(task, response.frame)
        yield Report(_task_state(task))
        if status == TaskStatus.INPUT_REQUIRED and not is_new:
            asked = task.get("inputRequests", {})
            if isinstance(asked, dict):
                asked = {key: each for key, each in asked.items() if key not in answered}
            answers = yield Ask(asked)
            if answers:
                answered |= answers
                yield Send("tasks/update", named | {"inputResponses": answers}, capabilities=TASKS)
            else:
                yield Wait(_pause_s(task))
        elif status == TaskStatus.WORKING:
            yield Wait(_pause_s(task))
        elif not is_new:
            raise InvalidAnswer(f"a task has the status {str(status)[:40]!r}")
        response = yield Send("tasks/get", named, capabilities=TASKS)
        if response.error is not None:
            return response
        task, is_new = response.value(), False


def _ended(task: JSONObject, frame: bytes) -> ServerResponse:
    """What the call would have been answered."""
    if isinstance(task.get("result"), dict):
        return ServerResponse({"result": task["result"]}, frame)
    error = task.get("error")
    if isinstance(error, dict):
        code, said = error.get("code"), error.get("message", "the task failed")
        known = {"code": code if isinstance(code, int) else ErrorCode.INTERNAL_ERROR, "message": str(said)}
        return ServerResponse({"error": error | known}, frame)
    raise InvalidAnswer(f"a task is {task['status']!r} and does not say how it ended")


def _task_state(task: JSONObject) -> str:
    said = task.get("statusMessage")
    state = str(task.get("status"))[:40].replace("_", " ")
    return f"a task, {state}: {said}" if said else f"a task, {state}"


def _named(task: JSONObject) -> JSONObject:
    identifier = task.get("taskId")
    if not isinstance(identifier, str):
        raise InvalidAnswer("a task has no taskId")
    return {"taskId": identifier}


def _pause_s(task: JSONObject) -> float:
    asked: Any = task.get("pollIntervalMs")
    if not isinstance(asked, int | float) or isinstance(asked, bool):
        asked = POLL_MS
    return float(min(max(asked, 1), SLOWEST_POLL_MS)) / 1000


def _needs_extension(error: JSONObject) -> bool:
    """Whether a refusal says that the call has to be a task of the extension."""
    data = error.get("data")
    required = data.get("requiredCapabilities") if isinstance(data, dict) else None
    extensions = required.get("extensions") if isinstance(required, dict) else None
    is_named = isinstance(extensions, dict) and EXTENSION in extensions
    return bool(error["code"] == ErrorCode.MISSING_CAPABILITY and is_named)


def argument_headers(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, str]:
    """The headers that repeat arguments, as the schema asks; none for what is absent or null."""
    values = {each.header: value_at(each.path, arguments) for each in mirrored(schema)}
    return {
        header: encode_value(str(value).lower() if isinstance(value, bool) else str(value))
        for header, value in values.items()
        if value is not None
    }


def without_invalid_headers(tools: list[JSONObject]) -> list[JSONObject]:
    """The tools whose header annotations are valid; the others are logged and left out."""
    kept = []
    for tool in tools:
        try:
            mirrored(tool["inputSchema"])
        except ValueError as error:
            _LOG.warning("tool %r is left out: %s", tool["name"][:80], error)
        else:
            kept.append(tool)
    return kept
