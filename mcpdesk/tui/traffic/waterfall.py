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
_COLOURS = {
    "traffic--muted": "$text-muted",
    "traffic--in": "$text-primary",
    "traffic--out": "$text-accent",
    "traffic--mark": "$text-warning",
    "traffic--peer": "$text-secondary",
    "traffic--good": "$text-success",
}
ZOOM_FACTOR = 4
"""Zoom factor of the axis per step."""
MAX_ZOOM_STEPS = 12
_SHARE_BEFORE_SELECTED = 0.08
"""Share of a zoomed axis before the selected exchange."""
_MIN_AXIS_S = 1e-5


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Time axis of the bars of all lines."""

    start: float
    """Unix time in seconds."""
    seconds: float


class Waterfall:
    """Bars of one list: visibility, zoom, and position of the axis."""

    def __init__(self, index: Index) -> None:
        self.is_on = False
        self.zoom = 0
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
            wanted_start = self._index.exchange(selected).started - seconds * _SHARE_BEFORE_SELECTED
            start = min(max(start, wanted_start), end - seconds)
        self._axis = TimeAxis(start, seconds)

    def head(self, width: int) -> str:
        """Return the start time of the axis, and the time at its middle and end relative to it."""
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
        per_cell = axis.seconds / width
        start_position = (exchange.started - axis.start) / per_cell
        end_position = start_position + max(0.0, exchange.elapsed(now)) / per_cell
        if end_position < 0 or start_position >= width:
            mark = "‹" if end_position < 0 else "›".rjust(width)
            return [(mark, "traffic--muted")]
        spans = phase_spans(self._index, exchange, now)
        if not spans:
            return [(" " * min(int(start_position), width - 1) + "╷", "traffic--muted")]
        first_cell = max(0, min(int(start_position), width - 1))
        cells = [(" " * first_cell, "")]
        stop = max(first_cell + 1, min(width, round(end_position)))
        for kind, length in _runs(spans, start_position, per_cell, first_cell, stop):
            glyph, style, _ = _PHASE_LOOKS[kind]
            cells.append((glyph * length, style))
        return cells


def _runs(
    spans: Sequence[PhaseSpan], start_position: float, per_cell: float, first_cell: int, stop: int
) -> list[tuple[PhaseKind, int]]:
    """Return runs of cells from `first_cell` to `stop`, each with the phase that fills most of its cells.

    `start_position` is the start of the first span in cells, and may be negative. `per_cell` are the seconds
    of a cell.
    """
    runs = list[tuple[PhaseKind, int]]()
    span_bounds = list[tuple[float, float, PhaseKind]]()
    position = start_position
    for span in spans:
        span_bounds.append((position, position + span.seconds / per_cell, span.kind))
        position = span_bounds[-1][1]
    longest_kind = max(spans, key=lambda span: span.seconds).kind
    if stop - first_cell == 1:
        return [(longest_kind, 1)]
    span_index = 0
    for cell in range(first_cell, stop):
        while span_index < len(span_bounds) - 1 and span_bounds[span_index][1] <= cell:
            span_index += 1
        largest_share, kind, next_index = -1.0, longest_kind, span_index
        while next_index < len(span_bounds) and span_bounds[next_index][0] < cell + 1:
            share = min(span_bounds[next_index][1], cell + 1) - max(span_bounds[next_index][0], cell)
            if share > largest_share:
                largest_share, kind = share, span_bounds[next_index][2]
            next_index += 1
        if runs and runs[-1][0] is kind:
            runs[-1] = (kind, runs[-1][1] + 1)
        else:
            runs.append((kind, 1))
    return runs


def legend() -> list[tuple[str, str]]:
    """Return the legend of the bars, as texts and colours."""
    cells = list[tuple[str, str]]()
    for glyph, style, name in _PHASE_LOOKS.values():
        cells += [(glyph, _COLOURS[style]), (f" {name}  ", _COLOURS["traffic--muted"])]
    return cells


def phases_in_words(index: Index, exchange: Exchange, now: float) -> list[str]:
    """Return phases such as `█ handler 50 ms` and `▪ write 80 µs`, or an empty list if no phase is known in
    detail.
    """
    totals: dict[PhaseKind, float] = {}
    for span in phase_spans(index, exchange, now):
        totals[span.kind] = totals.get(span.kind, 0.0) + span.seconds
    if totals.keys() <= {PhaseKind.SERVER}:
        return []
    return [f"{_PHASE_LOOKS[kind][0]} {kind.value} {duration(seconds)}" for kind, seconds in totals.items()]
