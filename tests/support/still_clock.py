"""A stopped clock, for screens that show times and ages."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

MOMENT = 1_764_000_000.0
"""Unix time of the clock: 24 November 2025, 16:00 UTC."""
_true_time = time.time


class _Clock:
    """Replacement of `time.time`.

    A module that is imported while the clock is stopped may keep this object, so it returns the true time
    again afterwards.
    """

    is_still = False

    def __call__(self) -> float:
        return MOMENT if self.is_still else _true_time()


_CLOCK = _Clock()


@contextmanager
def still_clock() -> Iterator[None]:
    """Stop the wall clock of the program, and show times as UTC, within the block. Durations still pass."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", _CLOCK)
        for name, module in list(sys.modules.items()):
            if name.startswith("mcpdesk.") and getattr(module, "time", None) is _true_time:
                patch.setattr(module, "time", _CLOCK)
        patch.setenv("TZ", "UTC")
        _read_zone()
        _CLOCK.is_still = True
        try:
            yield
        finally:
            _CLOCK.is_still = False
    _read_zone()


def _read_zone() -> None:
    if sys.platform != "win32":
        time.tzset()
