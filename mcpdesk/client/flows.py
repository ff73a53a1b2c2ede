"""Requests that need several exchanges.

A list may have several pages. The result of a call may contain questions, or the call may become a task. The
headers that repeat arguments require the list of tools.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from mcpdesk.client.answer_checks import checked_result, without_invalid_items
from mcpdesk.client.transport import ServerResponse, excerpt
from mcpdesk.errors import CallError, InvalidAnswer, RpcError
from mcpdesk.protocol.headers import encode_value, mirrored_arguments, value_at
from mcpdesk.protocol.jsonrpc import ErrorCode, Id, JSONObject
from mcpdesk.protocol.revisions import Revision
from mcpdesk.protocol.task_shapes import EXTENSION, EXTENSION_CAPABILITY, POLL_MS, TaskStatus

if TYPE_CHECKING:
    from mcpdesk.client.timing import CallDeadline

MAX_ROUNDS = 100
MAX_PAGES = 10_000
MAX_ITEMS = 100_000
MAX_LIST_BYTES = 64 << 20
PAUSE_S = 0.1
"""Seconds to wait before a request is sent again, if its result asks for input but contains no questions."""
SLOWEST_POLL_MS = 10_000
"""Longest pause between two polls of a task, in milliseconds, even if the server asks for a longer one."""
TASKS_CAPABILITY: JSONObject = {"extensions": EXTENSION_CAPABILITY}
"""Capability declared with each request about a task of the extension."""
_LOG = logging.getLogger("mcpdesk.client")


class OutgoingRequest(Struct, frozen=True):
    """Request before it is sent. `capabilities` are declared in addition to those for questions."""

    method: str
    params: JSONObject
    headers: Mapping[str, str] = {}
    capabilities: JSONObject = {}
    is_main: bool = False
    """True for the caller's own request. False for a related request, such as polling its task."""


class CallObserver:
    """Receives events of a running request."""

    def sent(self, request_id: int) -> None:
        """The request was sent, or sent again, with this id."""

    def progressed(self, progress: float, total: float | None, message: str) -> None:
        """The server reported progress."""

    def on_log(self, text: str) -> None:
        """A log message arrived for the request."""

    def acknowledged(self) -> None:
        """The server acknowledged the subscription that the request opens."""


class ClientCall:
    """State of one of the caller's requests while it runs."""

    def __init__(
        self,
        subject: str,
        exchange: Callable[[OutgoingRequest, ClientCall], Awaitable[ServerResponse]],
        send_later: Callable[[OutgoingRequest, str], None],
        answer: Callable[[Any, ClientCall], Awaitable[JSONObject]],
        observer: CallObserver | None = None,
        deadline: CallDeadline | None = None,
    ) -> None:
        """`exchange`, `send_later` and `answer` are methods of the `ServerConnection`."""
        self._exchange, self._send_later, self._answer = exchange, send_later, answer
        self.subject = subject
        self.observer = observer
        self.deadline = deadline
        self.group: asyncio.TaskGroup | None = None
        """Task group of the running exchange, where questions are answered. None between exchanges."""
        self.questions: dict[Id, asyncio.Task[None]] = {}

    @contextmanager
    def deadline_stopped(self) -> Iterator[None]:
        """Stop the deadline of the call while a question is being answered."""
        with self.deadline.stopped() if self.deadline is not None else nullcontext():
            yield

    async def send(self, request: OutgoingRequest) -> ServerResponse:
        """Send a request and return the response."""
        return await self._exchange(request, self)

    def send_later(self, request: OutgoingRequest) -> None:
        """Send a request without waiting for its response."""
        self._send_later(request, self.subject)

    async def answer_questions(self, requests: Any) -> JSONObject:
        """Return the answers to the questions in a result, by key."""
        return await self._answer(requests, self)

    def report(self, text: str) -> None:
        """Report the state of a task to the observer."""
        if self.observer is not None:
            self.observer.progressed(0.0, None, text)


class RequestFlows:
    """Sends the requests of one connection. `tools` has the tools of the latest list, by name."""

    def __init__(self, requires_task: Callable[[str], bool] | None = None) -> None:
        """`requires_task` returns True for the name of a tool that only runs as a task.

        If it is None, the tool definitions in the latest list are used.
        """
        self.tools: dict[str, JSONObject] = {}
        self.revision: Revision
        self.mirrors_arguments = False
        """True if headers repeat arguments."""
        self._requires_task = requires_task or self._is_listed_as_task

    async def request(self, call: ClientCall, method: str, params: JSONObject) -> ServerResponse:
        """Send a request and return its final response."""
        if method == "tools/call":
            return await self._tool_call(call, params)
        return await _request_with_answers(call, OutgoingRequest(method, params, is_main=True))

    async def list_all(
        self, call: ClientCall, method: str, key: str, faults: list[str] | None = None
    ) -> list[JSONObject]:
        """Return the items of all pages. `key` is the name of the list in a result.

        If `faults` is given, invalid items are omitted, and their faults are added to `faults`. Tools with
        invalid annotations for argument headers are omitted, as the protocol requires.

        Raises: RpcError, InvalidAnswer.
        """
        items: list[JSONObject] = []
        cursors: set[str] = set()
        params: JSONObject = {}
        size = 0
        while True:
            response = await call.send(OutgoingRequest(method, params))
            size += len(response.frame)
            if size > MAX_LIST_BYTES:
                raise InvalidAnswer(f"{method}: the list has more than {MAX_LIST_BYTES >> 20} MiB")
            try:
                page = response.value()
                if faults is not None:
                    page = without_invalid_items(method, page, faults)
                page = checked_result(method, page)
            except (RpcError, InvalidAnswer) as error:
                if not cursors or faults is None:
                    raise
                faults.append(f"{method}: page {len(cursors) + 1}: {error}; the list ends there")
                break
            cursor = page.get("nextCursor")
            new_items = page.get(key, [])
            is_repeated = cursor is not None and cursor in cursors
            items += without_duplicates(new_items, items) if is_repeated else new_items
            if cursor is not None and is_repeated and faults is not None:
                faults.append(f"the cursor {cursor[:80]!r} is repeated; the list ends there")
            if cursor is None or is_repeated:
                break
            if len(cursors) == MAX_PAGES or len(items) > MAX_ITEMS:
                limit_text = f"more than {MAX_PAGES:,} pages or {MAX_ITEMS:,} items"
                raise InvalidAnswer(f"{method}: the pages have no end: {limit_text}")
            cursors.add(cursor)
            params = {"cursor": cursor}
        if method == "tools/list":
            items = without_invalid_headers(items) if self.mirrors_arguments else items
            self.tools = {tool["name"]: tool for tool in items}
        return items

    async def _tool_call(self, call: ClientCall, params: JSONObject) -> ServerResponse:
        """Call a tool, as a task if the tool runs only as a task.

        If this is unknown, a plain call is tried first, because only its rejection may show that.
        """
        name = str(params.get("name"))
        if not self._requires_task(name):
            response = await _request_with_answers(call, self._tool_request(params))
            if response.error is None:
                return response
            code = response.error["code"]
            may_require_task = code in (ErrorCode.METHOD_NOT_FOUND, ErrorCode.INVALID_REQUEST)
            if code == ErrorCode.HEADER_MISMATCH and self.mirrors_arguments:
                await self.list_all(call, "tools/list", "tools")  # the tool's schema has changed
                return await _request_with_answers(call, self._tool_request(params))
            if self.revision.has_core_tasks and may_require_task and name not in self.tools:
                await self.list_all(call, "tools/list", "tools")
            is_listed_task = may_require_task and self._is_listed_as_task(name)
            is_extension_task = self.revision.is_stateless and _needs_extension(response.error)
            if not is_listed_task and not is_extension_task:
                return response
        if self.revision.is_stateless:
            return await self._extension_task(call, params)
        if self.revision.has_core_tasks:
            return await self._core_task(call, params)
        return await _request_with_answers(call, self._tool_request(params))

    def _tool_request(self, params: JSONObject, capabilities: JSONObject | None = None) -> OutgoingRequest:
        tool = self.tools.get(str(params.get("name")))
        arguments = params.get("arguments") or {}
        headers = argument_headers(tool["inputSchema"], arguments) if tool and self.mirrors_arguments else {}
        return OutgoingRequest("tools/call", params, headers, capabilities or {}, is_main=True)

    def _is_listed_as_task(self, name: str) -> bool:
        execution = self.tools.get(name, {}).get("execution")
        is_required = isinstance(execution, dict) and execution.get("taskSupport") == "required"
        return is_required and self.revision.has_core_tasks

    async def _core_task(self, call: ClientCall, params: JSONObject) -> ServerResponse:
        """Call a tool as a task of 2025-11-25. One request waits for the result of the task."""
        response = await call.send(self._tool_request(params | {"task": {}}))
        if response.error is not None:
            return response
        task = response.value().get("task")
        task_params = _task_params(task if isinstance(task, dict) else {})
        result = _request_with_answers(call, OutgoingRequest("tasks/result", task_params))
        return await _await_task(call, result, OutgoingRequest("tasks/cancel", task_params))

    async def _extension_task(self, call: ClientCall, params: JSONObject) -> ServerResponse:
        """Call a tool as a task of the extension and poll until the task ends."""
        response = await _request_with_answers(call, self._tool_request(params, TASKS_CAPABILITY))
        if response.error is not None or response.value().get("resultType") != "task":
            return response
        created = response.value()
        task_params = _task_params(created)
        cancel = OutgoingRequest("tasks/cancel", task_params, capabilities=TASKS_CAPABILITY)
        return await _await_task(call, _poll_task(call, created, task_params), cancel)


async def _request_with_answers(call: ClientCall, request: OutgoingRequest) -> ServerResponse:
    """Send a request, and send it again with answers as long as its result contains questions."""
    round_request = request
    for _ in range(MAX_ROUNDS):
        response = await call.send(round_request)
        result = response.result
        if result is None or result.get("resultType") != "input_required":
            return response
        answers = await call.answer_questions(result.get("inputRequests", {}))
        if not answers:
            await asyncio.sleep(PAUSE_S)
        state = {"requestState": result["requestState"]} if "requestState" in result else {}
        round_request = replace(request, params=request.params | {"inputResponses": answers} | state)
    raise InvalidAnswer(f"{request.method}: it asked {MAX_ROUNDS} times, which is the limit")


async def _await_task(
    call: ClientCall, work: Awaitable[ServerResponse], cancel: OutgoingRequest
) -> ServerResponse:
    """Wait for a task. If the wait is interrupted, cancel the task."""
    try:
        return await work
    except CallError:
        raise
    except BaseException:
        call.send_later(cancel)
        raise


async def _poll_task(call: ClientCall, task: JSONObject, task_params: JSONObject) -> ServerResponse:
    """Poll a task until it ends. Raises: CallError if the task was cancelled."""
    sent_answers: JSONObject = {}
    response: ServerResponse | None = None
    while True:
        status = task.get("status")
        if status == TaskStatus.CANCELLED:
            reason = task.get("statusMessage")
            raise CallError(f"the task was cancelled{f': {excerpt(str(reason))}' if reason else ''}")
        if status in (TaskStatus.COMPLETED, TaskStatus.FAILED) and response is not None:
            return _task_response(task, response.frame)
        call.report(_task_state(task))
        if status == TaskStatus.INPUT_REQUIRED and response is not None:
            input_requests = task.get("inputRequests", {})
            if isinstance(input_requests, dict):
                input_requests = {
                    key: question for key, question in input_requests.items() if key not in sent_answers
                }
            answers = await call.answer_questions(input_requests)
            if answers:
                sent_answers |= answers
                update_params = task_params | {"inputResponses": answers}
                await call.send(OutgoingRequest("tasks/update", update_params, capabilities=TASKS_CAPABILITY))
            else:
                await asyncio.sleep(_poll_pause_s(task))
        elif status == TaskStatus.WORKING:
            await asyncio.sleep(_poll_pause_s(task))
        elif response is not None:
            raise InvalidAnswer(f"a task has the status {str(status)[:40]!r}")
        response = await call.send(OutgoingRequest("tasks/get", task_params, capabilities=TASKS_CAPABILITY))
        if response.error is not None:
            return response
        task = response.value()


def _task_response(task: JSONObject, frame: bytes) -> ServerResponse:
    """Return the response that the call would have had without a task."""
    if isinstance(task.get("result"), dict):
        return ServerResponse({"result": task["result"]}, frame)
    error = task.get("error")
    if isinstance(error, dict):
        code, message = error.get("code"), error.get("message", "the task failed")
        valid_members = {
            "code": code if isinstance(code, int) else ErrorCode.INTERNAL_ERROR,
            "message": str(message),
        }
        return ServerResponse({"error": error | valid_members}, frame)
    raise InvalidAnswer(f"a task is {task['status']!r} without an outcome")


def _task_state(task: JSONObject) -> str:
    status_message = task.get("statusMessage")
    state = str(task.get("status"))[:40].replace("_", " ")
    return f"a task, {state}: {status_message}" if status_message else f"a task, {state}"


def _task_params(task: JSONObject) -> JSONObject:
    identifier = task.get("taskId")
    if not isinstance(identifier, str):
        raise InvalidAnswer("a task has no taskId")
    return {"taskId": identifier}


def _poll_pause_s(task: JSONObject) -> float:
    poll_interval_ms: Any = task.get("pollIntervalMs")
    if not isinstance(poll_interval_ms, int | float) or isinstance(poll_interval_ms, bool):
        poll_interval_ms = POLL_MS
    return float(min(max(poll_interval_ms, 1), SLOWEST_POLL_MS)) / 1000


def _needs_extension(error: JSONObject) -> bool:
    """Return True if an error means that the call must be a task of the extension."""
    data = error.get("data")
    capabilities = data.get("requiredCapabilities") if isinstance(data, dict) else None
    extensions = capabilities.get("extensions") if isinstance(capabilities, dict) else None
    is_extension_named = isinstance(extensions, dict) and EXTENSION in extensions
    return bool(error["code"] == ErrorCode.MISSING_CAPABILITY and is_extension_named)


def argument_headers(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers that repeat arguments as the schema requires.

    Missing and null arguments have no header.
    """
    values = {each.header: value_at(each.path, arguments) for each in mirrored_arguments(schema)}
    return {
        header: encode_value(str(value).lower() if isinstance(value, bool) else str(value))
        for header, value in values.items()
        if value is not None
    }


def without_duplicates(new_items: list[JSONObject], items: list[JSONObject]) -> list[JSONObject]:
    """Return the items of a page that are not in `items`.

    A server that ignores cursors repeats its first page.
    """
    encoded_items = {json.dumps(each, sort_keys=True) for each in items}
    return [each for each in new_items if json.dumps(each, sort_keys=True) not in encoded_items]


def without_invalid_headers(tools: list[JSONObject]) -> list[JSONObject]:
    """Return the tools whose header annotations are valid. Other tools are logged and omitted."""
    valid = []
    for tool in tools:
        try:
            mirrored_arguments(tool["inputSchema"])
        except ValueError as error:
            _LOG.warning("tool %r is skipped: %s", tool["name"][:80], error)
        else:
            valid.append(tool)
    return valid


async def answer_alone(work: Coroutine[Any, Any, None]) -> None:
    """Answer a question that belongs to no call. A failure is only logged."""
    try:
        await work
    except Exception:
        _LOG.exception("a question of a server could not be answered")
