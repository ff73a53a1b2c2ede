"""Waterfall: a bar per exchange, split into phases, on a time axis that all visible lines share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import time

from mcpdesk.recorder.index.exchange import Exchange
from mcpdesk.recorder.index.phase_spans import PhaseKind, PhaseSpan, phase_spans
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.tui.render.amounts import clock, duration

_LOOKS: dict[PhaseKind, tuple[str, str, str]] = {
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
ZOOM = 4
"""Zoom factor of the axis per step."""
MAX_ZOOM = 12
_BEFORE = 0.08
"""Share of a zoomed axis before the selected exchange."""
_SHORTEST_S = 1e-5


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
        shown = [one for one in map(self._index.exchange, lines) if one.started]
        start = min((one.started for one in shown), default=now)
        end = max((one.started + one.elapsed(now) for one in shown), default=now)
        span = max(end - start, _SHORTEST_S)
        seconds = max(span / ZOOM**self.zoom, _SHORTEST_S)
        if self.zoom and selected is not None:
            wanted = self._index.exchange(selected).started - seconds * _BEFORE
            start = min(max(start, wanted), end - seconds)
        self._axis = TimeAxis(start, seconds)

    def head(self, width: int) -> str:
        """Return the start time of the axis, and the time at its middle and end relative to it."""
        begins, ends = clock(self._axis.start), f"+{duration(self._axis.seconds)}"
        half = f"+{duration(self._axis.seconds / 2)}"
        if width < len(begins) + len(half) + len(ends) + 6:
            return ends.rjust(width)
        left = begins.ljust(width // 2) + half
        return left + ends.rjust(width - len(left))

    def bar(self, exchange: Exchange, width: int) -> list[tuple[str, str]]:
        """Return the bar of an exchange in at most `width` cells, as texts and component classes.

        An arrow marks a bar outside the axis.
        """
        axis, now = self._axis, time()
        per_cell = axis.seconds / width
        first = (exchange.started - axis.start) / per_cell
        last = first + max(0.0, exchange.elapsed(now)) / per_cell
        if last < 0 or first >= width:
            mark = "‹" if last < 0 else "›".rjust(width)
            return [(mark, "traffic--muted")]
        spans = phase_spans(self._index, exchange, now)
        if not spans:
            return [(" " * min(int(first), width - 1) + "╷", "traffic--muted")]
        at = max(0, min(int(first), width - 1))
        cells = [(" " * at, "")]
        stop = max(at + 1, min(width, round(last)))
        for kind, length in _runs(spans, first, per_cell, at, stop):
            glyph, style, _ = _LOOKS[kind]
            cells.append((glyph * length, style))
        return cells


def _runs(
    spans: Sequence[PhaseSpan], first: float, per_cell: float, at: int, stop: int
) -> list[tuple[PhaseKind, int]]:
    """Return runs of cells from `at` to `stop`, each with the phase that fills most of the cell."""
    runs = list[tuple[PhaseKind, int]]()
    bounds = list[tuple[float, float, PhaseKind]]()
    position = first
    for span in spans:
        bounds.append((position, position + span.seconds / per_cell, span.kind))
        position = bounds[-1][1]
    longest = max(spans, key=lambda span: span.seconds).kind
    if stop - at == 1:
        return [(longest, 1)]
    here = 0
    for cell in range(at, stop):
        while here < len(bounds) - 1 and bounds[here][1] <= cell:
            here += 1
        most, kind, look = -1.0, longest, here
        while look < len(bounds) and bounds[look][0] < cell + 1:
            share = min(bounds[look][1], cell + 1) - max(bounds[look][0], cell)
            if share > most:
                most, kind = share, bounds[look][2]
            look += 1
        if runs and runs[-1][0] is kind:
            runs[-1] = (kind, runs[-1][1] + 1)
        else:
            runs.append((kind, 1))
    return runs


def legend() -> list[tuple[str, str]]:
    """Return the legend of the bars, as texts and colours."""
    cells = list[tuple[str, str]]()
    for glyph, style, name in _LOOKS.values():
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
    return [f"{_LOOKS[kind][0]} {kind.value} {duration(spent)}" for kind, spent in totals.items()]
