"""What groups of processes use of the machine, found in one look at all of them."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class Usage:
    """What a program and everything in its session have used and hold."""

    cpu_s: float
    """Seconds of processor time of those that live."""
    memory: int
    """Bytes resident, shared ones counted for each."""
    processes: int


def usage_of(leaders: Collection[int]) -> dict[int, Usage]:
    """By the leader of each session. One without a living process is missing."""
    found: dict[int, Usage] = {}
    if not leaders:
        return found
    for pid in psutil.pids():
        try:
            leader = os.getsid(pid)
            if leader not in leaders:
                continue
            process = psutil.Process(pid)
            with process.oneshot():
                times, memory = process.cpu_times(), process.memory_info().rss
        except (psutil.Error, OSError):
            continue
        before = found.get(leader, Usage(0.0, 0, 0))
        found[leader] = Usage(
            before.cpu_s + times.user + times.system, before.memory + memory, before.processes + 1
        )
    return found
