"""When a screen that is driven by a test has come to rest, on a busy machine too."""

from __future__ import annotations

import asyncio
import sys
from time import monotonic, process_time

LOOK_S = 0.02
IDLE_S = LOOK_S / 20
LATE_S = LOOK_S / 2
QUIET_TURNS = 3
MOST_TURNS = 1_000


async def settled(least_s: float = LOOK_S, most_s: float = 1.0) -> None:
    """Wait until the process has nothing to do.

    Textual's own takes one that uses no processor for idle, even if it gets none: who is woken late knows.
    """
    began = monotonic()
    while True:
        used, asleep = process_time(), monotonic()
        await asyncio.sleep(LOOK_S)
        now = monotonic()
        is_idle = process_time() - used < IDLE_S and now - asleep < LOOK_S + LATE_S
        if now - began >= most_s or (is_idle and now - began > least_s):
            break
    await _nothing_is_due()


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
