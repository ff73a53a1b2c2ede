"""Threads for the plain functions of authors, so that a blocking function does not delay other work.

They are daemon threads, so a blocked thread does not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent import futures
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from mcpdesk.errors import ServerFailure
from mcpdesk.server.calls.running_call import RUNNING_CALL
from mcpdesk.server.calls.threads.running_code import RUNNING_CODE

T = TypeVar("T")

MAX_THREADS = 64
"""Default of the setting `max_threads`: the number of functions that may run at the same time."""
QUEUE_TIMEOUT_S = 5.0
"""Maximum seconds that a function waits for a free thread."""
IDLE_S = 10.0
"""Seconds after which an idle thread ends."""


class ThreadedCall:
    """One function that runs in a thread or waits for a free thread. The loop may stop waiting for the
    result.
    """

    def __init__(self, function: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.result: asyncio.Future[Any] = loop.create_future()
        self.has_begun = False
        self.task = asyncio.current_task(loop)
        """Task that waits for the result."""
        self.thread_id = 0
        """Id of the thread, or 0 before the function starts."""
        self._function = function
        self._loop = loop
        self._context = copy_context()
        self._lock = threading.Lock()
        self._reason: str | None = None
        """Reason for dropping the result, or None while the caller waits."""
        self._loop_future: futures.Future[Any] | None = None
        self._capture_key = RUNNING_CALL.get()
        self._is_left = False
        """True if the call has ended, but its function still runs."""
        self._is_over = False
        """True if the function has ended."""

    @property
    def is_abandoned(self) -> bool:
        """True if the result will be dropped."""
        return self._reason is not None

    def abandon(self, reason: str) -> None:
        """Drop the result. Call it on the loop.

        If the function uses the loop later, `wait_for` raises CancelledError.
        """
        with self._lock:
            self._reason = reason
            loop_future = self._loop_future
        if loop_future is not None:
            loop_future.cancel()

    def note_call_end(self) -> None:
        """Record that the call has ended, although its function may still run. Call it on the loop."""
        with self._lock:
            self._is_left = self._capture_key is not None and self.has_begun and not self._is_over
        if self._is_left and self._capture_key is not None:
            RUNNING_CODE.add(self._capture_key)

    def wait_for(self, make_coroutine: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the loop, and wait for its result. Call it in the thread.

        Raises: CancelledError after the call was cancelled or timed out.
        """
        with self._lock:
            if self._reason is not None:
                raise asyncio.CancelledError(self._reason)
            loop_future = self._loop_future = asyncio.run_coroutine_threadsafe(make_coroutine(), self._loop)
        try:
            result: T = loop_future.result()
            return result
        except futures.CancelledError:
            raise asyncio.CancelledError(self._reason or "the call ended") from None
        finally:
            self._loop_future = None

    def run(self) -> None:
        """Run the function, and pass on its result or exception. Call it in the thread."""
        with self._lock:
            if self.is_abandoned:
                return
            self.has_begun = True
        self.thread_id = threading.get_ident()
        try:
            value, error = self._context.run(self._function), None
        except BaseException as raised:  # hosted code may raise anything, and the thread must continue
            value, error = None, raised
        with self._lock:
            self._is_over = True
        try:
            self._loop.call_soon_threadsafe(self._set_result, value, error)
        except RuntimeError:  # the loop is closed, so nothing else uses this call
            self._note_end()

    def _note_end(self) -> None:
        if self._is_left and self._capture_key is not None:
            self._is_left = False
            RUNNING_CODE.remove(self._capture_key)

    def _set_result(self, value: Any, error: BaseException | None) -> None:
        """Set the result or the error of the function, on the loop of the call."""
        self._note_end()
        if self.result.done():
            return
        if error is None:
            self.result.set_result(value)
        elif isinstance(error, StopIteration):  # a future does not accept StopIteration
            self.result.set_exception(RuntimeError("it raised StopIteration"))
        else:
            self.result.set_exception(error)


class WorkerThreads:
    """Runs functions in at most `max_threads` threads. May be used on any loop."""

    def __init__(self, max_threads: int = MAX_THREADS) -> None:
        self.max_threads = max_threads
        self._waiting_calls: SimpleQueue[ThreadedCall] = SimpleQueue()
        self._lock = threading.Lock()
        self._running_calls: set[ThreadedCall] = set()
        self._thread_count = 0
        self._spare_count = 0
        """Number of idle threads, minus the number of calls that wait for a thread."""

    async def run(self, call: ThreadedCall) -> Any:
        """Run a function and return its result. If the wait is cancelled, the result is dropped.

        Raises: ServerFailure if no thread becomes free in time.
        """
        self._submit(call)
        try:
            if self._spare_count < 0:
                timeout_s = QUEUE_TIMEOUT_S if self._blocked_count() < self.max_threads else 0.0
                await asyncio.wait({call.result}, timeout=timeout_s)
                if not call.has_begun:
                    call.abandon("no thread was free")
                    raise ServerFailure(self._exhausted_message())
            return await call.result
        except asyncio.CancelledError:
            call.abandon("the call was cancelled or timed out")
            call.note_call_end()
            raise

    def thread_of(self, task: asyncio.Task[Any]) -> int:
        """Return the id of the thread whose function a task awaits, or 0 if no thread runs that function.

        May be called on any thread.
        """
        calls = (each for each in self._running_calls.copy() if each.task is task and not each.is_abandoned)
        return next((each.thread_id for each in calls), 0)

    def _blocked_count(self) -> int:
        """Return the number of threads whose function still runs although its call has ended."""
        return sum(each.is_abandoned for each in list(self._running_calls))

    def _exhausted_message(self) -> str:
        blocked = self._blocked_count()
        detail = f", {blocked} of them by functions that still run after their call ended" if blocked else ""
        advice = "Call again later, or increase the setting max_threads."
        return f"All {self.max_threads} threads for plain functions are in use{detail}. {advice}"

    def _submit(self, call: ThreadedCall) -> None:
        """Give a call to an idle thread or a new thread, or queue it."""
        with self._lock:
            must_start = self._spare_count <= 0 and self._thread_count < self.max_threads
            if must_start:
                self._thread_count += 1
            else:
                self._spare_count -= 1
                self._waiting_calls.put(call)
        if must_start:
            threading.Thread(target=self._run_calls, args=(call,), name="worker", daemon=True).start()

    def _run_calls(self, call: ThreadedCall | None) -> None:
        while call is not None:
            self._running_calls.add(call)
            call.run()
            self._running_calls.discard(call)
            with self._lock:
                self._spare_count += 1
            del call  # freed while this thread waits
            call = self._next_call()

    def _next_call(self) -> ThreadedCall | None:
        """Return the next function to run, or None if this thread may end."""
        while True:
            try:
                return self._waiting_calls.get(timeout=IDLE_S)
            except Empty:
                with self._lock:
                    if self._spare_count > 0:
                        self._spare_count -= 1
                        self._thread_count -= 1
                        return None


LOOP_TASKS: WeakKeyDictionary[asyncio.Task[Any], asyncio.Task[Any]] = WeakKeyDictionary()
"""Task of a handler on another loop, by the task that waits for it."""
WORKERS = WorkerThreads()
"""Threads of this process."""
