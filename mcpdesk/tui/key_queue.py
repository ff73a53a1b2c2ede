"""Delivers typed keys one at a time, so that each reaches the widget that has the focus by then.

The toolkit sends a key to the focused widget as soon as it is read. The effect of a key (Tab moves the
focus, Enter opens a form, another key a dialog) comes some messages later, so keys that are typed fast would
reach the widget that had the focus before. Here the next key waits until the one before has had its effect.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from textual import events
from textual.app import App
from textual.dom import DOMNode
from textual.message_pump import MessagePump
from textual.timer import Timer

PATIENCE_S = 1.0
"""The longest that a key waits for the one before it, or for a form or a dialog to come."""
_POLL_S = 0.01
_PASSES = 2
"""A key first travels from the focused widget to the application, where bindings act on it; then what these
actions sent to the widget travels the same way."""
_TURNS = 2
"""Times a marker queues at each widget: the second time behind what the widget sent to itself meanwhile."""


class KeyQueue:
    """The keys of one application.

    `deliver` sends a key on; `must_wait` says whether the focus is about to move.
    """

    def __init__(
        self,
        app: App[Any],
        deliver: Callable[[events.Event], Awaitable[None]],
        must_wait: Callable[[], bool],
    ) -> None:
        self._app, self._deliver, self._must_wait = app, deliver, must_wait
        self._waiting: deque[events.Event] = deque()
        self._is_busy = False
        self._number = 0
        self._limit: Timer | None = None
        self._held_since: float | None = None

    async def put(self, event: events.Event) -> None:
        """Take a key, or a paste, that was just read; send it on when its turn has come."""
        self._waiting.append(event)
        if not self._is_busy:
            self._is_busy = True
            await self._next()

    async def _next(self) -> None:
        if self._waiting and self._is_held():
            self._app.set_timer(_POLL_S, self._next)
            return
        if not self._waiting:
            self._is_busy = False
            return
        event = self._waiting.popleft()
        self._number += 1
        end = partial(self._end, self._number)
        self._limit = self._app.set_timer(PATIENCE_S, end)
        target = self._app.focused or self._app.screen
        await self._deliver(event)
        self._follow(target, target, _PASSES, _TURNS, end)

    def _is_held(self) -> bool:
        if not self._must_wait():
            self._held_since = None
            return False
        now = time.monotonic()
        if self._held_since is None:
            self._held_since = now
        return now - self._held_since < PATIENCE_S

    def _follow(
        self,
        target: MessagePump,
        node: MessagePump,
        passes: int,
        turns: int,
        end: Callable[[], Awaitable[None]],
    ) -> None:
        """Queue at `node` behind the key and its effects, then at the nodes above it."""
        while True:
            if turns == 0:
                above = node.parent if isinstance(node, DOMNode) and node is not self._app else None
                node, turns = (above, _TURNS) if above is not None else (target, _TURNS)
                passes -= above is None
            if passes == 0:
                self._app.call_later(end)
                return
            if node.call_later(self._follow, target, node, passes, turns - 1, end):
                return
            turns = 0  # a node that has gone takes no messages: go on above it

    async def _end(self, number: int) -> None:
        """The key of this number had its effect, or all the time it may take."""
        if number != self._number:
            return
        self._number += 1
        if self._limit is not None:
            self._limit.stop()
        await self._next()
