"""Updates a widget when the core reports a change, without polling the core."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context

from textual.widget import Widget

from mcpdesk.link.link import Link

MIN_REFRESH_PERIOD_S = 1 / 20
"""Minimum seconds between two refreshes for reported changes."""
TICK_S = 1.0
"""Seconds between two updates if only clocks change."""


def follow_core(
    widget: Widget, link: Link, update: Callable[[], object], *, poll_s: float, tick_s: float = TICK_S
) -> None:
    """Call `update` when the core may have changed, and every `tick_s` seconds for clocks.

    The widget must be mounted. The calls end when it is removed. If the link does not report changes,
    `update` is called every `poll_s` seconds instead.
    """
    if not link.reports_changes:
        widget.set_interval(poll_s, update)
        return
    _Follower(widget, link, update)
    widget.set_interval(tick_s, update)


class _Follower:
    """Passes reported changes to the screen's thread, at most one every `MIN_REFRESH_PERIOD_S` seconds."""

    def __init__(self, widget: Widget, link: Link, update: Callable[[], object]) -> None:
        self._widget = widget
        self._update = update
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._updated_at = -math.inf
        self._has_reported_change = False
        self._stop_listening = link.on_change(self._changed)

    def _changed(self) -> None:
        """Schedule an update. May be called on any thread."""
        if not self._has_reported_change:
            self._has_reported_change = True
            with suppress(RuntimeError):  # the loop is closed: the screen has ended
                self._loop.call_soon_threadsafe(self._update_soon, context=self._context)

    def _update_soon(self) -> None:
        if not self._widget.is_attached:
            self._stop_listening()
        elif (delay_s := self._updated_at + MIN_REFRESH_PERIOD_S - time.monotonic()) > 0:
            # A one-shot timer of Textual never fires if it is due before its task begins.
            self._loop.call_later(delay_s, self._update_soon, context=self._context)
        else:
            self._widget.call_later(self._update_now)

    def _update_now(self) -> None:
        self._has_reported_change = False
        self._updated_at = time.monotonic()
        self._update()
