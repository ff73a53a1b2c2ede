"""Rate limit for log lines: one a second per cause, with the number of lines left out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

SECOND_S = 1.0
MOST_CAUSES = 1_000
"""Causes tracked at a time. Lines of further causes are written without a limit."""
Write = Callable[[str], object]
"""Function that writes a log line; its argument is appended to the text."""


class LogLimits:
    """Lines of each cause within the last second. May be used from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._causes: dict[str, _Cause] = {}

    @property
    def is_active(self) -> bool:
        """True if a line of some cause was written within about the last second."""
        return bool(self._causes)

    def put(self, cause: str, write: Write) -> None:
        """Write a line now, or count it if one of the same cause was written within the last second."""
        self.flush()
        with self._lock:
            known = self._causes.get(cause)
            if known is not None:
                known.count += 1
                known.write = write
                return
            if len(self._causes) < MOST_CAUSES:
                self._causes[cause] = _Cause(self._clock() + SECOND_S)
        write("")

    def flush(self, *, is_last: bool = False) -> None:
        """Write the newest line of each cause whose second is over, with the number of lines.

        With `is_last`, of every cause: no later call is certain.
        """
        if not self._causes:
            return
        due: list[tuple[Write, int]] = []
        with self._lock:
            now = self._clock()
            for name, cause in list(self._causes.items()):
                if cause.until > now and not (is_last and cause.write is not None):
                    continue
                if cause.write is None:
                    del self._causes[name]
                    continue
                due.append((cause.write, cause.count))
                cause.until, cause.count, cause.write = now + SECOND_S, 0, None
        for write, count in due:
            write("" if count == 1 else f" ({count} times in {SECOND_S:g} s)")


class _Cause:
    """A cause whose last line was written less than a second ago."""

    __slots__ = ("count", "until", "write")

    def __init__(self, until: float) -> None:
        self.until = until
        self.count = 0
        """Lines left out since then."""
        self.write: Write | None = None
        """Writes the newest of the lines left out."""
