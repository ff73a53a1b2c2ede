"""Connections for code without an event loop. The requests run on the event loop of another thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")
END_TIMEOUT_S = 10.0
"""Maximum seconds to wait for the thread at the end of a block. Hosted code may block the thread forever."""


class Blocking(Generic[T]):
    """A server, and the event loop on which it must be used."""

    def __init__(self, server: T, loop: asyncio.AbstractEventLoop) -> None:
        self.server = server
        self.loop = loop

    def start(self, work: Coroutine[Any, Any, R]) -> Future[R]:
        """Start `work` on the server's loop. If the returned future is cancelled, `work` is cancelled."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Coroutine[Any, Any, R], timeout_s: float | None = None) -> R:
        """Run `work` and return its result. Raises: TimeoutError after `timeout_s`; exceptions of `work`."""
        future = self.start(work)
        try:
            return future.result(timeout_s)
        finally:
            future.cancel()


@contextmanager
def blocking(
    opening: AbstractAsyncContextManager[T],
    *,
    run: Callable[[Coroutine[Any, Any, None]], None] = asyncio.run,
    limit_s: float | None = None,
) -> Iterator[Blocking[T]]:
    """Open a connection until the block ends, such as `blocking(connect(target, identity))`.

    `run` runs a coroutine on a new event loop. An exception in the block does not reach the connection, which
    is closed as usual. Raises: any exception of `opening`; TimeoutError if opening takes more than `limit_s`
    seconds.
    """
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = Future()
    opened: Future[T] = Future()
    closed: Future[None] = Future()
    end_event = asyncio.Event()

    async def serve() -> None:
        task = asyncio.current_task()
        assert task is not None
        started.set_result((asyncio.get_running_loop(), task))
        try:
            async with opening as server:
                opened.set_result(server)
                await end_event.wait()
        except BaseException as error:  # the waiting thread raises this error
            (closed if opened.done() else opened).set_exception(error)
        else:
            closed.set_result(None)

    thread = threading.Thread(target=lambda: run(serve()), name="mcpdesk-client", daemon=True)
    thread.start()
    loop, task = started.result()
    try:
        server = opened.result(limit_s)
    except BaseException:  # including KeyboardInterrupt
        if not opened.done():
            loop.call_soon_threadsafe(task.cancel)
        thread.join(END_TIMEOUT_S)
        raise
    try:
        yield Blocking(server, loop)
    finally:
        loop.call_soon_threadsafe(end_event.set)
        thread.join(END_TIMEOUT_S)
    if closed.done():
        closed.result()
