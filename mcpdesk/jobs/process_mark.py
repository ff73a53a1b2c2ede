"""Marks that tell processes apart: systems give numbers again, so a mark also has the time of the start."""

from __future__ import annotations

from functools import cache


@cache
def process_mark(pid: int) -> str:
    """The mark of a process that runs now; empty when there is none of that number."""
    return _mark(pid)


def is_running(mark: str) -> bool:
    """Whether the process of a mark runs still."""
    pid = mark.partition(" ")[0]
    return pid.isdigit() and _mark(int(pid)) == mark


def _mark(pid: int) -> str:
    import psutil

    try:
        return f"{pid} {psutil.Process(pid).create_time():.2f}"
    except psutil.Error:
        return ""
