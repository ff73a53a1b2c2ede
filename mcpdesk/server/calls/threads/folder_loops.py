"""Separate event loops for the code of a folder that has blocked the core's loop.

A blocking function cannot be interrupted. On a separate loop it delays neither the core nor other folders,
and its caller gets a timeout. A blocked loop gets no more calls; another loop is started.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from mcpdesk.errors import HandlerError
from mcpdesk.server.calls.running_call import RUNNING_CALL
from mcpdesk.server.calls.threads.running_code import RUNNING_CODE
from mcpdesk.server.calls.threads.worker_threads import LOOP_TASKS
from mcpdesk.server.state.lifespan import Lifespan

T = TypeVar("T")

MAX_LOOPS = 8
"""Maximum number of loops for one folder. A new loop is started only if all others are blocked."""
BLOCKED_AFTER_S = 0.5
"""Seconds without a response after which a loop counts as blocked."""
CANCEL_WAIT_S = 0.05
"""Maximum seconds that a cancelled call waits for the end of its handler."""
CLOSE_S = 2.0


class FolderLoops:
    """Separate loops of one folder. Use it on the core's loop."""

    def __init__(self, name: str) -> None:
        self.is_on = True
        """True if the folder's code runs on these loops, False if it runs on the core's loop."""
        self._name = name
        self._threads: list[LoopThread] = []
        self._current: LoopThread | None = None

    def __len__(self) -> int:
        return len(self._threads)

    @property
    def calls(self) -> int:
        """Number of running handlers, including those whose call no longer waits."""
        return sum(each.calls for each in self._threads)

    async def run(self, handle: Callable[[LoopThread], Coroutine[Any, Any, T]]) -> T:
        """Run a handler on a loop of the folder, and return its result.

        `handle` is called on that loop. If the call is cancelled, the handler is cancelled as well. A blocked
        handler continues to run. Raises: exceptions of the handler; HandlerError if all loops are blocked.
        """
        thread = await self._unblocked_thread()
        return await thread.run(lambda: handle(thread), asyncio.get_running_loop())

    def return_to_core_loop(self) -> None:
        """Run the folder's code on the core's loop again, because the code has changed."""
        self.is_on = False
        self._retire()

    def _retire(self) -> None:
        if self._current is not None:
            self._current.retire()
            self._current = None

    async def close(self) -> None:
        """End the loops that are not blocked."""
        self._retire()
        thread_ends = [each.ended for each in self._threads]
        if thread_ends:
            await asyncio.wait(thread_ends, timeout=CLOSE_S)

    async def _unblocked_thread(self) -> LoopThread:
        """Return a loop that responds, and start one if needed. Raises: HandlerError."""
        current = self._current
        if current is not None and not await current.responds() and self._current is current:
            self._retire()
        if self._current is None:
            if len(self._threads) >= MAX_LOOPS:
                raise HandlerError(
                    f"All {MAX_LOOPS} threads of {self._name} are occupied by functions that block. "
                    "Call again later. In an `async def`, do not use functions that block."
                )
            self._current = LoopThread(self._name, self._threads)
        return self._current


class LoopThread:
    """Event loop with its thread, and the `lifespan` of `context.py` on this loop."""

    def __init__(self, name: str, threads: list[LoopThread]) -> None:
        """Add the thread to `threads`. The thread removes itself from `threads` when it ends."""
        self._core = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._core.create_future()
        self._loop = asyncio.new_event_loop()
        self._lifespan: Lifespan | None = None
        self.calls = 0
        """Number of running handlers, even if no call waits for them. Only the core's loop changes it."""
        self._is_retired = self._is_closed = False
        self._threads = threads
        threads.append(self)
        threading.Thread(target=self._run_loop, name=f"loop of {name}", daemon=True).start()

    async def responds(self) -> bool:
        """Return True if the loop responds within `BLOCKED_AFTER_S` seconds."""
        response = self._core.create_future()
        self._loop.call_soon_threadsafe(self._call_core, _resolve, response)
        try:
            async with asyncio.timeout(BLOCKED_AFTER_S):
                await response
        except TimeoutError:
            return False
        return True

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]], core: asyncio.AbstractEventLoop) -> T:
        """Run a coroutine on the loop. Raises: exceptions of the coroutine."""
        result: asyncio.Future[tuple[T | None, BaseException | None]] = core.create_future()
        tasks: list[asyncio.Task[tuple[T | None, BaseException | None]]] = []
        capture_key, waiting_task = RUNNING_CALL.get(), asyncio.current_task()
        has_begun = is_abandoned = False

        async def run_work() -> tuple[T | None, BaseException | None]:
            nonlocal has_begun
            has_begun = True
            if is_abandoned:  # the call was abandoned before the handler began
                return None, asyncio.CancelledError()
            try:
                return await work(), None
            except BaseException as raised:  # hosted code may raise anything, and the loop must continue
                return None, raised

        def on_done(task: asyncio.Task[tuple[T | None, BaseException | None]]) -> None:
            # If a task is cancelled before its first step, `run_work` does not run.
            outcome = (None, asyncio.CancelledError()) if task.cancelled() else task.result()
            self._call_core(self._on_handler_end, result, outcome)

        def start() -> None:
            tasks.append(self._loop.create_task(run_work()))
            tasks[0].add_done_callback(on_done)
            if waiting_task is not None:
                LOOP_TASKS[waiting_task] = tasks[0]

        def cancel() -> None:
            for task in tasks:
                task.cancel()

        self.calls += 1
        self._loop.call_soon_threadsafe(start)
        try:
            value, error = await asyncio.shield(result)
        except asyncio.CancelledError:
            is_abandoned = True
            self._loop.call_soon_threadsafe(cancel)
            if has_begun:
                await asyncio.wait({result}, timeout=CANCEL_WAIT_S)
            if has_begun and capture_key is not None and not result.done():
                RUNNING_CODE.add(capture_key)
                result.add_done_callback(lambda _: RUNNING_CODE.remove(capture_key))
            raise
        if error is not None:
            raise error
        return value  # type: ignore[return-value]  # without a value there is an error

    async def state(self, lifespan: Lifespan, server: object) -> Any:
        """Return the value that the folder's `lifespan` yields for a server on this loop.

        Raises: HandlerError if `lifespan` fails.
        """
        if self._lifespan is None or self._lifespan.function is not lifespan.function:
            self._lifespan = lifespan.copy()
        return await self._lifespan.state(server)

    def retire(self) -> None:
        """End the loop after its last handler has ended."""
        self._is_retired = True
        if not self.calls:
            self._loop.call_soon_threadsafe(lambda: self._loop.create_task(self._close()))

    def _on_handler_end(self, result: asyncio.Future[Any], outcome: Any) -> None:
        self.calls -= 1
        if not result.done():
            result.set_result(outcome)
        if self._is_retired:
            self.retire()

    async def _close(self) -> None:
        if self._lifespan is not None:
            await self._lifespan.close()
        self._is_closed = True
        self._loop.stop()

    def _run_loop(self) -> None:
        """Run the loop until it is closed. Executed by the thread."""
        asyncio.set_event_loop(self._loop)
        try:
            while not self._is_closed:
                # `sys.exit` in a callback or task of hosted code ends `run_forever`. `loop.stop` does so as
                # well.
                with contextlib.suppress(SystemExit, KeyboardInterrupt):
                    self._loop.run_forever()
            unfinished_tasks = asyncio.all_tasks(self._loop)
            for task in unfinished_tasks:
                task.cancel()
            if unfinished_tasks:
                self._loop.run_until_complete(asyncio.gather(*unfinished_tasks, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()
            self._call_core(self._on_thread_end)

    def _on_thread_end(self) -> None:
        self._threads.remove(self)
        _resolve(self.ended)

    def _call_core(self, function: Callable[..., object], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the core's loop is closed
            self._core.call_soon_threadsafe(function, *arguments)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
