"""Durations as short as a column allows. Knows no widget."""

from __future__ import annotations

import math


def duration(seconds: float) -> str:
    """`850 µs`, `3.1 ms`, `42 ms`, `1.2 s`, `2:05 min`, `3:07 h`."""
    if seconds < 0.0009995:
        return f"{max(0, round(seconds * 1e6))} µs"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.1f} ms" if seconds < 0.00995 else f"{seconds * 1e3:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02} h"


def countdown(seconds: float) -> str:
    """What is left: `0:42`, `59:59`, `1:05:00`; `now` when nothing is."""
    whole = math.ceil(seconds)
    if whole <= 0:
        return "now"
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
