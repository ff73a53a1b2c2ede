"""Runs many short coroutines without a task each, and without a turn of the loop.

A lane is one task that works through the queue for as long as nothing waits, and then parks. A parked lane
goes on inside the call of `go`. When a coroutine really waits, the lane stays with it and another one takes
over the queue. Every coroutine thus runs inside a real task; what it leaves in context variables ends with
its lane.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from mcpdesk.current_task import current_task

T = TypeVar("T")
MOST_PARKED = 64
"""Lanes kept for work to come."""
AT_ONCE = 16
"""Coroutines begun in one turn of the loop, or half of all where those are more. Between turns new work is
fetched: who asks anew while others are answered stands behind those who asked before, and nobody waits for
two rounds."""
STARTED_AT_ONCE = 16
"""Lanes begun in one turn of the loop when none is parked."""


class Lanes(Generic[T]):
    """A queue of coroutines and the tasks that carry them. Used on one loop only.

    `deliver` takes what each of them returns. `together` is called to run several in one turn of the loop.
    """

    def __init__(
        self, deliver: Callable[[T], object], together: Callable[[Callable[[], None]], object] | None = None
    ) -> None:
        self.lane: asyncio.Task[None] | None = None
        """The one that began or went on last: a coroutine's own, until it waits for the first time."""
        self._deliver = deliver
        self._together = together
        self._later: deque[Coroutine[Any, Any, T]] = deque()
        """What is not to begin before the next turn of the loop."""
        self._queue: deque[Coroutine[Any, Any, T]] = deque()
        self._lanes: set[asyncio.Task[None]] = set()
        self._parked: list[_Gate] = []
        self._is_armed = False
        self._is_closed = False
        self._asker = 0
        """By identity: who left is not kept."""
        self._loop: asyncio.AbstractEventLoop | None = None
        """Kept: to ask for it costs a call of the system."""
        self._waiting: list[asyncio.Future[None]] = []

    def __len__(self) -> int:
        return len(self._later) + len(self._queue) + len(self._lanes) - len(self._parked)

    def run(self, work: Coroutine[Any, Any, T], asker: object = None) -> None:
        """Run a coroutine in one of the next turns of the loop, in order of arrival. It must not raise.

        An `asker` who was the last to ask as well, while nobody else waits, is alone: it runs now.
        """
        is_alone = asker is not None and id(asker) == self._asker and not (self._later or self._queue)
        self._asker = id(asker)
        if is_alone:
            self.run_all((work,))
            return
        self._later.append(work)
        if not self._is_armed:
            self._arm()

    def run_all(self, work: Sequence[Coroutine[Any, Any, T]]) -> None:
        """Run coroutines now, until each has ended or waits for something. They must not raise."""
        self._queue.extend(work)
        if self._queue:
            self._go_through()

    def go(self) -> None:
        """Run what is queued now, until each coroutine has ended or waits for something."""
        self._is_armed = False
        if not self._queue:
            waiting = len(self._later)
            for _ in range(min(waiting, max(AT_ONCE, waiting // 2))):
                self._queue.append(self._later.popleft())
        if len(self._queue) > 1 and self._together is not None:
            self._together(self._go_through)
        elif self._queue:
            self._go_through()
        if self._later and not self._is_armed:
            self._arm()

    async def finished(self) -> None:
        """Wait until everything queued so far is done."""
        while len(self):
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter

    def close(self) -> None:
        """Keep no lanes any more. What is under way goes on."""
        self._is_closed = True
        while self._parked:
            self._parked.pop().wake()

    def _go_through(self) -> None:
        loop = self._loop or self._look_for_loop()
        current = current_task(loop)
        if current is not None:
            asyncio._leave_task(loop, current)
        try:
            while self._queue and self._parked:
                gate = self._parked.pop()
                gate.context.run(gate.step, gate)
        finally:
            if current is not None:
                asyncio._enter_task(loop, current)
        if self._queue:
            for _ in range(min(len(self._queue), STARTED_AT_ONCE)):
                lane = loop.create_task(self._work(_Gate(loop, self._parked)))
                self._lanes.add(lane)
                lane.add_done_callback(self._ended)
            # Runs right after the first steps of these: what they have left waits behind waiting coroutines.
            self._arm()

    def _arm(self) -> None:
        self._is_armed = True
        (self._loop or self._look_for_loop()).call_soon(self.go)

    def _look_for_loop(self) -> asyncio.AbstractEventLoop:
        self._loop = asyncio.get_running_loop()
        return self._loop

    async def _work(self, gate: _Gate) -> None:
        untouched, lane = copy_context(), asyncio.current_task()
        assert lane is not None
        while True:
            while self._queue:
                self.lane = lane
                self._deliver(await self._queue.popleft())
                # Contexts that share all their variables are found equal at once. A cancellation that came
                # too late for its coroutine would meet the next one. One that a coroutine took and did not
                # give back was for the lane: whoever sent it waits for its end.
                if copy_context() != untouched or getattr(lane, "_must_cancel", False) or lane.cancelling():
                    return
            if self._is_closed or len(self._parked) >= MOST_PARKED:
                return
            if self._waiting:
                asyncio.get_running_loop().call_soon(self._tell)
            gate._asyncio_future_blocking = True  # what a future's own `__await__` sets
            await gate.turn

    def _ended(self, lane: asyncio.Task[None]) -> None:
        self._lanes.discard(lane)
        self._tell()

    def _tell(self) -> None:
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)
        self._waiting.clear()


class _Gate:
    """Where a lane is parked: to its task a future, but one whose end takes effect at once."""

    _asyncio_future_blocking = False

    def __init__(self, loop: asyncio.AbstractEventLoop, parked: list[_Gate]) -> None:
        self.turn = _Turn((self,))
        self._loop = loop  # by this name, tasks look for it
        self._parked = parked
        self._is_cancelled = False
        self.step: Callable[[_Gate], object]
        """Lets the lane go on, in its `context`."""
        self.context: Context

    def wake(self) -> None:
        """Let the lane go on in the next turn of the loop."""
        self._loop.call_soon(self.step, self, context=self.context)

    def add_done_callback(self, step: Callable[[_Gate], object], *, context: Context) -> None:
        """The lane's task waits, and goes on by `step`."""
        self.step, self.context = step, context
        self._parked.append(self)

    def cancel(self, msg: object = None) -> bool:
        """The lane's task is to end."""
        self._is_cancelled = True
        if self in self._parked:
            self._parked.remove(self)
            self.wake()
        return True

    def result(self) -> None:
        """Asked by the task when it goes on."""
        if self._is_cancelled:
            raise asyncio.CancelledError


class _Turn(tuple[_Gate]):
    """To be awaited: gives the task its gate, without a frame of Python's for it."""

    if TYPE_CHECKING:

        def __await__(self) -> Generator[_Gate, None, None]: ...

    else:
        __await__ = tuple.__iter__
