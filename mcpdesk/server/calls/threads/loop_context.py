"""Context of a handler that runs on a separate loop. Its methods run on the core's loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, overload

from mcpdesk.server.calls.context import Context

if TYPE_CHECKING:
    from mcpdesk.inbox.question import Page, Question
    from mcpdesk.server.asks import question_wording
    from mcpdesk.server.asks.person_questions import ClientTask
    from mcpdesk.server.asks.question_wording import Elicited, Root, Sampled
    from mcpdesk.server.calls.threads.folder_loops import FolderLoops, LoopThread
    from mcpdesk.server.offer.server import Server

T = TypeVar("T")


class LoopContext(Context):
    """`Context` whose methods may be used on another loop than the core's.

    Methods without `await` block until the core has run them, which takes little time.
    """

    __slots__ = ("_context", "_core")

    def __init__(self, context: Context, core: asyncio.AbstractEventLoop) -> None:
        super().__init__(context.server, context._services, context._call, context.tool)
        self.context, self.state = context.context, context.state
        self._context, self._core = context, core

    async def _on_core(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._core))

    def on_loop(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function on the core's loop. Use this for everything in `ctx.server`."""
        if _is_running(self._core):
            return function(*arguments)  # waiting for the core's loop on that loop would never end

        async def call() -> T:
            return function(*arguments)

        return asyncio.run_coroutine_threadsafe(call(), self._core).result()

    @contextmanager
    def own_limit(self) -> Iterator[None]:
        """Do not count the block against the time limit, as `Context.own_limit`."""
        limit = self._context.own_limit()
        self.on_loop(limit.__enter__)
        try:
            yield
        finally:
            self.on_loop(limit.__exit__, None, None, None)

    async def progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        """Report progress.

        Does nothing if the caller did not ask for it, or if the value does not increase.
        """
        await self._on_core(self._context.progress(progress, total, message))

    async def log(self, level: str, data: Any, logger: str = "") -> None:
        """Log to the desk, and to the caller if it wants messages of this level. Raises: as `Context.log`."""
        await self._on_core(self._context.log(level, data, logger))

    def log_later(self, logger: str) -> Callable[[str, Any], bool]:
        """Return a function that logs after this call has ended. It takes a level and data. See
        `Context.log_later`.
        """
        log = self.on_loop(self._context.log_later, logger)
        return lambda level, data: self.on_loop(log, level, data)

    async def ask(self, pages: Sequence[Page]) -> Question:
        """Ask a person and wait: as `Context.ask`."""
        return await self._on_core(self._context.ask(pages))

    async def ask_desk(self, pages: Sequence[Page], client_task: ClientTask | None = None) -> Question:
        """Ask the person at the desk: as `Context.ask_desk`."""
        return await self._on_core(self._context.ask_desk(pages, client_task))

    def show_ended_question(self, question: Question) -> None:
        """Show a question at the desk that was asked through the client and has ended."""
        self.on_loop(self._context.show_ended_question, question)

    @overload
    async def elicit(self, message: str, schema: type[T], key: str | None = None) -> Elicited[T]: ...
    @overload
    async def elicit(
        self, message: str, schema: Mapping[str, Any], key: str | None = None
    ) -> Elicited[dict[str, Any]]: ...
    async def elicit(
        self, message: str, schema: Mapping[str, Any] | type, key: str | None = None
    ) -> Elicited[Any]:
        """Ask the client to show its user a form. Raises: as `Context.elicit`."""
        return await self._on_core(self._context.elicit(message, schema, key))

    async def elicit_url(self, message: str, url: str, key: str | None = None) -> Elicited[None]:
        """Ask the client to let its user open a URL. Raises: as `Context.elicit`."""
        return await self._on_core(self._context.elicit_url(message, url, key))

    async def complete_elicitation(self, answer: Elicited[Any]) -> None:
        """Notify the client that the action at the URL of a question is complete."""
        await self._on_core(self._context.complete_elicitation(answer))

    async def sample(self, messages: question_wording.Messages, **options: Any) -> Sampled:
        """Ask the client's model for a message. Options and errors are the same as for `Context.sample`."""
        return await self._on_core(self._context.sample(messages, **options))

    async def list_roots(self, key: str | None = None) -> list[Root]:
        """Return the roots of the client. Raises: ClientError."""
        return await self._on_core(self._context.list_roots(key))

    def resource_updated(self, uri: str) -> None:
        """Notify subscribers of a resource that its content changed."""
        self.on_loop(self._context.resource_updated, uri)

    async def become_task(self) -> bool:
        """Answer the caller with a task and continue: as `Context.become_task`."""
        return await self._on_core(self._context.become_task())

    async def close_stream(self, retry_ms: int = 1000) -> bool:
        """Close the caller's connection while the call continues: as `Context.close_stream`."""
        return await self._on_core(self._context.close_stream(retry_ms))


def invoke(
    server: Server, is_folder_code: bool, run_handler: Callable[[Context], Awaitable[T]], context: Context
) -> Awaitable[T]:
    """Call `run_handler` with the context of a handler, on the core's loop or on a separate loop of the
    folder.
    """
    loops = None if server.hosted is None else server.hosted.folder_loops
    if loops is None or not loops.is_on or not is_folder_code:
        return run_handler(context)
    return run_on(loops, run_handler, context)


async def run_on(loops: FolderLoops, run_handler: Callable[[Context], Awaitable[T]], context: Context) -> T:
    """Run a handler on a separate loop of its folder, as `FolderLoops.run`."""
    core = asyncio.get_running_loop()

    async def handle(thread: LoopThread) -> T:
        loop_context = LoopContext(context, core)
        if context.server.lifespan is not None:
            loop_context.state = await thread.state(context.server.lifespan, context.server)
        return await run_handler(loop_context)

    return await loops.run(handle)


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    """Return True if the calling code runs on `loop`."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
