"""Where hosted code runs: it may do anything, and still ends as a value or as an ordinary exception.

Its time is limited here, and so is its reach: `sys.exit()` in a handler ends that handler alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from types import TracebackType
from typing import TypeVar

from mcpdesk.errors import HandlerError
from mcpdesk.server.call import Call
from mcpdesk.server.deadlines import STOPPED, TIMED_OUT, Deadlines
from mcpdesk.server.outcome import described

ANSWERED = (TIMED_OUT, STOPPED)
"""Ends of a call from outside whose caller still waits."""

T = TypeVar("T")


async def run_hosted(work: Awaitable[T], call: Call, deadlines: Deadlines, limit_s: float) -> T:
    """Await hosted code for at most `limit_s` seconds, waiting for a person not counted.

    Raises: TimeoutError when the time was up, and HandlerError when the server stops, with the traceback of
    where it stood; CancelledError when the call or its task was ended from outside; else any Exception of it.
    """
    place: TracebackType | None = None
    deadlines.watch(call, limit_s)
    try:
        output = await work
    except BaseException as error:  # hosted code may raise anything, `SystemExit` as well
        if call.stop not in ANSWERED:
            if isinstance(error, Exception) or _is_ended(call, error):
                raise
            # It would end more than this call.
            raise RuntimeError(f"it raised {described(error)}").with_traceback(error.__traceback__) from None
        place = error.__traceback__
    else:
        if call.stop not in ANSWERED and not deadlines.note_overrun(call):
            return output
    finally:
        deadlines.forget(call)
    told = _told(call.stop, limit_s)
    call.revive()
    try:
        raise told.with_traceback(place)
    finally:
        # A frame that holds its own traceback stays, with all arguments, until somebody collects garbage.
        del place, told


def _told(stop: str, limit_s: float) -> Exception:
    """What a call that was ended comes to."""
    if stop == TIMED_OUT:
        return TimeoutError(f"not finished within its limit of {limit_s:g} s")
    return HandlerError(f"Not finished: {STOPPED}. Call again once it is back.")


def _is_ended(call: Call, error: BaseException) -> bool:
    """Whether a call, or the task it runs in, was cancelled from outside."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return bool(call.stop) or (task is not None and task.cancelling() > 0)
