"""Waterfall: one bar of phases for each exchange, on a time axis that all visible lines share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import time

from mcpdesk.recorder.index.exchange import Exchange
from mcpdesk.recorder.index.phase_spans import PhaseKind, PhaseSpan, phase_spans
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.tui.render.amounts import clock, duration

_PHASE_LOOKS: dict[PhaseKind, tuple[str, str, str]] = {
    PhaseKind.QUEUE: ("·", "traffic--muted", "queue"),
    PhaseKind.HANDLER: ("█", "traffic--in", "handler"),
    PhaseKind.CLIENT: ("░", "traffic--out", "client"),
    PhaseKind.PERSON: ("▒", "traffic--mark", "person"),
    PhaseKind.SHAPING: ("▓", "traffic--peer", "shaping"),
    PhaseKind.WRITE: ("▪", "traffic--good", "write"),
    PhaseKind.HELD: ("┄", "traffic--mark", "held"),
    PhaseKind.SERVER: ("▬", "traffic--in", "server"),
}
"""Glyph, component class and short name of each phase. Phases are never distinguished by colour alone."""
_LEGEND_COLOURS = {
    "traffic--muted": "$text-muted",
    "traffic--in": "$text-primary",
    "traffic--out": "$text-accent",
    "traffic--mark": "$text-warning",
    "traffic--peer": "$text-secondary",
    "traffic--good": "$text-success",
}
"""Component class -> colour of a glyph in the legend."""
ZOOM_FACTOR = 4
"""One step of the zoom divides the length of the axis by this factor."""
MAX_ZOOM_STEPS = 12
_SHARE_BEFORE_SELECTED = 0.08
"""Share of a zoomed axis before the selected exchange."""
_MIN_AXIS_S = 1e-5
"""Minimum length of the axis in seconds."""


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Time axis of the bars of all lines."""

    start: float
    """Unix time in seconds."""
    seconds: float
    """Length of the axis."""


class Waterfall:
    """Bars of one list: visibility, zoom, and position of the axis."""

    def __init__(self, index: Index) -> None:
        self.is_on = False
        """True if the list shows bars instead of columns."""
        self.zoom = 0
        """Number of zoom steps, from 0 to `MAX_ZOOM_STEPS`."""
        self._index = index
        self._axis = TimeAxis(0.0, 1.0)

    def set_axis(self, lines: Iterable[int], selected: int | None) -> None:
        """Set the axis to the visible exchanges.

        A zoomed axis begins a little before the selected exchange.
        """
        now = time()
        exchanges = [exchange for exchange in map(self._index.exchange, lines) if exchange.started]
        start = min((exchange.started for exchange in exchanges), default=now)
        end = max((exchange.started + exchange.elapsed(now) for exchange in exchanges), default=now)
        total_s = max(end - start, _MIN_AXIS_S)
        seconds = max(total_s / ZOOM_FACTOR**self.zoom, _MIN_AXIS_S)
        if self.zoom and selected is not None:
            selected_start = self._index.exchange(selected).started
            zoomed_start = selected_start - seconds * _SHARE_BEFORE_SELECTED
            start = min(max(start, zoomed_start), end - seconds)
        self._axis = TimeAxis(start, seconds)

    def head(self, width: int) -> str:
        """Return the title of the bars: the start time of the axis, and the seconds to its middle and end."""
        start_text, end_text = clock(self._axis.start), f"+{duration(self._axis.seconds)}"
        middle_text = f"+{duration(self._axis.seconds / 2)}"
        if width < len(start_text) + len(middle_text) + len(end_text) + 6:
            return end_text.rjust(width)
        left_text = start_text.ljust(width // 2) + middle_text
        return left_text + end_text.rjust(width - len(left_text))

    def bar(self, exchange: Exchange, width: int) -> list[tuple[str, str]]:
        """Return the bar of an exchange in at most `width` cells, as texts and component classes.

        An arrow marks a bar outside the axis.
        """
        axis, now = self._axis, time()
        seconds_per_cell = axis.seconds / width
        start_position = (exchange.started - axis.start) / seconds_per_cell
        end_position = start_position + max(0.0, exchange.elapsed(now)) / seconds_per_cell
        if end_position < 0 or start_position >= width:
            mark = "‹" if end_position < 0 else "›".rjust(width)
            return [(mark, "traffic--muted")]
        spans = phase_spans(self._index, exchange, now)
        if not spans:
            return [(" " * min(int(start_position), width - 1) + "╷", "traffic--muted")]
        first_cell = max(0, min(int(start_position), width - 1))
        cells = [(" " * first_cell, "")]
        stop_cell = max(first_cell + 1, min(width, round(end_position)))
        for kind, length in _runs(spans, start_position, seconds_per_cell, first_cell, stop_cell):
            glyph, style, _ = _PHASE_LOOKS[kind]
            cells.append((glyph * length, style))
        return cells


def _runs(
    spans: Sequence[PhaseSpan],
    start_position: float,
    seconds_per_cell: float,
    first_cell: int,
    stop_cell: int,
) -> list[tuple[PhaseKind, int]]:
    """Return the phases of the cells from `first_cell` to before `stop_cell`.

    Adjacent cells of the same phase are combined into a run: phase and number of cells. The phase of a cell
    is the one that fills most of it. `start_position` is the start of the first span in cells, and may be
    negative.
    """
    runs = list[tuple[PhaseKind, int]]()
    span_bounds = list[tuple[float, float, PhaseKind]]()
    span_start = start_position
    for span in spans:
        span_end = span_start + span.seconds / seconds_per_cell
        span_bounds.append((span_start, span_end, span.kind))
        span_start = span_end
    longest_kind = max(spans, key=lambda span: span.seconds).kind
    if stop_cell - first_cell == 1:
        return [(longest_kind, 1)]
    span_index = 0
    for cell in range(first_cell, stop_cell):
        while span_index < len(span_bounds) - 1 and span_bounds[span_index][1] <= cell:
            span_index += 1
        largest_share, kind = -1.0, longest_kind
        for next_index in range(span_index, len(span_bounds)):
            next_start, next_end, next_kind = span_bounds[next_index]
            if next_start >= cell + 1:
                break
            share = min(next_end, cell + 1) - max(next_start, cell)
            if share > largest_share:
                largest_share, kind = share, next_kind
        if runs and runs[-1][0] is kind:
            runs[-1] = (kind, runs[-1][1] + 1)
        else:
            runs.append((kind, 1))
    return runs


def legend() -> list[tuple[str, str]]:
    """Return the legend of the bars, as texts and colours."""
    cells = list[tuple[str, str]]()
    for glyph, style, name in _PHASE_LOOKS.values():
        cells += [(glyph, _LEGEND_COLOURS[style]), (f" {name}  ", _LEGEND_COLOURS["traffic--muted"])]
    return cells


def phases_in_words(index: Index, exchange: Exchange, now: float) -> list[str]:
    """Return the phases of an exchange, such as `█ handler 50 ms` and `▪ write 80 µs`.

    Return an empty list if only the total time of the server is known.
    """
    totals: dict[PhaseKind, float] = {}
    for span in phase_spans(index, exchange, now):
        totals[span.kind] = totals.get(span.kind, 0.0) + span.seconds
    if totals.keys() <= {PhaseKind.SERVER}:
        return []
    return [f"{_PHASE_LOOKS[kind][0]} {kind.value} {duration(seconds)}" for kind, seconds in totals.items()]
