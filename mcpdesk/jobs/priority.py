"""Makes programs stand back for whoever is waited for: they get the time that nobody else wants."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

NICE = 19
"""Each of many sessions has a share of its own: only the least is little enough."""
AGAIN_S = 0.11
"""Linux lets a user change a session's priority ten times a second."""

_turn = asyncio.Lock()


async def stand_back(leader: int) -> None:
    """Lower the priority of a program that leads its session, and of what it starts. Does what it may.

    Used on the supervisor's loop.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PGRP, leader, NICE)
    async with _turn:
        while True:
            if _has_session_stood_back(leader):
                return
            await asyncio.sleep(AGAIN_S)


def _has_session_stood_back(leader: int) -> bool:
    """Linux gives every session the same share, whatever the priorities in it, unless it is told.

    Returns False when it has to be told again.
    """
    try:
        Path(f"/proc/{leader}/autogroup").write_text(str(NICE))
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
