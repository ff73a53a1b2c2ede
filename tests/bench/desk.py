"""The desk on screen during calls: the delay of a key, and the remaining throughput."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

from tests.bench.figure import OURS, Effort, Figure, Goal, beside, values
from tests.bench.folder import echo_folder
from tests.bench.load import Job
from tests.bench.measured import Measured
from tests.bench.messages import STEPS
from tests.bench.process import MCPDESK, cpu_s, free_port, main_thread_cpu_s, serving
from tests.bench.screen import Screen

TO_KEY = Goal(50.0, at_most=True)
TO_SERVE = Goal(0.85)
PACED = Goal(3.0, at_most=True)
UNPACED = Goal(20.0, at_most=True)
CALM = 200.0
DRAWING = Goal(15.0, at_most=True)
MANY = 5_000.0
RATES = (500.0, 2_000.0)
STEPS_RATE = 500.0
"""Calls a second that report progress."""
LETTERS = "αβγδεζηθικλμνξοπρστυφχψω"
"""Typed one by one; the screen shows these letters nowhere else."""
SETTLE_S = 0.5
ESCAPE = "\x1b"


def figures(effort: Effort) -> Iterator[Figure]:
    """Delay of keys under a steady load, then the highest rate of calls."""
    with echo_folder() as folder, desk(folder) as (screen, port):
        for rate in RATES:
            with _load(Job(port, "/mcp/echo", "stateless", 3600, rate=rate)):
                typed, paused = zip(*(keys(screen) for _ in range(effort.rounds)), strict=True)
            yield Figure(f"key typed, {rate:,.0f} calls/s", "ms", typed, goal=TO_KEY)
            yield Figure(f"key p, {rate:,.0f} calls/s", "ms", paused, goal=TO_KEY)
        with _load(Job(port, "/mcp/echo", "stateless", 3600, rate=STEPS_RATE, ask="steps")):
            screen.press("2", "following")
            folded = [_paused(screen) for _ in range(effort.rounds)]
            screen.press("vw", "handler")
            bars = [_paused(screen) for _ in range(effort.rounds)]
        frames = STEPS_RATE * (STEPS + 2)
        yield Figure(f"key p, {frames:,.0f} frames/s, notifications folded", "ms", folded, goal=TO_KEY)
        yield Figure(f"key p, {frames:,.0f} frames/s, folded, waterfall", "ms", bars, goal=TO_KEY)
    with ExitStack() as stack:
        apart = stack.enter_context(serving(stack.enter_context(echo_folder())))
        screen, port = stack.enter_context(desk(stack.enter_context(echo_folder())))
        seen = Job(port, "/mcp/echo", "stateless", effort.seconds)
        alone = Job(apart.port, "/mcp/echo", "stateless", effort.seconds)
        yield from _throughput(effort, screen, seen, alone, "workbench")
        screen.press("2", "following")
        yield from _throughput(effort, screen, seen, alone, "traffic")
        paced = replace(seen, rate=CALM)
        slow = [paced.run().p99_ms for _ in range(effort.rounds)]
        yield Figure(f"http {CALM:.0f} calls/s beside traffic, p99", "ms", slow, goal=PACED)
        with _load(replace(seen, seconds=3600, rate=MANY, connections=128)):
            drawing = [_drawing(screen, effort.seconds) for _ in range(effort.rounds)]
        yield Figure(f"traffic at {2 * MANY:,.0f} frames/s, drawing", "%", drawing, goal=DRAWING)


def _drawing(screen: Screen, seconds: float) -> float:
    """Percent of a core the screen's thread takes."""
    began, used = time.perf_counter(), main_thread_cpu_s(screen.pid)
    time.sleep(seconds)
    return 100 * (main_thread_cpu_s(screen.pid) - used) / (time.perf_counter() - began)


def _throughput(effort: Effort, screen: Screen, seen: Job, alone: Job, name: str) -> Iterator[Figure]:
    """Calls a second beside the open pane, and of a core without a screen; the slowest, too."""

    shares = []

    def unseen() -> Measured:
        with screen.asleep():
            return alone.run()

    def watched() -> Measured:
        drawn, used = main_thread_cpu_s(screen.pid), cpu_s(screen.pid)
        measured = seen.run()
        shares.append(100 * (main_thread_cpu_s(screen.pid) - drawn) / (cpu_s(screen.pid) - used))
        return measured

    samples = effort.interleaved({OURS: watched, "serve": unseen})
    yield from beside(f"http c32 beside {name}", "/s", values("rate", samples), {"serve": TO_SERVE})
    yield Figure(f"http c32 beside {name}, drawing, of its CPU", "%", shares[1:], goal=DRAWING)
    yield Figure(f"http c32 beside {name}, p99", "ms", values("p99_ms", samples)[OURS], goal=UNPACED)


@contextmanager
def desk(folder: Path) -> Iterator[tuple[Screen, int]]:
    """Run the desk on a folder; yield its screen and its port."""
    port = free_port()
    with closing(Screen([*MCPDESK, str(folder), "--port", str(port)], folder.parent)) as screen:
        screen.see(rf"http://127\.0\.0\.1:{port}")
        time.sleep(SETTLE_S)
        yield screen, port


@contextmanager
def _load(job: Job) -> Iterator[None]:
    """Run a steady load during the block."""
    with job.start() as child:
        time.sleep(2 * SETTLE_S)
        try:
            yield
        finally:
            child.kill()


def keys(screen: Screen) -> tuple[float, float]:
    """Milliseconds of a letter in a filter, and of switching the list of messages between two states."""
    screen.press("/", "")
    time.sleep(SETTLE_S)
    typed = [_after_a_while(screen, letter, letter) for letter in LETTERS]
    screen.press(ESCAPE, "Arguments")
    screen.press("2", "following")
    paused = _paused(screen)
    screen.press("1", "Arguments")
    return median(typed), paused


def _paused(screen: Screen) -> float:
    """Milliseconds to switch the open list of messages between two states."""
    time.sleep(SETTLE_S)
    paused = []
    for _ in range(len(LETTERS) // 2):
        paused.append(_after_a_while(screen, "p", "paused"))
        paused.append(_after_a_while(screen, "p", "following"))
    return median(paused)


def _after_a_while(screen: Screen, key: str, pattern: str) -> float:
    """Press a key at a random moment between two updates of the screen."""
    time.sleep(random.uniform(0.03, 0.13))
    return screen.press(key, pattern)
