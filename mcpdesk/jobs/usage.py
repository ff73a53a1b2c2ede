"""What groups of processes use of the machine, found in one look at all of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from mcpdesk.jobs.process_table import look


@dataclass(frozen=True, slots=True)
class Usage:
    """What a program and everything in its session have used and hold."""

    cpu_s: float
    """Seconds of processor time of those that live, and of those that ended and were collected by them."""
    memory: int
    """Bytes resident, shared ones counted for each."""
    processes: int


def usage_of(leaders: Collection[int]) -> dict[int, Usage]:
    """By the leader of each session. One without a living process is missing."""
    found: dict[int, Usage] = {}
    for row in look().values() if leaders else ():
        if row.session in leaders and not row.is_zombie:
            before = found.get(row.session, Usage(0.0, 0, 0))
            found[row.session] = Usage(
                before.cpu_s + row.cpu_s, before.memory + row.memory, before.processes + 1
            )
    return found
