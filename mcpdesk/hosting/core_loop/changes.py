"""Notification of front ends when a core may have changed, so that front ends need not poll."""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable
from time import monotonic

Listener = Callable[[], object]
_select = selectors.DefaultSelector.select


class Changes:
    """Listeners to call whenever the core may have changed.

    A listener is called on any thread, and possibly many times for one change. It must return at once and
    treat several calls as one.
    """

    def __init__(self) -> None:
        self.is_complete = False
        """True if the listeners are called for every change. If False, a front end must poll as well."""
        self.listeners: tuple[Listener, ...] = ()
        self._lock = threading.Lock()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Add a listener, and return the function that removes it."""
        with self._lock:
            self.listeners += (listener,)

        def remove() -> None:
            with self._lock:
                self.listeners = tuple(other for other in self.listeners if other is not listener)

        return remove

    def notify(self) -> None:
        """Call the listeners. May be called on any thread."""
        for listener in self.listeners:
            listener()


class LoopTurns:
    """Observer of one event loop. It knows whether the loop waits for events and when its current turn began.

    Only code on the loop changes the state that the loop owns. A front end therefore looks at the end of each
    turn. Observing an idle loop costs nothing.
    """

    def __init__(self) -> None:
        self.changes = Changes()
        """Notified at the end of each turn, and by code that changes state on other threads."""
        self.is_waiting = True
        self.turn_start = monotonic()
        """Monotonic time at which the current turn began."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self.turn_event: threading.Event | None = None
        """Event to set when the next turn begins, or None."""

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """Create an event loop that this object observes."""
        self.changes.is_complete = True
        self._loop = asyncio.SelectorEventLoop(_ObservedSelector(self))
        return self._loop

    def observes(self, loop: asyncio.AbstractEventLoop) -> bool:
        """True if `new_loop` made this loop."""
        return loop is self._loop

    def set_at_next_turn(self, event: threading.Event) -> None:
        """Set an event when the next turn begins, or at once if the loop is running."""
        self.turn_event = event
        if not self.is_waiting:
            event.set()

    def set_turn_event(self) -> None:
        """Set the event given to `set_at_next_turn`. Called when a turn begins."""
        event, self.turn_event = self.turn_event, None
        if event is not None:
            event.set()


class _ObservedSelector(selectors.DefaultSelector):
    """Selector that reports the beginning and the end of each turn of its loop."""

    def __init__(self, turns: LoopTurns) -> None:
        super().__init__()
        self._turns = turns

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        turns = self._turns
        # The code of `Changes.notify`, inlined because every turn runs it.
        for listener in turns.changes.listeners:
            listener()
        turns.is_waiting = timeout != 0  # a timeout of 0 means that callbacks are ready to run
        ready = _select(self, timeout)
        turns.turn_start, turns.is_waiting = monotonic(), False
        if turns.turn_event is not None:
            turns.set_turn_event()
        return ready
