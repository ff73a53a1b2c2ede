"""Context of a handler that is a plain function: the methods of `Context`, called without `await`."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from mcpdesk.server.calls.context import CallContext, Context
from mcpdesk.server.calls.threads.loop_context import LoopContext
from mcpdesk.server.calls.threads.worker_threads import WORKERS, ThreadedCall

if TYPE_CHECKING:
    from mcpdesk.inbox.question import Page, Question
    from mcpdesk.server.asks import question_wording
    from mcpdesk.server.asks.question_wording import Elicited, Root, Sampled

T = TypeVar("T")


class SyncContext(CallContext):
    """Context of a plain function. Its methods block until the core has run them.

    After the call was cancelled or timed out, the methods raise `asyncio.CancelledError`. This ends the
    function, unless it catches the exception. A long computation should check `ctx.cancelled` regularly.
    """

    __slots__ = ("_context", "_thread")

    def __init__(self, context: Context, thread: ThreadedCall) -> None:
        super().__init__(context.server, context._services, context._call, context.tool)
        self.context, self.state = context.context, context.state
        self._context = context
        self._thread = thread

    @property
    def cancelled(self) -> bool:
        """True if the caller cancelled or disconnected, or if the time limit was exceeded."""
        return self._thread.is_abandoned or super().cancelled

    def on_loop(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function on the core's loop. Use this for everything in `ctx.server`."""
        if isinstance(self._context, LoopContext):
            return self._context.on_loop(function, *arguments)

        async def call() -> T:
            return function(*arguments)

        return self._thread.wait_for(call)

    def progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        """Report progress.

        Does nothing if the caller did not ask for it, or if the value does not increase.
        """
        self._thread.wait_for(lambda: self._context.progress(progress, total, message))

    def produced(self, path: str | Path) -> None:
        """Register a file that the tool made. See `Context.produced`."""
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
        """Ask a person and wait. Return the question in its final state, answered or not."""
        return self._thread.wait_for(lambda: self._context.ask(pages))

    @overload
    def elicit(self, message: str, schema: type[T], key: str | None = None) -> Elicited[T]: ...
    @overload
    def elicit(
        self, message: str, schema: Mapping[str, Any], key: str | None = None
    ) -> Elicited[dict[str, Any]]: ...
    def elicit(self, message: str, schema: Mapping[str, Any] | type, key: str | None = None) -> Elicited[Any]:
        """Ask the client to show its user a form. Raises: as `Context.elicit`."""
        return self._thread.wait_for(lambda: self._context.elicit(message, schema, key))

    def elicit_url(self, message: str, url: str, key: str | None = None) -> Elicited[None]:
        """Ask the client to let its user open a URL. Raises: as `Context.elicit`."""
        return self._thread.wait_for(lambda: self._context.elicit_url(message, url, key))

    def complete_elicitation(self, answer: Elicited[Any]) -> None:
        """Notify the client that the action at the URL of a question is complete."""
        self._thread.wait_for(lambda: self._context.complete_elicitation(answer))

    def sample(self, messages: question_wording.Messages, **options: Any) -> Sampled:
        """Ask the client's model for a message. Options and errors are the same as for `Context.sample`."""
        return self._thread.wait_for(lambda: self._context.sample(messages, **options))

    def list_roots(self, key: str | None = None) -> list[Root]:
        """Return the roots of the client. Raises: ClientError."""
        return self._thread.wait_for(lambda: self._context.list_roots(key))

    def resource_updated(self, uri: str) -> None:
        """Notify subscribers of a resource that its content changed."""
        self.on_loop(self._context.resource_updated, uri)

    def become_task(self) -> bool:
        """Answer the caller with a task, and continue. See `Context.become_task`."""
        return self._thread.wait_for(self._context.become_task)

    def close_stream(self, retry_ms: int = 1000) -> bool:
        """Close the caller's connection, and continue the call. See `Context.close_stream`."""
        return self._thread.wait_for(lambda: self._context.close_stream(retry_ms))


def awaitable(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """Wrap a plain function in a coroutine function, which runs the plain function in a thread with a
    `SyncContext`.

    If `function` is itself a wrapper of an `async def`, `function` is called directly.
    """
    if inspect.iscoroutinefunction(inspect.unwrap(function)):
        return _with_awaited_result(function)

    @functools.wraps(function)
    async def in_thread(*arguments: Any, **named: Any) -> Any:
        call = ThreadedCall(lambda: function(*thread_arguments, **thread_named), asyncio.get_running_loop())
        thread_arguments = tuple(_for_thread(each, call) for each in arguments)
        thread_named = {name: _for_thread(each, call) for name, each in named.items()}
        return await WORKERS.run(call)

    return in_thread


def _with_awaited_result(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(function)
    async def call(*arguments: Any, **named: Any) -> Any:
        result = function(*arguments, **named)
        return await result if inspect.isawaitable(result) else result

    return call


def _for_thread(value: Any, call: ThreadedCall) -> Any:
    return SyncContext(value, call) if isinstance(value, Context) else value
