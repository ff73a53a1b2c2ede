"""Moments and spans of time as people read them. Knows no widget and no clock."""

from __future__ import annotations

import time


def since(seconds: float) -> str:
    """`12 s`, `5 min`, `3 h 05`, `2 d 4 h`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60:02}"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def clock(moment: float) -> str:
    """Local time of day with milliseconds, `12:03:40.112`."""
    return time.strftime("%H:%M:%S", time.localtime(moment)) + f".{int(moment * 1000) % 1000:03}"
