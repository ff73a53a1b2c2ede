"""An idle desk: the CPU it takes, and the memory of it and its children."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.figure import Effort, Figure, Goal
from tests.bench.process import MCPDESK, cpu_s, memory_mib
from tests.bench.screen import Screen

CPU = Goal(0.5, at_most=True)
MEMORY = Goal(64, at_most=True)
SETTLE_S = 2.0
AT_LEAST_S = 5.0
"""Seconds of rest: CPU time is counted in hundredths of a second."""


def figures(effort: Effort) -> Iterator[Figure]:
    """Percent of a core; MiB."""
    rounds = [_measured(max(AT_LEAST_S, effort.seconds)) for _ in range(effort.rounds)]
    yield Figure("desk at rest, CPU", "%", [cpu for cpu, _ in rounds], goal=CPU)
    yield Figure("desk at rest, memory", "MiB", [memory for _, memory in rounds], goal=MEMORY)


def _measured(seconds: float) -> tuple[float, float]:
    with (
        TemporaryDirectory() as place,
        closing(Screen([*MCPDESK, "--port", "0"], Path(place))) as screen,
    ):
        screen.see(r"http://127\.0\.0\.1:\d+")
        time.sleep(SETTLE_S)
        began, used = time.perf_counter(), cpu_s(screen.pid)
        time.sleep(seconds)
        share = 100 * (cpu_s(screen.pid) - used) / (time.perf_counter() - began)
        return share, memory_mib(screen.pid)
