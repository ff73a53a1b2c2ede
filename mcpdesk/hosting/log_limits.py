"""Rate limit for log lines. Each cause gets one line a second, with the number of lines it represents."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

INTERVAL_S = 1.0
"""Minimum time in seconds between two lines of the same cause."""
MAX_CAUSES = 1_000
"""Maximum number of causes that are tracked. Lines with further causes are not limited."""
Write = Callable[[str], object]
"""Function that writes a log line. It appends its argument to the text."""


class LogLimits:
    """Rate limit for the lines of every cause. May be used on any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._causes: dict[str, _Cause] = {}

    @property
    def is_active(self) -> bool:
        """True if a limited line was written within about the last second."""
        return bool(self._causes)

    def put(self, cause: str, write: Write) -> None:
        """Write a line now. If a line with the same cause was written within the last second, only count the
        new line.
        """
        self.flush()
        with self._lock:
            limited_cause = self._causes.get(cause)
            if limited_cause is not None:
                limited_cause.count += 1
                limited_cause.write = write
                return
            if len(self._causes) < MAX_CAUSES:
                self._causes[cause] = _Cause(self._clock() + INTERVAL_S)
        write("")

    def flush(self, *, is_last: bool = False) -> None:
        """Write the newest counted line of each cause whose second is over, with the number of lines.

        `is_last` writes the lines of all causes, because `flush` may not be called again.
        """
        if not self._causes:
            return
        pending_writes: list[tuple[Write, int]] = []
        with self._lock:
            now = self._clock()
            for name, cause in list(self._causes.items()):
                if cause.interval_end > now and not (is_last and cause.write is not None):
                    continue
                if cause.write is None:
                    del self._causes[name]
                    continue
                pending_writes.append((cause.write, cause.count))
                cause.interval_end = now + INTERVAL_S
                cause.count = 0
                cause.write = None
        for write, count in pending_writes:
            write("" if count == 1 else f" ({count} times in {INTERVAL_S:g} s)")


class _Cause:
    """Cause that had a line within the last second."""

    __slots__ = ("count", "interval_end", "write")

    def __init__(self, interval_end: float) -> None:
        self.interval_end = interval_end
        """Time on the clock before which further lines are only counted."""
        self.count = 0
        """Number of lines that were counted since the last written one."""
        self.write: Write | None = None
        """Function that writes the newest counted line."""
