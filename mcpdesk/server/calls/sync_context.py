"""The context of handlers that are plain functions: the methods of `Context`, called without `await`."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from mcpdesk.server.calls.context import CallContext, Context
from mcpdesk.server.calls.loop_context import LoopContext
from mcpdesk.server.calls.worker_threads import WORKERS, ThreadedCall

if TYPE_CHECKING:
    from mcpdesk.inbox.question import Page, Question
    from mcpdesk.server.asks import question_wording
    from mcpdesk.server.asks.question_wording import Elicited, Root, Sampled

T = TypeVar("T")


class SyncContext(CallContext):
    """What a plain function gets as its context. Its methods wait until the core did what they say.

    Once the call was cancelled or its time is up they raise `asyncio.CancelledError`, which ends the function
    unless it catches it. Long work without them looks at `ctx.cancelled` now and then.
    """

    __slots__ = ("_context", "_thread")

    def __init__(self, context: Context, thread: ThreadedCall) -> None:
        super().__init__(context.server, context._services, context._call, context.tool)
        self.context, self.state = context.context, context.state
        self._context = context
        self._thread = thread

    @property
    def cancelled(self) -> bool:
        """Whether the caller cancelled, vanished, or the time is up."""
        return self._thread.is_abandoned or super().cancelled

    def on_loop(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function on the core's loop, as all of `ctx.server` needs it."""
        if isinstance(self._context, LoopContext):
            return self._context.on_loop(function, *arguments)

        async def call() -> T:
            return function(*arguments)

        return self._thread.wait_for(call)

    def progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        """Report progress. Does nothing unless the caller asked for it, or when it does not increase."""
        self._thread.wait_for(lambda: self._context.progress(progress, total, message))

    def produced(self, path: str | Path) -> None:
        """The tool made a file: as `Context.produced`."""
        self.on_loop(self._context.produced, path)

    def log(self, level: str, data: Any, logger: str = "") -> None:
        """Log to the desk, and to the caller if it wants messages of this level. Raises: as `Context.log`."""
        self._thread.wait_for(lambda: self._context.log(level, data, logger))

    def debug(self, data: Any) -> None:
        """Log at level `debug`."""
        self.log("debug", data)

    def info(self, data: Any) -> None:
        """Log at level `info`."""
        self.log("info", data)

    def warning(self, data: Any) -> None:
        """Log at level `warning`."""
        self.log("warning", data)

    def error(self, data: Any) -> None:
        """Log at level `error`."""
        self.log("error", data)

    def ask(self, pages: Sequence[Page]) -> Question:
        """Ask a person and wait; returns the question in its final state, answered or not."""
        return self._thread.wait_for(lambda: self._context.ask(pages))

    @overload
    def elicit(self, message: str, schema: type[T], key: str | None = None) -> Elicited[T]: ...
    @overload
    def elicit(
        self, message: str, schema: Mapping[str, Any], key: str | None = None
    ) -> Elicited[dict[str, Any]]: ...
    def elicit(self, message: str, schema: Mapping[str, Any] | type, key: str | None = None) -> Elicited[Any]:
        """Let the client show its user a form. Raises: as `Context.elicit`."""
        return self._thread.wait_for(lambda: self._context.elicit(message, schema, key))

    def elicit_url(self, message: str, url: str, key: str | None = None) -> Elicited[None]:
        """Let the client ask its user to open a link. Raises: as `Context.elicit`."""
        return self._thread.wait_for(lambda: self._context.elicit_url(message, url, key))

    def complete_elicitation(self, answer: Elicited[Any]) -> None:
        """Tell the client that what a link was opened for is done."""
        self._thread.wait_for(lambda: self._context.complete_elicitation(answer))

    def sample(self, messages: question_wording.Messages, **options: Any) -> Sampled:
        """Let the client's model write a message. `options` and errors are those of `Context.sample`."""
        return self._thread.wait_for(lambda: self._context.sample(messages, **options))

    def list_roots(self, key: str | None = None) -> list[Root]:
        """The places on its side that the client lets us know of. Raises: ClientError."""
        return self._thread.wait_for(lambda: self._context.list_roots(key))

    def resource_updated(self, uri: str) -> None:
        """Tell those who subscribed to a resource that it reads differently now."""
        self.on_loop(self._context.resource_updated, uri)

    def become_task(self) -> bool:
        """Answer the caller with a task and go on: as `Context.become_task`."""
        return self._thread.wait_for(self._context.become_task)

    def close_stream(self, retry_ms: int = 1000) -> bool:
        """Close the caller's connection while the work goes on: as `Context.close_stream`."""
        return self._thread.wait_for(lambda: self._context.close_stream(retry_ms))


def awaitable(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """A plain function of an author as one to be awaited: it runs in a thread, with a `SyncContext`.

    What wraps an `async def` is called as that would be.
    """
    if inspect.iscoroutinefunction(inspect.unwrap(function)):
        return _wrapped(function)

    @functools.wraps(function)
    async def in_thread(*arguments: Any, **named: Any) -> Any:
        call = ThreadedCall(lambda: function(*given, **given_named), asyncio.get_running_loop())
        given = tuple(_for_thread(each, call) for each in arguments)
        given_named = {name: _for_thread(each, call) for name, each in named.items()}
        return await WORKERS.run(call)

    return in_thread


def _wrapped(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(function)
    async def call(*arguments: Any, **named: Any) -> Any:
        result = function(*arguments, **named)
        return await result if inspect.isawaitable(result) else result

    return call


def _for_thread(value: Any, call: ThreadedCall) -> Any:
    return SyncContext(value, call) if isinstance(value, Context) else value
