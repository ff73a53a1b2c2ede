"""An upstream with 300 tools and results of 5 MB: how soon a key is drawn while they arrive."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import median

from tests.bench.desk import ESCAPE, LETTERS, SETTLE_S, TO_KEY
from tests.bench.figure import Effort, Figure, Goal
from tests.bench.large_server import PROGRAM
from tests.bench.process import MCPDESK
from tests.bench.screen import Screen

SHOWN = Goal(2_000.0, at_most=True)
FILTER, CALL = "/", "\x12"
MOVES = 24
"""Keys down in the list of tools."""


def figures(effort: Effort) -> Iterator[Figure]:
    """Milliseconds from a key to its drawing: median and worst."""
    with tempfile.TemporaryDirectory() as state, closing(_desk(Path(state))) as screen:
        moved = [_moves(screen) for _ in range(effort.rounds)]
        yield Figure("300 tools, key down", "ms", [median(each) for each in moved], goal=TO_KEY)
        yield Figure("300 tools, key down, worst", "ms", [max(each) for each in moved])
        typed = [_letters(screen) for _ in range(effort.rounds)]
        yield Figure("300 tools, letter of a filter", "ms", [median(each) for each in typed], goal=TO_KEY)
        yield Figure("300 tools, letter of a filter, worst", "ms", [max(each) for each in typed])
        for tool in ("a-lines", "a-line", "a-rows"):
            rounds = [_called(screen, tool) for _ in range(effort.rounds)]
            shown, stalls = ([each[at] for each in rounds] for at in (0, 1))
            yield Figure(f"{tool} of 5 MB, shown", "ms", shown, goal=SHOWN)
            yield Figure(f"{tool} of 5 MB, letter meanwhile, worst", "ms", stalls)


def _desk(state: Path) -> Screen:
    screen = Screen([*MCPDESK, "--port", "0", "--", sys.executable, PROGRAM], state)
    screen.see("way-0")
    time.sleep(2 * SETTLE_S)
    return screen


def _moves(screen: Screen) -> list[float]:
    """Move down the list of tools; each form is opened on the way."""
    screen.press(ESCAPE, "")
    return [_pressed(screen, "j", ".") for _ in range(MOVES)]


def _letters(screen: Screen) -> list[float]:
    screen.press(FILTER, "")
    time.sleep(SETTLE_S)
    taken = [_pressed(screen, letter, letter) for letter in LETTERS]
    screen.press(ESCAPE, "a-line")
    time.sleep(SETTLE_S)
    return taken


def _called(screen: Screen, tool: str) -> tuple[float, float]:
    """Time until a result is shown, and the slowest letter typed while another result arrives."""
    screen.press(FILTER, "")
    screen.press(tool, tool)
    time.sleep(SETTLE_S)
    screen.press("\r", "")
    time.sleep(2 * SETTLE_S)
    shown = screen.press(CALL, "MB")
    screen.press(FILTER, "")
    time.sleep(SETTLE_S)
    screen.press(CALL, "")
    letters = [_pressed(screen, letter, letter) for letter in LETTERS]
    screen.press(ESCAPE, "a-line")
    time.sleep(SETTLE_S)
    return shown, max(letters)


def _pressed(screen: Screen, key: str, pattern: str) -> float:
    time.sleep(random.uniform(0.03, 0.13))
    return screen.press(key, pattern)
