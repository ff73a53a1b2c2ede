"""How often each tool was called, how that ended, and how long calls of a tool and of a peer took.

Labels are names of registered tools, and a bounded number of them: nothing a caller sends becomes one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from enum import IntEnum
from time import monotonic
from typing import Final

from mcpdesk.protocol.phases import DURATION_BOUNDS

MOST_TOOLS: Final = 1_000
"""Tools counted separately in one server; those of a folder that makes up more are counted together."""
OTHER: Final = "(other)"
KEPT = 64
"""Of one peer, the latest calls whose durations are kept: thousands of peers are to cost little."""


class OutcomeKind(IntEnum):
    """How a call of a tool ended."""

    OK = 0
    TOOL_ERROR = 1
    """The tool said that it failed, or returned what is no result."""
    CRASH = 2
    """Its handler raised something unexpected."""
    TIMEOUT = 3
    INVALID_ARGUMENTS = 4
    REFUSED = 5
    """It may not be called now: a policy, a plan, nobody approved of it, the server stops."""
    CANCELLED = 6


class ToolFigure:
    """The figures of one tool. Used on the core's loop."""

    __slots__ = ("counts", "outcomes", "total_s")

    def __init__(self) -> None:
        self.outcomes = [0] * len(OutcomeKind)
        self.counts = [0] * (len(DURATION_BOUNDS) + 1)
        """Calls whose handlers ran, by how long."""
        self.total_s = 0.0

    def count(self, outcome: OutcomeKind, began: float | None) -> None:
        """A call ended whose handler began at `began`, a time of the monotonic clock; None: it never ran."""
        self.outcomes[outcome] += 1
        if began is not None:
            took_s = monotonic() - began
            self.counts[bisect_left(DURATION_BOUNDS, took_s)] += 1
            self.total_s += took_s


class ToolFigures:
    """The figures of one server's tools."""

    def __init__(self) -> None:
        self._of: dict[str, ToolFigure] = {}

    def of(self, tool: str) -> ToolFigure:
        """The figures of a registered tool."""
        figure = self._of.get(tool)
        if figure is None:
            if len(self._of) >= MOST_TOOLS:
                tool = OTHER
            figure = self._of.setdefault(tool, ToolFigure())
        return figure

    def __iter__(self) -> Iterator[tuple[str, ToolFigure]]:
        return iter(self._of.items())


class Latency:
    """Seconds of the last `KEPT` calls, and of all together."""

    __slots__ = ("_latest", "count", "total_s")

    def __init__(self) -> None:
        self._latest = array("f")
        """Cut to those that count whenever there are twice as many."""
        self.count = 0
        """How many calls there were."""
        self.total_s = 0.0

    def __len__(self) -> int:
        return min(len(self._latest), KEPT)

    def __iter__(self) -> Iterator[float]:
        return iter(self._latest[-KEPT:].tolist())

    def add(self, seconds: float) -> None:
        """A call ended after `seconds`."""
        latest = self._latest
        latest.append(seconds)
        if len(latest) >= 2 * KEPT:
            del latest[:-KEPT]
        self.count += 1
        self.total_s += seconds

    def join(self, other: Latency) -> None:
        """Add the calls of another peer."""
        self._latest.extend(other._latest[-KEPT:])
        del self._latest[:-KEPT]
        self.count += other.count
        self.total_s += other.total_s

    def at(self, share: float) -> float | None:
        """What `share` of the calls did not exceed, in seconds; None before the first call."""
        return at(sorted(self), share)


def at(ordered: list[float], share: float) -> float | None:
    """What `share` of the seconds did not exceed; None where there are none."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None
