"""State of processes that tests started."""

from __future__ import annotations

import time
from collections.abc import Sequence

import psutil

from tests.support.patience import WITHIN_S


def is_alive(process: psutil.Process) -> bool:
    """True if it still runs; a zombie does not, and may be reaped during the check."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def gone(processes: Sequence[psutil.Process]) -> bool:
    """Wait for a limited time until every process has ended: a killed one stays visible for a moment."""
    deadline = time.monotonic() + WITHIN_S
    while alive := [process for process in processes if is_alive(process)]:
        if time.monotonic() > deadline:
            return False
        psutil.wait_procs(alive, timeout=0.01)
    return True
