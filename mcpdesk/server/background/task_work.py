"""The glue between a handler that went on as a task and the job that is kept of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mcpdesk.errors import ClientError, LocalProtocolError, ProtocolError
from mcpdesk.jobs.job import Job, JobEnding, JobStore, NoRoom
from mcpdesk.protocol import codec, task_shapes
from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject
from mcpdesk.protocol.outlet import NULL_OUTLET, Outlet
from mcpdesk.protocol.task_shapes import TaskStatus
from mcpdesk.server.asks.rounds import Round
from mcpdesk.server.calls import outcomes
from mcpdesk.server.calls.left_code import note_left_job
from mcpdesk.server.calls.running_call import Call

if TYPE_CHECKING:
    from mcpdesk.server.asks.question_wording import ClientQuestion

BEAT_S = 5.0
"""How often a request that waits for a task shows life."""
Refuse = Callable[[Call, Exception], Awaitable[ProtocolError]]
"""What a request gets for an exception of hosted code."""


class TaskWork:
    """Follows one handler: what it asks and how it ends become the state of its job."""

    def __init__(
        self, job: Job, round_: Round, store: JobStore, refuse: Refuse, over: Callable[[], object]
    ) -> None:
        self.job = job
        self._over = over
        self._round = round_
        self._store = store
        self._refuse = refuse
        self._call = round_.call
        self._is_core = not self._call.terms.revision.is_stateless
        self._told = job.status
        self._asked: set[str] = set()
        """What a waiting client of the core design is being asked."""
        self._outlet = TaskOutlet(self._push)
        self._failing_aio: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Answer the request that began it, and go on."""
        body = task_shapes.created(self.job, self._call.terms)
        if self._is_core:
            self.job.listen(self._announce)
            self._round.depart(body, self, self._outlet, task_shapes.related(self.job.id))
        else:
            # There is neither progress nor a log for a task of the extension.
            self._call.progress_token = None
            self._round.depart(body, self, NULL_OUTLET, None)
        self.asked()

    @property
    def requests(self) -> JSONObject:
        """What the client is asked now."""
        return self._round.requests()

    def accept(self, answers: dict[str, Any]) -> None:
        """Take a client's answers. Raises: ValueError for one that does not fit."""
        self._round.accept(answers)
        self.asked()

    def asked(self) -> None:
        """What the handler waits for changed."""
        if self._store.shared is not None and not self._is_core:
            self.job.asked = codec.encode(self.requests)
        self._store.wait_for_input(self.job, waits=bool(self._round.questions()))

    def said(self, message: str) -> None:
        """The handler reported a message."""
        self.job.say(message)

    def ended(self, work: asyncio.Task[JSONObject]) -> None:
        """The handler is done."""
        self._over()
        note_left_job(self._call, self.job, self._store)
        if work.cancelled():
            self._store.cancel(self.job, self._call.stop)
            return
        error = work.exception()
        if error is None:
            self._complete(work.result())
        else:
            known = error if isinstance(error, Exception) else RuntimeError(outcomes.described(error))
            self._failing_aio = asyncio.get_running_loop().create_task(self._fail(known))

    async def _fail(self, error: Exception) -> None:
        self.fail(await self._refuse(self._call, error))

    async def attend(self, call: Call, limit_s: float) -> None:
        """Wait under a request until the task is over; its stream carries what the client is asked."""
        changed = asyncio.Event()
        asking: dict[str, asyncio.Task[None]] = {}
        with ExitStack() as stack:
            stack.callback(self.job.listen(changed.set))
            stack.enter_context(self._outlet.through(call.outlet))
            try:
                while not (self.job.is_over or self.job.is_lost):
                    changed.clear()
                    questions = self._round.questions()
                    for name in asking.keys() - questions.keys():
                        asking.pop(name).cancel()  # the handler waits for it no longer
                    for name, question in questions.items():
                        if name not in self._asked:
                            asking[name] = self._ask(call, name, question, limit_s)
                    with suppress(TimeoutError):
                        async with asyncio.timeout(BEAT_S):
                            await changed.wait()
                            continue
                    call.outlet.keep_alive()
            finally:
                for each in asking.values():
                    each.cancel()
                await asyncio.gather(*asking.values(), return_exceptions=True)

    def _ask(
        self, call: Call, name: str, question: ClientQuestion[Any], limit_s: float
    ) -> asyncio.Task[None]:
        self._asked.add(name)
        task = asyncio.get_running_loop().create_task(self._answered(call, name, question, limit_s))
        task.add_done_callback(lambda _: self._asked.discard(name))
        return task

    async def _answered(self, call: Call, name: str, question: ClientQuestion[Any], limit_s: float) -> None:
        """Ask on the stream of a request, and hand the answer to the handler."""
        meta = {"_meta": task_shapes.related(self.job.id)}
        assert call.requests is not None
        try:
            answer = await call.requests.ask(call, replace(question, params=question.params | meta), limit_s)
        except ClientError as error:
            answer = error
        self._round.resolve(name, answer)
        self.asked()

    def _complete(self, body: JSONObject) -> None:
        is_error = body.get("isError") is True
        status = TaskStatus.FAILED if is_error and self._is_core else TaskStatus.COMPLETED
        try:
            encoded = codec.encode(body)
        except LocalProtocolError as error:
            self._complete(outcomes.failed(f"{self.job.tool} returned what cannot be sent: {error.message}"))
            return
        try:
            self._store.finish(self.job, status, JobEnding(encoded), _said(body) if is_error else "")
        except NoRoom as error:
            self.fail(ProtocolError(ErrorCode.INTERNAL_ERROR, str(error)))

    def fail(self, error: ProtocolError) -> None:
        """It ended with an error of the protocol."""
        self._store.finish(self.job, TaskStatus.FAILED, JobEnding(error=error), error.message)

    def _push(self, message: bytes) -> None:
        """Say it beside all requests, while its client is there."""
        requests = self._call.requests
        if requests is not None and requests.push is not None:
            requests.push(message)

    def _announce(self) -> None:
        """Tell the client of the core design that the status changed."""
        if self.job.status is self._told:
            return
        self._told = self.job.status
        self._push(codec.notification(task_shapes.CORE_STATUS, task_shapes.core(self.job)))


def _said(body: JSONObject) -> str:
    texts = (block["text"] for block in body["content"] if block.get("type") == "text")
    return str(next(texts, ""))


class TaskOutlet:
    """Its request is answered already, so what its handler sends has no stream of its own.

    Source: MCP basic/utilities/tasks of 2025-11-25.

    `push` takes messages that belong to no request.
    """

    may_send = must_drain = True

    def __init__(self, push: Callable[[bytes], None]) -> None:
        self._push = push
        self._waiting: list[Outlet] = []

    def send(self, message: bytes) -> None:
        """Send on one stream only."""
        if self._waiting:
            self._waiting[-1].send(message)
        else:
            self._push(message)

    async def drain(self) -> None:
        """Wait until whoever listens has taken enough."""
        if self._waiting:
            await self._waiting[-1].drain()
        else:
            await asyncio.sleep(0)

    async def reserve(self, size: int) -> None:
        """The result is kept with the task: the request that fetches it reserves."""

    def keep_alive(self) -> None:
        """Whoever waits shows life on its own."""

    async def close_stream(self, retry_ms: int) -> bool:
        """There is no connection to close."""
        return False

    async def cut_off(self, answer: bytes) -> bool:
        """There is no connection to break."""
        return False

    @contextmanager
    def through(self, outlet: Outlet) -> Iterator[None]:
        """Send on the stream of a request while it waits for the result, if it takes messages."""
        if not outlet.may_send:
            yield
            return
        self._waiting.append(outlet)
        try:
            yield
        finally:
            self._waiting.remove(outlet)
