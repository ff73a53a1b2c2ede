"""A capture of a million frames under `mcpdesk open`: the waits of a person, and the memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import psutil

from mcpdesk.recorder.capture.capture_lines import connection_line, frame_lines, header_line
from mcpdesk.recorder.record import ConnectionInfo, Direction, Frame
from tests.bench.figure import Effort, Figure, Goal
from tests.bench.process import MCPDESK
from tests.bench.screen import Screen

FRAMES = 1_000_000
CLIENTS = 8
BEGAN = 1_764_000_000.0
LOOKS = 6
PIECE = 10_000
"""Frames that are generated at a time."""
SECOND = Goal(1_000.0, at_most=True)
QUICK = Goal(300.0, at_most=True)
SMALL = Goal(200.0, at_most=True)
AT_ONCE = Goal(50.0, at_most=True)


def write_capture(path: Path, frames: int = FRAMES) -> None:
    """Calls of three tools by several clients at a time, all answered; the last one is of `final`."""
    with path.open("wb") as file:
        file.write(header_line(1, 0, BEGAN))
        for client in range(1, CLIENTS + 1):
            info = ConnectionInfo(client, "bench", "stdio", f"client-{client}", "2025-11-25", BEGAN)
            file.write(connection_line(info))
        for start in range(0, frames, PIECE):
            some = [_frame(number, frames) for number in range(start, min(start + PIECE, frames))]
            file.write(frame_lines(some, ()) or b"")


def _frame(number: int, frames: int) -> Frame:
    """Frames in turns: each client sends a request, then each gets its answer."""
    turn, place = divmod(number, 2 * CLIENTS)
    client = place % CLIENTS + 1
    if place < CLIENTS:
        tool = "final" if number + 2 * CLIENTS >= frames else ("search", "read", "echo")[turn % 3]
        arguments = b'"path":"docs/%d.md","limit":20' % number
        data = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%b","arguments":{%b}}}' % (
            turn,
            tool.encode(),
            arguments,
        )
    else:
        said = b"%d lines, the first of them about nothing in particular" % number
        data = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"%b"}]}}' % (turn, said)
    way = Direction.IN if place < CLIENTS else Direction.OUT
    return Frame(number, BEGAN + number / 1000, client, way, data, len(data))


def figures(effort: Effort) -> Iterator[Figure]:
    """Milliseconds to the drawing; MiB of the whole program."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "million.jsonl")
        write_capture(path)
        small = Path(folder, "small.jsonl")
        write_capture(small, 2 * CLIENTS)
        rounds = [_measured(path, small) for _ in range(effort.rounds)]
    goals = {
        "painted after a small capture": QUICK,
        "jump to start": QUICK,
        "jump to end": QUICK,
        "sort, first lines": QUICK,
        "sort, all lines": SECOND,
        "word": SECOND,
        "memory": SMALL,
    }
    goals["waterfall"] = goals["next in the waterfall"] = AT_ONCE
    for name in rounds[0]:
        unit = "MiB" if name == "memory" else "ms"
        yield Figure(f"{FRAMES:,} frames, {name}", unit, [one[name] for one in rounds], goal=goals.get(name))


def _paired(screen: Screen) -> float:
    """Wait until all exchanges are paired, which takes longer than `see` waits."""
    for _ in range(LOOKS):
        with suppress(RuntimeError):
            return screen.see(rf"{FRAMES // 2:,} exchanges  ")
    raise RuntimeError(f"not all frames were paired in {LOOKS} looks")


def _painted(path: Path) -> float:
    """Milliseconds from the command to the first lines of a capture."""
    with closing(Screen([*MCPDESK, "open", str(path)], path.parent)) as screen:
        return 1000 * (screen.see("tools/call") - screen.began)


def _measured(path: Path, small: Path) -> dict[str, float]:
    start = _painted(small)
    with closing(Screen([*MCPDESK, "open", str(path)], path.parent)) as screen:
        painted = screen.see("tools/call")
        whole = _paired(screen)
        time.sleep(1)
        looks = {"painted": 1000 * (painted - screen.began)}
        looks["painted after a small capture"] = looks["painted"] - start
        looks |= {"all paired": 1000 * (whole - screen.began)}
        looks["jump to start"] = screen.press("g", r":00\.000 client-1")
        looks["jump to end"] = screen.press("G", "final")
        looks["waterfall"] = screen.press("w", "▬ server")
        looks["next in the waterfall"] = median(screen.press("k", "▬") for _ in range(LOOKS))
        screen.press("w", "final")
        for title in ("peer↑", "message↑", "id↑", "status↑"):
            screen.press(">", title)
        looks["sort, first lines"] = screen.press(">", "took↓")
        looks["sort, all lines"] = looks["sort, first lines"] + screen.press("", "sorted by took")
        screen.press("f", "final")
        screen.press("/", "filter: words")
        looks["word"] = screen.press("docs/999984", rf"  ?1 of {FRAMES // 2:,} exchanges  ")
        memory = psutil.Process(screen.pid).memory_info().rss / (1 << 20)
        return {**looks, "memory": memory}
