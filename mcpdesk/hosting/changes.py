"""Notify front ends that a core may have changed, so that they need not poll it."""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable
from time import monotonic

Listener = Callable[[], object]
_select = selectors.DefaultSelector.select


class Changes:
    """Calls its listeners, on any thread, whenever the core may have changed.

    There may be many calls per change: a listener returns at once and coalesces them.
    """

    def __init__(self) -> None:
        self.is_complete = False
        """True if every change is reported. Without it a front end polls as well."""
        self.listeners: tuple[Listener, ...] = ()
        self._lock = threading.Lock()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Add a listener, and return the function that removes it."""
        with self._lock:
            self.listeners += (listener,)

        def remove() -> None:
            with self._lock:
                self.listeners = tuple(each for each in self.listeners if each is not listener)

        return remove

    def note(self) -> None:
        """Call the listeners. May be called on any thread."""
        for listener in self.listeners:
            listener()


class LoopTurns:
    """Observes one event loop: whether it waits for events, and since when it has been running.

    State owned by a loop changes only while the loop runs, so the end of a turn is when a front end has to
    look. An idle loop costs nothing.
    """

    def __init__(self) -> None:
        self.changes = Changes()
        """Notified at the end of each turn, and by code that changes state on other threads."""
        self.is_waiting = True
        self.woke = monotonic()
        """Monotonic time at which the current turn began."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self.awaited: threading.Event | None = None
        """Event to set when the next turn begins."""

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """Make the event loop that this object observes."""
        self.changes.is_complete = True
        self._loop = asyncio.SelectorEventLoop(_ObservedSelector(self))
        return self._loop

    def observes(self, loop: asyncio.AbstractEventLoop) -> bool:
        """True if `new_loop` made this loop."""
        return loop is self._loop

    def set_at_next(self, event: threading.Event) -> None:
        """Set an event when the next turn begins; at once if the loop is running."""
        self.awaited = event
        if not self.is_waiting:
            event.set()

    def set_awaited(self) -> None:
        """Set the event of `set_at_next`, because a turn begins."""
        awaited, self.awaited = self.awaited, None
        if awaited is not None:
            awaited.set()


class _ObservedSelector(selectors.DefaultSelector):
    """Reports the beginning and the end of each turn of its loop."""

    def __init__(self, turns: LoopTurns) -> None:
        super().__init__()
        self._turns = turns

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        turns = self._turns
        for listener in turns.changes.listeners:  # every turn passes here, so no further functions are called
            listener()
        turns.is_waiting = timeout != 0  # 0: work is ready
        ready = _select(self, timeout)
        turns.woke, turns.is_waiting = monotonic(), False
        if turns.awaited is not None:
            turns.set_awaited()
        return ready
