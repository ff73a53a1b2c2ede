"""When a screen that is driven by a test has nothing left to do, on a busy machine too."""

from __future__ import annotations

import asyncio
import sys
from time import monotonic, process_time

LOOK_S = 0.01
IDLE_S = LOOK_S / 10
QUIET_TURNS = 3
MOST_TURNS = 1_000


async def settled(least_s: float = LOOK_S, most_s: float = 1.0) -> None:
    """Wait until the loop, its threads and the screen have nothing to do, at most about `most_s`.

    Textual's own takes a process that uses no processor for idle, even if it gets none.
    """
    began = monotonic()
    while True:
        used = process_time()
        await asyncio.sleep(LOOK_S)
        waited = monotonic() - began
        is_idle = process_time() - used < IDLE_S and not _threads_work() and not _repaint_is_due()
        if waited >= most_s or (is_idle and waited > least_s):
            break
    await _nothing_is_due()


def _threads_work() -> bool:
    """Whether a thread of the loop's executor has work, which it may not have begun with."""
    executor = getattr(asyncio.get_running_loop(), "_default_executor", None)
    if executor is None:
        return False
    idle = executor._idle_semaphore._value
    return bool(executor._work_queue.qsize() > 0 or idle < len(executor._threads))


def _repaint_is_due() -> bool:
    """Whether the screen waits for its next turn to be painted."""
    from textual._context import active_app

    app = active_app.get(None)
    return app is not None and bool(app.screen_stack) and app.screen._update_timer._active.is_set()


async def _nothing_is_due() -> None:
    """Let the loop turn until nobody but us wants to run."""
    ready = getattr(asyncio.get_running_loop(), "_ready", ())
    quiet = 0
    for _ in range(MOST_TURNS):
        await asyncio.sleep(0)
        quiet = 0 if ready else quiet + 1
        if quiet == QUIET_TURNS:
            return


def settle_with_patience() -> None:
    """Have Textual's pilot wait like this, and its toasts stay, where a test uses it."""
    pilot, app = sys.modules.get("textual.pilot"), sys.modules.get("textual.app")
    if pilot is not None and app is not None:
        pilot.wait_for_idle = app.wait_for_idle = settled  # type: ignore[attr-defined]
        app.App.NOTIFICATION_TIMEOUT = 3_600.0
