"""Counts, outcomes and durations of calls, by tool and by peer.

Labels are names of registered tools, and their number is limited. A text that a caller sends never becomes a
label.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from enum import IntEnum
from time import monotonic
from typing import Final

from mcpdesk.protocol.phases import DURATION_BOUNDS

MAX_TOOLS: Final = 1_000
"""Maximum number of tools with separate counts for each server. All other tools share one count."""
OTHER: Final = "(other)"
RECENT_DURATIONS = 64
"""Number of recent durations that are stored for each peer. There may be thousands of peers."""


class OutcomeKind(IntEnum):
    """Outcome of a tool call."""

    OK = 0
    TOOL_ERROR = 1
    """The tool reported a failure, or returned an invalid result."""
    CRASH = 2
    """The handler raised an unexpected exception."""
    TIMEOUT = 3
    INVALID_ARGUMENTS = 4
    REFUSED = 5
    """The call may not run now. The reason is a policy, plan mode, a missing approval or a server stop."""
    CANCELLED = 6


class ToolFigure:
    """Counts of one tool. Use it on the core's loop."""

    __slots__ = ("counts", "outcomes", "total_s")

    def __init__(self) -> None:
        self.outcomes = [0] * len(OutcomeKind)
        self.counts = [0] * (len(DURATION_BOUNDS) + 1)
        """Number of calls whose handler ran, by duration bucket."""
        self.total_s = 0.0

    def count(self, outcome: OutcomeKind, began: float | None) -> None:
        """Count a finished call.

        `began` is the monotonic time when its handler started, or None if the handler did not start.
        """
        self.outcomes[outcome] += 1
        if began is not None:
            duration_s = monotonic() - began
            self.counts[bisect_left(DURATION_BOUNDS, duration_s)] += 1
            self.total_s += duration_s


class ToolFigures:
    """Figures of one server's tools."""

    def __init__(self) -> None:
        self._by_tool: dict[str, ToolFigure] = {}

    def of(self, tool: str) -> ToolFigure:
        """Return the figures of a registered tool."""
        figure = self._by_tool.get(tool)
        if figure is None:
            if len(self._by_tool) >= MAX_TOOLS:
                tool = OTHER
            figure = self._by_tool.setdefault(tool, ToolFigure())
        return figure

    def __iter__(self) -> Iterator[tuple[str, ToolFigure]]:
        return iter(self._by_tool.items())


class Latency:
    """Durations in seconds of the last `RECENT_DURATIONS` calls, and the total of all."""

    __slots__ = ("_latest", "count", "total_s")

    def __init__(self) -> None:
        self._latest = array("f")
        """Recent durations. When there are twice as many as `RECENT_DURATIONS`, the older half is dropped."""
        self.count = 0
        """Number of calls."""
        self.total_s = 0.0

    def __len__(self) -> int:
        return min(len(self._latest), RECENT_DURATIONS)

    def __iter__(self) -> Iterator[float]:
        return iter(self._latest[-RECENT_DURATIONS:].tolist())

    def add(self, seconds: float) -> None:
        """Add the duration of a finished call."""
        latest = self._latest
        latest.append(seconds)
        if len(latest) >= 2 * RECENT_DURATIONS:
            del latest[:-RECENT_DURATIONS]
        self.count += 1
        self.total_s += seconds

    def add_calls_of(self, other: Latency) -> None:
        """Add the calls of another peer."""
        self._latest.extend(other._latest[-RECENT_DURATIONS:])
        del self._latest[:-RECENT_DURATIONS]
        self.count += other.count
        self.total_s += other.total_s

    def quantile(self, share: float) -> float | None:
        """Return the quantile `share` in seconds, or None before the first call."""
        return quantile(sorted(self), share)


def quantile(sorted_s: list[float], share: float) -> float | None:
    """Return the quantile `share` of sorted seconds, or None if the list is empty."""
    return sorted_s[min(len(sorted_s) - 1, int(share * len(sorted_s)))] if sorted_s else None
