"""Durations, times, rates and counts in short form, for narrow columns."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence


def duration(seconds: float) -> str:
    """Format a duration: `850 µs`, `3.1 ms`, `42 ms`, `1.2 s`, `2:05 min`, `3:07 h`."""
    if seconds < 0.0009995:
        return f"{max(0, round(seconds * 1e6))} µs"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.1f} ms" if seconds < 0.00995 else f"{seconds * 1e3:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    total_s = round(seconds)
    if total_s < 3600:
        return f"{total_s // 60}:{total_s % 60:02} min"
    return f"{total_s // 3600}:{total_s % 3600 // 60:02} h"


def countdown(seconds: float) -> str:
    """Format the remaining time: `0:42`, `59:59`, `1:05:00`, or `now` if no time is left."""
    total_s = math.ceil(seconds)
    if total_s <= 0:
        return "now"
    hours, minutes = divmod(total_s // 60, 60)
    return f"{hours}:{minutes:02}:{total_s % 60:02}" if hours else f"{minutes}:{total_s % 60:02}"


def since(seconds: float) -> str:
    """Format an age: `12 s`, `5 min`, `3 h 05`, `2 d 4 h`."""
    total_s = max(0, int(seconds))
    if total_s < 60:
        return f"{total_s} s"
    if total_s < 3600:
        return f"{total_s // 60} min"
    if total_s < 86_400:
        return f"{total_s // 3600} h {total_s % 3600 // 60:02}"
    return f"{total_s // 86_400} d {total_s % 86_400 // 3600} h"


def seconds_until_since_changes(seconds: float) -> float:
    """Return the seconds until `since` returns another text."""
    total_s = max(0.0, seconds)
    step = 1 if total_s < 60 else 60 if total_s < 86_400 else 3600
    return step - total_s % step


def clock(moment: float) -> str:
    """Return the local time of day with milliseconds, `12:03:40.112`. `moment` is Unix time in seconds."""
    return time.strftime("%H:%M:%S", time.localtime(moment)) + f".{int(moment * 1000) % 1000:03}"


BARS = " ▁▂▃▄▅▆▇█"
"""Character for each height of a bar, from 0 to 8 eighths of a line."""


def sparkline(values: Sequence[float], ceiling: float = 0.0) -> str:
    """Draw one bar per value, scaled to the largest value or to `ceiling`. Values above zero show at least
    `▁`.
    """
    largest_value = max(*values, ceiling, 1e-9) if values else 1.0
    return "".join(BARS[0 if value <= 0 else max(1, round(value / largest_value * 8))] for value in values)


def chart(values: Sequence[float], width: int, height: int) -> list[str]:
    """Draw bars in `width` cells and `height` lines, from the top down. Values above zero show at least `▁`.

    If there are more values than cells, a bar shows the largest of its values.
    """
    edges = [(len(values) * cell // width, len(values) * (cell + 1) // width) for cell in range(width)]
    bar_values = [max(values[start : max(stop, start + 1)], default=0.0) for start, stop in edges]
    largest_value = max(bar_values, default=0.0) or 1.0
    bar_eighths = [
        0 if value <= 0 else max(1, round(value / largest_value * 8 * height)) for value in bar_values
    ]
    return [
        "".join(BARS[max(0, min(8, eighths - 8 * line))] for eighths in bar_eighths)
        for line in reversed(range(height))
    ]


def counted(count: int, noun: str) -> str:
    """Format a count with a noun: `1 call`, `12,000 calls`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def rate(per_second: float) -> str:
    """Format a rate: `14/s`, `0.4/s`, `12k/s`."""
    if per_second >= 10_000:
        return f"{per_second / 1000:.0f}k/s"
    return f"{per_second:.0f}/s" if per_second >= 1 or per_second <= 0 else f"{per_second:.1f}/s"
