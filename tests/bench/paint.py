"""From process start to the screen with its content: the desk on the bundled sample and on a stdio server,
and a minimal window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from tests.bench.cold import until_listed
from tests.bench.contender import WINDOW
from tests.bench.figure import Effort, Figure, Goal
from tests.bench.folder import echo_folder
from tests.bench.process import MCPDESK
from tests.bench.screen import Screen

FRAME_GOAL = Goal(1.4, at_most=True)
CATALOGUE_GOAL = Goal(1.8, at_most=True)
STDIO_GOAL = Goal(2.5, at_most=True)
"""For the time without the start of the server itself."""
STARTS = 5
FRAME, CATALOGUE, ADDRESS = "1 Workbench", "brew-coffee", r"http://127\.0\.0\.1:\d+"
"""Texts the desk draws: its frame, the tools it hosts, and its address."""
STDIO_TOOL = "murmur"
"""Tool of the stdio server."""
TABLE = "row-20"


def figures(effort: Effort) -> Iterator[Figure]:
    """Milliseconds to the frame, to the catalogue, and to the address that can be called."""
    with TemporaryDirectory() as place, echo_folder(STDIO_TOOL) as folder:
        state = Path(place)
        paint = partial(_paint, state)
        server = [*MCPDESK, "stdio", str(folder), "--alone"]
        desk = [*MCPDESK, "--port", "0"]
        samples = effort.interleaved(
            {
                "frame": partial(paint, desk, FRAME),
                "catalogue": partial(paint, desk, CATALOGUE),
                "serving": partial(paint, desk, ADDRESS),
                "stdio": partial(paint, [*desk, "--", *server], STDIO_TOOL),
                "server": partial(_server_start, state, server),
                "window": partial(paint, WINDOW, TABLE),
            }
        )
    window = samples["window"]
    stdio = [total - own for total, own in zip(samples["stdio"], samples["server"], strict=True)]
    yield Figure("paint, frame", "ms", samples["frame"], "Textual window", window, FRAME_GOAL)
    yield Figure("paint, catalogue", "ms", samples["catalogue"], "Textual window", window, CATALOGUE_GOAL)
    yield Figure("paint, stdio server, less its start", "ms", stdio, "Textual window", window, STDIO_GOAL)
    yield Figure("paint, serving", "ms", samples["serving"], "Textual window", window)


def _paint(state: Path, command: Sequence[str], pattern: str) -> float:
    return median(_one_paint(state, command, pattern) for _ in range(STARTS))


def _server_start(state: Path, command: Sequence[str]) -> float:
    """Milliseconds from the start of a stdio server to its list of tools."""
    return median(until_listed(command, state) for _ in range(STARTS))


def _one_paint(state: Path, command: Sequence[str], pattern: str) -> float:
    """Milliseconds from the start until `pattern` is drawn."""
    with closing(Screen(command, state)) as screen:
        return 1000 * (screen.see(pattern) - screen.began)
