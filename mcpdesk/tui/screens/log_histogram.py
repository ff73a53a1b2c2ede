"""Histogram of log entries over time on one line. Each bar has the colour of its most severe level."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from mcpdesk.link.values import LogLine
from mcpdesk.tui.render.amounts import BARS, clock, duration

CLOCK_CELLS = 10
"""Width in cells of the time at each end."""
NOTE_CELLS = 18
"""Width in cells of the note about the time span of a bar."""
_COLOURS = ("$text-muted", "$text-warning", "$text-error")
"""Colour of a bar, by its severity."""


@dataclass(frozen=True, slots=True)
class Bar:
    """Counts of the log entries in one time span."""

    count: int = 0
    severity: int = 0
    """Highest severity of these entries: 0 for information, 1 for a warning, 2 for an error."""


def bars_of(lines: Sequence[LogLine], severities: dict[str, int], cells: int) -> list[Bar]:
    """Divide the time between the first and the last line into `cells` spans, and return a bar for each span.

    `lines` are sorted by time, the oldest first. `severities` maps a level to its severity, as in
    `Bar.severity`. Other levels have severity 0.
    """
    if not lines or cells < 1:
        return []
    first, last = lines[0].time, lines[-1].time
    scale = cells / max(last - first, 1e-3)
    counts, bar_severities = [0] * cells, [0] * cells
    for line in lines:
        index = min(max(int((line.time - first) * scale), 0), cells - 1)
        counts[index] += 1
        bar_severities[index] = max(bar_severities[index], severities.get(line.level, 0))
    return [Bar(*values) for values in zip(counts, bar_severities, strict=True)]


class LogHistogram(Widget):
    """Bars of the shown entries. A click selects that time."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    LogHistogram { height: 1; color: $text-muted; }
    LogHistogram.-empty { display: none; }
    """
    severities: ClassVar[dict[str, int]] = {
        "warning": 1, **dict.fromkeys(("error", "critical", "alert", "emergency"), 2)
    }  # fmt: skip

    @dataclass
    class Picked(Message):
        """The person clicked on a time, in Unix seconds."""

        moment: float

    def __init__(self) -> None:
        super().__init__()
        self._lines: Sequence[LogLine] = ()
        self._selected_time: float | None = None

    def show(self, lines: Sequence[LogLine], selected_time: float | None) -> None:
        """Show these entries, the oldest first. `selected_time` is the time of the selected entry."""
        self._lines, self._selected_time = lines, selected_time
        self.set_class(len(lines) < 2, "-empty")
        self.refresh()

    @property
    def _bar_count(self) -> int:
        """Number of bars, each one cell wide, that fit between the times at both ends and the note."""
        return max(0, self.size.width - 2 * CLOCK_CELLS - NOTE_CELLS)

    def render(self) -> Content:
        """Draw the time of the first entry, bars, the time of the last entry, and the time span of a bar."""
        lines, bar_count = self._lines, self._bar_count
        if len(lines) < 2 or not bar_count:
            return Content("")
        bars = bars_of(lines, self.severities, bar_count)
        max_count = max(bar.count for bar in bars)
        selected_bar = None if self._selected_time is None else self._bar_index(self._selected_time)
        drawn_bars: list[tuple[str, str]] = []
        for index, bar in enumerate(bars):
            glyph = BARS[0 if not bar.count else max(1, round(bar.count / max_count * 8))]
            reverse_style = " reverse" if index == selected_bar else ""
            drawn_bars.append((glyph, f"{_COLOURS[bar.severity]}{reverse_style}"))
        first, last = lines[0].time, lines[-1].time
        note = f"{duration((last - first) / bar_count)} a bar"
        return Content.assemble(f" {clock(first)[:8]} ", *drawn_bars, f" {clock(last)[:8]} · {note}")

    def _bar_index(self, moment: float) -> int:
        """Return the index of the bar that contains a time."""
        first, last = self._lines[0].time, self._lines[-1].time
        index = int((moment - first) * self._bar_count / max(last - first, 1e-3))
        return min(max(index, 0), self._bar_count - 1)

    def on_click(self, event: events.Click) -> None:
        """Post `Picked` with the first time of the clicked bar."""
        index, bar_count = event.x - CLOCK_CELLS, self._bar_count
        if len(self._lines) > 1 and 0 <= index < bar_count:
            event.stop()
            first, last = self._lines[0].time, self._lines[-1].time
            self.post_message(self.Picked(first + (last - first) * index / bar_count))


def row_at(rows: Sequence[LogLine], moment: float) -> int:
    """Return the row of the first entry at or after a time.

    If all entries are earlier, return the last row.
    """
    return min(bisect_left(rows, moment, key=lambda row: row.time), max(0, len(rows) - 1))
