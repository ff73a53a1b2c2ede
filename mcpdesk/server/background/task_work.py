"""Link between a handler that runs as a task, and the job that stores its state."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mcpdesk.errors import ClientError, LocalProtocolError, ProtocolError
from mcpdesk.jobs.job import Job, JobEnding, JobStore, NoRoom
from mcpdesk.protocol import codec, task_shapes
from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject
from mcpdesk.protocol.outlet import NULL_OUTLET, Outlet
from mcpdesk.protocol.task_shapes import TaskStatus
from mcpdesk.server.asks.rounds import Follower, RoundOperation
from mcpdesk.server.calls import outcomes
from mcpdesk.server.calls.running_call import Call
from mcpdesk.server.calls.threads.running_code import note_running_code_of_job

if TYPE_CHECKING:
    from mcpdesk.server.asks.question_wording import ClientQuestion

KEEP_ALIVE_S = 5.0
"""Seconds between two keep-alive messages to a request that waits for a task."""
ToProtocolError = Callable[[Call, Exception], Awaitable[ProtocolError]]
"""Function that converts an exception of hosted code to the error in the response."""


class TaskWork:
    """Follows one handler, and stores its questions and its result in its job."""

    def __init__(
        self,
        job: Job,
        operation: RoundOperation,
        store: JobStore,
        to_protocol_error: ToProtocolError,
        release: Callable[[], object],
    ) -> None:
        self.job = job
        self._release = release
        self._operation = operation
        self._store = store
        self._to_protocol_error = to_protocol_error
        self._call = operation.call
        self._is_core = not self._call.terms.revision.is_stateless
        self._last_status = job.status
        self._asked_keys: set[str] = set()
        """Keys of the questions that were sent to the client and are not answered. Only for tasks of
        2025-11-25.
        """
        self._outlet = TaskOutlet(self._push)
        self._fail_task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Answer the request that created the task. The handler continues without the request."""
        body = task_shapes.created(self.job, self._call.terms)
        follower = Follower(self.on_questions, self.on_message, self.on_end)
        if self._is_core:
            self.job.listen(self._notify_status)
            self._operation.detach(body, follower, self._outlet, task_shapes.related(self.job.id))
        else:
            # In the tasks extension of 2026-07-28, tasks send neither progress nor log messages.
            self._call.progress_token = None
            self._operation.detach(body, follower, NULL_OUTLET, None)
        self.on_questions()

    @property
    def requests(self) -> JSONObject:
        """Pending questions in wire form, by key."""
        return self._operation.requests()

    def accept(self, answers: dict[str, Any]) -> None:
        """Accept answers of the client. Raises: ValueError for an invalid answer."""
        self._operation.accept(answers)
        self.on_questions()

    def on_questions(self) -> None:
        """Update the job, because the pending questions of the handler changed."""
        if self._store.shared is not None and not self._is_core:
            self.job.asked = codec.encode(self.requests)
        self._store.wait_for_input(self.job, is_waiting=bool(self._operation.questions()))

    def on_message(self, message: str) -> None:
        """Store a message of the handler."""
        self.job.set_message(message)

    def on_end(self, work: asyncio.Task[JSONObject]) -> None:
        """Store the outcome of the handler."""
        self._release()
        note_running_code_of_job(self._call.running, self.job, self._store)
        if work.cancelled():
            self._store.cancel(self.job, self._call.stop)
            return
        error = work.exception()
        if error is None:
            self._complete(work.result())
        else:
            exception = error if isinstance(error, Exception) else RuntimeError(outcomes.described(error))
            self._fail_task = asyncio.get_running_loop().create_task(self._fail(exception))

    async def _fail(self, error: Exception) -> None:
        self.fail(await self._to_protocol_error(self._call, error))

    async def attend(self, call: Call, limit_s: float) -> None:
        """Wait until the task has ended. Questions go to the client on the stream of this request."""
        job_changed = asyncio.Event()
        question_tasks: dict[str, asyncio.Task[None]] = {}
        with ExitStack() as stack:
            stack.callback(self.job.listen(job_changed.set))
            stack.enter_context(self._outlet.through(call.outlet))
            try:
                while not (self.job.is_over or self.job.is_lost):
                    job_changed.clear()
                    questions = self._operation.questions()
                    for name in question_tasks.keys() - questions.keys():
                        question_tasks.pop(name).cancel()  # the handler no longer waits for this answer
                    for name, question in questions.items():
                        if name not in self._asked_keys:
                            question_tasks[name] = self._ask(call, name, question, limit_s)
                    try:
                        async with asyncio.timeout(KEEP_ALIVE_S):
                            await job_changed.wait()
                    except TimeoutError:
                        call.outlet.keep_alive()
            finally:
                for each in question_tasks.values():
                    each.cancel()
                await asyncio.gather(*question_tasks.values(), return_exceptions=True)

    def _ask(
        self, call: Call, name: str, question: ClientQuestion[Any], limit_s: float
    ) -> asyncio.Task[None]:
        self._asked_keys.add(name)
        task = asyncio.get_running_loop().create_task(self._ask_and_resolve(call, name, question, limit_s))
        task.add_done_callback(lambda _: self._asked_keys.discard(name))
        return task

    async def _ask_and_resolve(
        self, call: Call, name: str, question: ClientQuestion[Any], limit_s: float
    ) -> None:
        """Ask a question on the stream of a request, and give the answer to the handler."""
        meta = {"_meta": task_shapes.related(self.job.id)}
        assert call.requests is not None
        try:
            answer = await call.ask_client(replace(question, params=question.params | meta), limit_s)
        except ClientError as error:
            answer = error
        self._operation.resolve(name, answer)
        self.on_questions()

    def _complete(self, body: JSONObject) -> None:
        """Store the result of the handler, or an error if it cannot be encoded or is too large."""
        is_error = body.get("isError") is True
        status = TaskStatus.FAILED if is_error and self._is_core else TaskStatus.COMPLETED
        try:
            encoded = codec.encode(body)
        except LocalProtocolError as error:
            self._complete(
                outcomes.failed(f"{self.job.tool} returned a value that cannot be sent: {error.message}")
            )
            return
        try:
            self._store.finish(self.job, status, JobEnding(encoded), _first_text(body) if is_error else "")
        except NoRoom as error:
            self.fail(ProtocolError(ErrorCode.INTERNAL_ERROR, str(error)))

    def fail(self, error: ProtocolError) -> None:
        """End the task with a protocol error."""
        self._store.finish(self.job, TaskStatus.FAILED, JobEnding(error=error), error.message)

    def _push(self, message: bytes) -> None:
        """Send a message that belongs to no request, if the client is still connected."""
        requests = self._call.requests
        if requests is not None and requests.push is not None:
            requests.push(message)

    def _notify_status(self) -> None:
        """Notify the client that the status changed. Only for tasks of 2025-11-25."""
        if self.job.status is self._last_status:
            return
        self._last_status = self.job.status
        self._push(codec.notification(task_shapes.CORE_STATUS, task_shapes.core(self.job)))


def _first_text(body: JSONObject) -> str:
    texts = (block["text"] for block in body["content"] if block.get("type") == "text")
    return str(next(texts, ""))


class TaskOutlet:
    """Outlet for the handler of a task. The request that created the task has no stream, because it is
    answered.

    Messages use the stream of a request that waits for the result, if any. Otherwise `push` sends messages
    that belong to no request. Source: MCP basic/utilities/tasks of 2025-11-25.
    """

    may_send = must_drain = True

    def __init__(self, push: Callable[[bytes], None]) -> None:
        self._push = push
        self._waiting_outlets: list[Outlet] = []

    def send(self, message: bytes) -> None:
        """Send a message on exactly one stream."""
        if self._waiting_outlets:
            self._waiting_outlets[-1].send(message)
        else:
            self._push(message)

    async def drain(self) -> None:
        """Wait until the stream in use can accept more."""
        if self._waiting_outlets:
            await self._waiting_outlets[-1].drain()
        else:
            await asyncio.sleep(0)

    async def reserve(self, size: int) -> None:
        """Do nothing. The request that fetches the result reserves memory for it."""

    def keep_alive(self) -> None:
        """Do nothing. Requests that wait for the task send keep-alive messages themselves."""

    async def close_stream(self, retry_ms: int) -> bool:
        """Return False, because no connection can be closed."""
        return False

    async def cut_off(self, answer: bytes) -> bool:
        """Return False, because no connection can be cut."""
        return False

    @contextmanager
    def through(self, outlet: Outlet) -> Iterator[None]:
        """Use the stream of a request that waits for the result, if the stream accepts messages."""
        if not outlet.may_send:
            yield
            return
        self._waiting_outlets.append(outlet)
        try:
            yield
        finally:
            self._waiting_outlets.remove(outlet)
