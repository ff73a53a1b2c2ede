"""Lines of the traffic as strips, drawn once while nothing about them changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import time

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from mcpdesk.recorder.exchange import Exchange
from mcpdesk.recorder.index import Index
from mcpdesk.tui.render.traffic_line import Cell, Column, columns_for, exchange_cells, frame_cells, heading

_PARTS = ("head", "in", "out", "method", "name", "peer", "mark", "good", "bad", "warn", "clock", "muted")
STYLES = frozenset(f"traffic--{part}" for part in (*_PARTS, "cursor"))
"""The component classes lines are drawn in."""
_KEPT = 300
"""Strips kept: a few screens full."""


class TrafficStrips:
    """Draws for one widget, in its styles and its width; the last column is left to the scroll bar."""

    def __init__(self, widget: Widget, index: Index) -> None:
        self.has_clock = False
        """Whether a line with a running clock was drawn since this was last set to False."""
        self._widget = widget
        self._index = index
        self._width = 0
        self._raw = False
        self._columns: tuple[Column, ...] = ()
        self._strips: dict[tuple[object, ...], Strip] = {}
        self._styles: dict[str, Style] = {}

    def clear(self) -> None:
        """Forget everything: styles or lines are others now."""
        self._strips.clear()
        self._styles.clear()

    def fit(self, width: int, raw: bool) -> None:
        """Lay the columns out for a widget of `width` cells."""
        if (width, raw) != (self._width, self._raw):
            self._width, self._raw = width, raw
            self._columns = columns_for(width - 2, raw=raw)
            self._strips.clear()

    def head(self) -> Strip:
        """The titles of the columns."""
        return self._strip(heading(self._columns), "traffic--head")

    def text(self, cells: Sequence[Cell] = ()) -> Strip:
        """A line that is not one of the traffic."""
        return self._strip(cells)

    def exchange(self, number: int, *, cursor: bool, marked: bool) -> Strip:
        """The line of an exchange; one that is pending is drawn anew every time."""
        exchange = self._index.exchange(number)
        if exchange.ended is None or exchange.asked_at is not None:
            self.has_clock = True
            return self._strip(exchange_cells(exchange, self._columns, time(), marked=marked), _over(cursor))
        return self._cached(
            (*_face(exchange), cursor, marked),
            lambda: exchange_cells(exchange, self._columns, 0.0, marked=marked),
            cursor,
        )

    def frame(self, number: int, *, cursor: bool, marked: bool) -> Strip:
        """The line of a raw frame."""
        return self._cached((number, cursor, marked), lambda: self._frame_cells(number, marked), cursor)

    def _frame_cells(self, number: int, marked: bool) -> list[Cell]:
        frame = self._index.frame(number)
        connection = self._index.connections.get(frame.connection) if frame else None
        row = next(iter(self._index.rows_of(number)), None)
        revision = self._index.revision(row) if row is not None else connection.revision if connection else ""
        return frame_cells(frame, connection, self._columns, revision, marked=marked)

    def _cached(self, key: tuple[object, ...], cells: Callable[[], list[Cell]], cursor: bool) -> Strip:
        key = (*key, self._widget.has_focus)
        strip = self._strips.get(key)
        if strip is None:
            if len(self._strips) >= _KEPT:
                self._strips.clear()
            strip = self._strips[key] = self._strip(cells(), _over(cursor))
        return strip

    def _strip(self, cells: Sequence[Cell], line_style: str = "") -> Strip:
        base = self._style("")
        over = self._style(line_style) if line_style else None
        segments = []
        for text, name in cells:
            style = base + self._style(name) if name else base
            segments.append(Segment(text, style + over if over else style))
        fill = base + over if over else base
        return Strip(segments).adjust_cell_length(self._width - 1, fill).extend_cell_length(self._width, base)

    def _style(self, name: str) -> Style:
        """A component's style, the widget's own for no name; asking Textual for every line would be dear."""
        style = self._styles.get(name)
        if style is None:
            widget = self._widget
            style = widget.get_component_rich_style(name, partial=True) if name else widget.rich_style
            self._styles[name] = style
        return style


def _over(cursor: bool) -> str:
    return "traffic--cursor" if cursor else ""


def _face(exchange: Exchange) -> tuple[object, ...]:
    """Everything about a finished exchange that shows."""
    told = (
        exchange.peer,
        exchange.revision,
        exchange.is_slow,
        exchange.parts,
        exchange.waited,
        exchange.size,
    )
    return exchange.number, exchange.status, exchange.ended, *told
