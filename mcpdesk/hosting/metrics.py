"""Whether the core's loop turns, and where it stands when it does not."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from msgspec import Struct

BEAT_S = 0.2
STUCK_S = 0.5
"""Seconds without a beat from which on the loop counts as stuck."""


class Stuck(Struct, frozen=True):
    """The core's loop has not turned for a while, and this is where it stands."""

    seconds: float
    tool: str
    where: str
    """`tools/slow.py:14`; empty when the place is not in a hosted folder."""


class Heartbeat:
    """Beats on the core's loop; any other thread may ask whether it still does.

    `tool_at(file)` names the tool a file in a hosted folder belongs to; `folders` gives those folders.
    """

    def __init__(self, folders: Callable[[], list[Path]], tool_at: Callable[[Path, str], str]) -> None:
        self._folders = folders
        self._tool_at = tool_at
        self._last = time.monotonic()
        self._thread_id = 0
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to beat on the running loop."""
        self._thread_id = threading.get_ident()
        self._beat()

    def stop(self) -> None:
        """Stop beating; the loop no longer counts as stuck."""
        self._thread_id = 0
        if self._handle is not None:
            self._handle.cancel()

    def stuck(self) -> Stuck | None:
        """Where the loop stands, if it has not turned for a while. Call from another thread."""
        silent_s = time.monotonic() - self._last
        if not self._thread_id or silent_s < STUCK_S:
            return None
        frame = sys._current_frames().get(self._thread_id)
        tool, where = ("", "") if frame is None else self._place(frame)
        return Stuck(silent_s, tool, where)

    def _beat(self) -> None:
        self._last = time.monotonic()
        self._handle = asyncio.get_running_loop().call_later(BEAT_S, self._beat)

    def _place(self, innermost: FrameType) -> tuple[str, str]:
        folders = self._folders()
        frame: FrameType | None = innermost
        while frame is not None:
            path = Path(frame.f_code.co_filename)
            for folder in folders:
                if path.is_relative_to(folder):
                    place = str(path.relative_to(folder))
                    return self._tool_at(folder, place), f"{place}:{frame.f_lineno}"
            frame = frame.f_back
        return "", ""
