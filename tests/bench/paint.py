"""From process start to the screen with its content: the desk on the bundled sample, and a minimal window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from tests.bench.contender import WINDOW
from tests.bench.figure import Effort, Figure, Goal
from tests.bench.process import MCPDESK
from tests.bench.screen import Screen

GOAL = Goal(1.4, at_most=True)
STARTS = 5
FRAME, CATALOGUE, ADDRESS = "1 Workbench", "brew-coffee", r"http://127\.0\.0\.1:\d+"
"""Texts the desk draws: its frame, the tools it hosts, and its address."""
TABLE = "row-20"


def figures(effort: Effort) -> Iterator[Figure]:
    """Milliseconds to the frame, to the catalogue, and to the address that can be called."""
    with TemporaryDirectory() as place:
        paint = partial(_paint, Path(place))
        desk = [*MCPDESK, "--port", "0"]
        samples = effort.interleaved(
            {
                "frame": partial(paint, desk, FRAME),
                "catalogue": partial(paint, desk, CATALOGUE),
                "serving": partial(paint, desk, ADDRESS),
                "window": partial(paint, WINDOW, TABLE),
            }
        )
    window = samples["window"]
    yield Figure("paint, frame", "ms", samples["frame"], "Textual window", window, GOAL)
    yield Figure("paint, catalogue", "ms", samples["catalogue"], "Textual window", window, GOAL)
    yield Figure("paint, serving", "ms", samples["serving"], "Textual window", window)


def _paint(state: Path, command: Sequence[str], pattern: str) -> float:
    return median(_one_paint(state, command, pattern) for _ in range(STARTS))


def _one_paint(state: Path, command: Sequence[str], pattern: str) -> float:
    """Milliseconds from the start until `pattern` is drawn."""
    with closing(Screen(command, state)) as screen:
        return 1000 * (screen.see(pattern) - screen.began)
