"""Detection of hosted code that blocks the core's event loop."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType

from msgspec import Struct

from mcpdesk.hosting.core_loop.changes import LoopTurns

BEAT_PERIOD_S = 0.2
"""Seconds between two checks of the loop, and between two beats of its timer."""
STUCK_AFTER_S = 0.5
"""Seconds without a beat after which a loop counts as stuck."""


class Stuck(Struct, frozen=True):
    """Report that code blocks the core's loop, with the line of that code."""

    seconds: float
    tool: str
    where: str
    """Source line such as `tools/slow.py:14`, or "" if the code is not in a hosted folder."""
    folder: str = ""
    """Hosted folder that contains the code, if any."""


class Heartbeat:
    """Detector of an event loop that is stuck because code blocks it.

    If `turns` observes the loop, the detector checks the loop only while it runs. On any other loop, a timer
    records the time every `BEAT_PERIOD_S` seconds (a beat).

    `folders` returns the hosted folders. `tool_at` returns the tool whose function begins on one of the given
    lines of a file. `on_stuck` is called on a separate thread, once each time code of a hosted folder blocks
    the loop.
    """

    def __init__(
        self,
        folders: Callable[[], list[Path]],
        tool_at: Callable[[Path, str, range], str],
        turns: LoopTurns | None = None,
        on_stuck: Callable[[Stuck], None] = lambda _: None,
    ) -> None:
        self._folders = folders
        self._tool_at = tool_at
        self._turns = turns
        self._is_observed = False
        """True if `turns` observes the loop."""
        self._on_stuck = on_stuck
        self._has_stopped = threading.Event()
        self._is_loop_running = threading.Event()
        """Set when the loop runs again, or when the heartbeat stops."""
        self._last_beat = time.monotonic()
        self._thread_id = 0
        """Id of the thread with the loop, or 0 while the heartbeat is stopped."""
        self._beat_timer: asyncio.TimerHandle | None = None
        """Timer of the next beat, or None if `turns` observes the loop."""

    def start(self) -> None:
        """Begin to check the running loop."""
        self._thread_id = threading.get_ident()
        self._has_stopped.clear()
        self._is_loop_running.clear()
        self._is_observed = self._turns is not None and self._turns.observes(asyncio.get_running_loop())
        if not self._is_observed:
            self._beat()
        threading.Thread(target=self._watch, name="heartbeat", daemon=True).start()

    def stop(self) -> None:
        """Stop checking. The loop no longer counts as stuck."""
        self._thread_id = 0
        self._has_stopped.set()
        self._is_loop_running.set()
        if self._beat_timer is not None:
            self._beat_timer.cancel()

    def stuck(self) -> Stuck | None:
        """Return a report if the loop is stuck, or None. Call it on another thread."""
        silent_s = self._silent_s()
        if not self._thread_id or silent_s < STUCK_AFTER_S:
            return None
        frame = sys._current_frames().get(self._thread_id)
        tool, where, folder = ("", "", "") if frame is None else self._blocking_line(frame)
        return Stuck(silent_s, tool, where, folder)

    def _silent_s(self) -> float:
        """Return the seconds since the loop last waited for events, or since its last beat."""
        if not self._is_observed or self._turns is None:
            return time.monotonic() - self._last_beat
        return 0.0 if self._turns.is_waiting else time.monotonic() - self._turns.turn_start

    def _beat(self) -> None:
        """Record that the loop runs, and schedule the next beat."""
        self._last_beat = time.monotonic()
        self._beat_timer = asyncio.get_running_loop().call_later(BEAT_PERIOD_S, self._beat)

    def _watch(self) -> None:
        """Report once each time code of a hosted folder blocks the loop."""
        was_stuck = False
        while not self._has_stopped.wait(BEAT_PERIOD_S):
            if self._is_observed and self._turns is not None and self._turns.is_waiting:
                was_stuck = False
                self._is_loop_running.clear()
                self._turns.set_at_next_turn(self._is_loop_running)
                if not self._has_stopped.is_set():
                    self._is_loop_running.wait()
                continue
            stuck = self.stuck()
            # mcpdesk's own imports also block the loop. They have no source line in a hosted folder.
            is_hosted_code = stuck is not None and bool(stuck.where)
            if stuck is not None and is_hosted_code and not was_stuck:
                self._on_stuck(stuck)
            was_stuck = is_hosted_code

    def _blocking_line(self, innermost: FrameType) -> tuple[str, str, str]:
        """Return the running tool, the innermost source line in a hosted folder, and that folder."""
        folders = self._folders()
        where = hosted_folder = ""
        frame: FrameType | None = innermost
        while frame is not None:
            path = Path(frame.f_code.co_filename)
            for folder in folders:
                if path.is_relative_to(folder):
                    relative = str(path.relative_to(folder))
                    where = where or f"{relative}:{frame.f_lineno}"
                    hosted_folder = hosted_folder or str(folder)
                    if tool := self._tool_at(folder, relative, _lines(frame.f_code)):
                        return tool, where, str(folder)
            frame = frame.f_back
        return "", where, hosted_folder


def _lines(code: CodeType) -> range:
    """Return the line numbers of a function, including its decorators."""
    numbers = [line for _, _, line in code.co_lines() if line]
    return range(code.co_firstlineno, max(numbers, default=code.co_firstlineno) + 1)
