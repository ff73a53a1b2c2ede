"""What became of processes that tests saw begin."""

from __future__ import annotations

import psutil


def is_alive(process: psutil.Process) -> bool:
    """Whether it still runs; who waits to be collected does not, and may be collected as we look."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
