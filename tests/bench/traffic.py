"""The traffic screen of a desk that has captured 100,000 frames, and the memory they take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import psutil

from tests.bench.figure import Effort, Figure, Goal
from tests.bench.folder import echo_folder
from tests.bench.load import Job
from tests.bench.process import MCPDESK, free_port, main_thread_cpu_s
from tests.bench.screen import Screen

FRAMES = 100_000
FEW = 5
"""Calls of the tools that are called first and last; they mark the ends of the list."""
ALL = r"5\d,\d\d\d exchanges  "
QUICK = Goal(200.0, at_most=True)
CHEAP = Goal(50.0, at_most=True)
SMALL = Goal(120.0, at_most=True)
SETTLE_S = 1.5


def figures(effort: Effort) -> Iterator[Figure]:
    """Milliseconds from the key to the drawing; MiB of memory. Every round fills a new desk."""
    rounds = [_measured() for _ in range(effort.rounds)]
    for name in ("open at once", "open", "jump to start", "jump to end", "filter"):
        yield Figure(f"traffic {FRAMES:,}, {name}", "ms", [one[name] for one in rounds], goal=QUICK)
    name = "all lines, opened at once"
    yield Figure(f"traffic {FRAMES:,}, {name}", "ms", [one[name] for one in rounds])
    yield Figure(f"traffic {FRAMES:,}, filter, CPU", "ms", [one["drawing"] for one in rounds], goal=CHEAP)
    yield Figure(f"traffic {FRAMES:,}, memory", "MiB", [one["memory"] for one in rounds], goal=SMALL)


def _measured() -> dict[str, float]:
    port = free_port()
    with (
        echo_folder("early", "echo", "final") as folder,
        closing(Screen([*MCPDESK, str(folder), "--port", str(port)], folder.parent)) as screen,
    ):
        screen.see(rf"http://127\.0\.0\.1:{port}")
        time.sleep(SETTLE_S)
        before = _resident(screen.pid)
        _fill(port)
        looks = {"open at once": screen.press("2", rf"exchanges · reading|{ALL}")}
        looks["all lines, opened at once"] = looks["open at once"] + screen.press("", ALL)
        screen.press("1", "Arguments")
        time.sleep(SETTLE_S)
        looks |= _looks(screen)
        return {**looks, "memory": _resident(screen.pid) - before}


def _fill(port: int) -> None:
    """Call until all frames are captured."""
    for tool, calls in (("early", FEW), ("echo", FRAMES // 2 - 2 * FEW), ("final", FEW)):
        connections = 1 if calls == FEW else 32
        Job(port, "/mcp/echo", "stateless", 600, connections, calls=calls, ask=tool).run()


def _looks(screen: Screen) -> dict[str, float]:
    """Open the screen, go to both ends, filter; `drawing` is the CPU time of the last step."""
    looks = {
        "open": screen.press("2", ALL),
        "jump to start": screen.press("g", "early"),
        "jump to end": screen.press("G", "final"),
    }
    screen.press("/", "filter: words")
    used = main_thread_cpu_s(screen.pid)
    looks["filter"] = screen.press("tool:early", rf"{FEW} of {ALL}")
    return {**looks, "drawing": 1000 * (main_thread_cpu_s(screen.pid) - used)}


def _resident(pid: int) -> float:
    size: int = psutil.Process(pid).memory_info().rss
    return size / (1 << 20)
