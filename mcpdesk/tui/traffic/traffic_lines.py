"""Lines of the traffic: exchanges or raw frames as styled cells, and as strips, which a widget can draw."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from time import time

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter
from textual.strip import Strip
from textual.widget import Widget

from mcpdesk.recorder.exchange_summary import Summary, summary
from mcpdesk.recorder.index.exchange import Exchange, Id, Status
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.recorder.record import BY_MOCK, FAULT, ConnectionInfo, Frame
from mcpdesk.tui.traffic.colour_rules import THEME_COLOURS, ColourRule, ColourRules
from mcpdesk.tui.traffic.line_cells import Cell, ExchangeLine, Fold, FrameLine, cut_cells
from mcpdesk.tui.traffic.line_columns import LineColumn, bar_columns, columns_for, item_columns
from mcpdesk.tui.traffic.waterfall import Waterfall

EMPTY_SUMMARY = Summary()
_MAX_SUMMARIES = 1_000
"""Maximum number of exchanges whose summaries are cached. This is enough for several screens of lines."""


def heading(columns: tuple[LineColumn, ...]) -> list[Cell]:
    """Return the titles of the columns."""
    return _joined(_fit([(column.title, "")], column) for column in columns)


def exchange_cells(
    exchange: Exchange,
    columns: tuple[LineColumn, ...],
    now: float,
    *,
    is_marked: bool = False,
    texts: Summary = EMPTY_SUMMARY,
    fold: Fold = Fold.CLOSED,
    time_origin: float | None = None,
    ended_cores: Collection[str] = (),
    is_held: bool = False,
) -> list[Cell]:
    """Return the cells of the line of an exchange. The parameters are explained in `ExchangeLine`."""
    line = ExchangeLine(exchange, now, is_marked, texts, fold, time_origin, ended_cores, is_held)
    cells = _joined(_fit(column.cells(line), column) for column in columns)
    has_no_error = exchange.status in (Status.OK, Status.SENT, Status.PENDING)
    if exchange.status is Status.NEGOTIATION or (exchange.method in _PROBES and has_no_error):
        return [(text, "traffic--muted") for text, _ in cells]
    return cells


_PROBES = frozenset({"initialize", "notifications/initialized", "ping", "server/discover"})
"""Methods that open or check a connection. Their lines are muted unless the request failed."""
_CHANGED_BY_HAND_CELL: Cell = ("✎", "traffic--warn")
"""First cell of an exchange with a message that a person changed at the desk."""
_CHANGED_BY_RULE_CELL: Cell = ("↯", "traffic--warn")
"""First cell of an exchange with a message that a rule of the desk changed."""
_MOCKED_CELL: Cell = ("M", "traffic--warn")
"""First cell of an exchange that a mock of the desk answered."""
_REMARK_CELL: Cell = ("!", "traffic--warn")
"""First cell of an exchange with a remark about an error in a message."""


def _change_cell(change_text: str) -> Cell:
    if FAULT in change_text:
        return _CHANGED_BY_RULE_CELL
    return _MOCKED_CELL if BY_MOCK in change_text else _CHANGED_BY_HAND_CELL


def frame_cells(
    frame: Frame | None,
    connection: ConnectionInfo | None,
    columns: tuple[LineColumn, ...],
    revision: str = "",
    *,
    is_marked: bool = False,
    time_origin: float | None = None,
    ended_cores: Collection[str] = (),
) -> list[Cell]:
    """Return the cells of the line of a raw frame. If the frame was deleted (None), return a note about it.

    The other parameters are explained in `FrameLine`.
    """
    if frame is None:
        return [("  this frame is no longer in memory, nor in a file", "traffic--muted")]
    line = FrameLine(frame, connection, revision, is_marked, time_origin, ended_cores)
    return _joined(_fit(column.cells(line), column) for column in columns)


def _joined(columns: Iterable[list[Cell]]) -> list[Cell]:
    """Join the cells of all columns. Blank cells are appended to the cell before, to draw fewer cells."""
    joined_cells: list[Cell] = []
    for cells in columns:
        for text, style in cells:
            if joined_cells and not text.strip():
                previous_text, previous_style = joined_cells[-1]
                joined_cells[-1] = (previous_text + text, previous_style)
            else:
                joined_cells.append((text, style))
    return joined_cells


def _fit(cells: list[Cell], column: LineColumn) -> list[Cell]:
    """Cut or pad cells to the width of their column, and add the gap."""
    if (shorten := column.shorten) is not None:
        cells = [(shorten(text, column.width), style) for text, style in cells]
    cut, remaining_width = cut_cells(cells, column.width)
    padding, gap = (" " * remaining_width, ""), (" ", "")
    return [padding, *cut, gap] if column.is_right_aligned else [*cut, gap, padding]


_STYLE_NAMES = (
    "head",
    "in",
    "out",
    "method",
    "name",
    "peer",
    "mark",
    "good",
    "bad",
    "warn",
    "clock",
    "muted",
)
STYLES = frozenset(f"traffic--{part}" for part in (*_STYLE_NAMES, "cursor"))
"""Component classes of the lines."""
_STATUS_STYLES = frozenset({"traffic--good", "traffic--bad", "traffic--warn", "traffic--mark"})
"""Styles of cells that a colour rule does not change."""


class TrafficStrips:
    """Draws lines for one widget, in its styles and width. Their last cell is left for the scroll bar."""

    def __init__(self, widget: Widget, index: Index, waterfall: Waterfall) -> None:
        self.has_clock = False
        """True if a line with a running clock was drawn. The list sets it to False before it draws lines."""
        self._widget = widget
        self._index = index
        self._width = 0
        self._waterfall = waterfall
        self._has_bars = False
        self.order = ("", False)
        """Column that the lines are sorted by, or "" for the order of arrival, and True if the largest value
        comes first."""
        self.held: Collection[tuple[int, Id | None]] = ()
        """Connections and ids of exchanges with a message that is held at the desk."""
        self.hidden_columns: frozenset[str] = frozenset()
        """Names of the columns that the person hid."""
        self.has_single_item = False
        """True if all lines are requests for the same item, so that method and name are left out."""
        self.time_origin: float | None = None
        """Unix time in seconds to which times are relative, or None to show the time of day."""
        self._layout_key: tuple[object, ...] = ()
        """Values that determine the current columns and styles."""
        self._filters: tuple[LineFilter, ...] = ()
        """Line filters of the app."""
        self._background = Color(0, 0, 0)
        self._columns: tuple[LineColumn, ...] = ()
        self._styles: dict[str, Style] = {}
        self.rules: ColourRules | None = None
        """Rules that colour whole lines."""
        self._summaries: dict[tuple[object, ...], Summary] = {}
        self._strip_cache: dict[int, tuple[object, Strip]] = {}
        """Drawn lines of finished exchanges, each with the values that determine its look."""

    def forget_styles(self) -> None:
        """Look the styles up again after a change of the theme or the focus."""
        self._styles.clear()
        self._strip_cache.clear()

    def fit(self, width: int, raw: bool) -> None:
        """Lay the columns out for a widget of `width` cells."""
        has_time_origin = self.time_origin is not None
        has_bars = self._waterfall.is_on and not raw
        has_cores, has_servers = self._index.has_cores, self._index.has_servers
        filters = tuple(self._widget.get_line_filters())
        background = self._widget.background_colors[1]
        layout_key = (
            width,
            raw,
            has_bars,
            self.has_single_item,
            has_time_origin,
            has_cores,
            has_servers,
            self.hidden_columns,
            filters,
            background,
        )
        if layout_key == self._layout_key:
            return
        self._layout_key, self._width, self._has_bars = layout_key, width, has_bars
        self._filters, self._background = filters, background
        self._strip_cache.clear()
        if has_bars:
            self._columns = bar_columns(width - 2, self.hidden_columns)
        elif self.has_single_item and not raw:
            self._columns = item_columns(width - 2)
        else:
            self._columns = columns_for(
                width - 2,
                raw=raw,
                is_time_kept=has_time_origin,
                has_cores=has_cores,
                has_servers=has_servers,
                hidden=self.hidden_columns,
            )

    @property
    def columns(self) -> list[str]:
        """Names of the shown columns, from the left. `core` is also included if the peer column shows it."""
        names = [column.name for column in self._columns]
        return [*names, "core"] if any(column.has_core for column in self._columns) else names

    def column_at(self, x: int) -> str:
        """Return the name of the column at a cell of a line."""
        end = 0
        for column in self._columns:
            end += column.width + 1
            if x < end:
                return column.name
        return ""

    def head(self) -> Strip:
        """Draw the titles of the columns."""
        columns = self._columns
        if self._has_bars:
            columns = (*columns[:-1], replace(columns[-1], title=self._waterfall.head(columns[-1].width)))
        columns = tuple(replace(column, title=self._title(column)) for column in columns)
        return self._strip(heading(columns), "traffic--head")

    def _title(self, column: LineColumn) -> str:
        if column.name == "time" and self.time_origin is not None:
            return "elapsed"
        sort_column, is_descending = self.order
        if column.name != sort_column:
            return column.title
        return f"{column.title}{'↓' if is_descending else '↑'}"

    def text(self, cells: Sequence[Cell] = ()) -> Strip:
        """Draw a line that is not part of the traffic."""
        return self._strip(cells)

    def exchange(self, number: int, *, has_cursor: bool, is_marked: bool, fold: Fold = Fold.CLOSED) -> Strip:
        """Draw the line of an exchange."""
        exchange = self._index.exchange(number)
        is_running = exchange.ended is None or exchange.asked_at is not None
        self.has_clock = self.has_clock or is_running
        change_text = self._change_text(exchange)
        texts = self._summary(exchange, change_text)
        if self._has_bars:
            texts = texts._replace(result="")
        change_mark = "" if is_marked else change_text
        rule = self.rules.rule_of(exchange) if self.rules is not None else None
        ended_cores = self._index.former_cores
        is_remarked = not is_marked and self._index.is_remarked(number)
        has_core_ended = exchange.core in ended_cores
        cache_key = (
            exchange,
            texts,
            has_cursor,
            is_marked,
            fold,
            change_mark,
            is_remarked,
            rule,
            self.time_origin,
            has_core_ended,
        )
        cached = self._strip_cache.get(number)
        if cached is not None and cached[0] == cache_key:
            return cached[1]
        columns = self._columns[:-1] if self._has_bars else self._columns
        cells = exchange_cells(
            exchange,
            columns,
            time(),
            is_marked=is_marked,
            texts=texts,
            fold=fold,
            time_origin=self.time_origin,
            ended_cores=ended_cores,
            is_held=is_running and (exchange.connection, exchange.id) in self.held,
        )
        if change_mark or is_remarked:  # replaces the blank mark column
            cells[0] = (cells[0][0][1:], cells[0][1])
            cells.insert(0, _change_cell(change_mark) if change_mark else _REMARK_CELL)
        if self._has_bars:
            cells += self._waterfall.bar(exchange, self._columns[-1].width)
        strip = self._strip(cells, "traffic--cursor" if has_cursor else "", self._colour(rule))
        if not is_running and not self._has_bars:
            if len(self._strip_cache) >= _MAX_SUMMARIES:
                self._strip_cache.clear()
            self._strip_cache[number] = (cache_key, strip)
        return strip

    def _change_text(self, exchange: Exchange) -> str:
        """Return how the messages of an exchange were changed at the desk, or "" if they were not changed."""
        if not self._index.marks:
            return ""
        return " ".join(mark.how for mark in self._index.marks_of(exchange) if mark.was)

    def _colour(self, rule: ColourRule | None) -> Style | None:
        """Return the colour of a rule as a style."""
        if rule is None:
            return None
        if (name := THEME_COLOURS.get(rule.colour)) is not None:
            return Style(color=self._style(name).color)
        return Style(color=Color.parse(rule.colour).rich_color)

    def _summary(self, exchange: Exchange, change_text: str) -> Summary:
        """Return the summary of an exchange. It is cached until a message arrives or is changed."""
        answer_state = exchange.response if exchange.ended is not None else len(exchange.notifications)
        key = (exchange.number, exchange.ended, answer_state, change_text, self._index.reveals_secrets)
        cached = self._summaries.get(key)
        if cached is None:
            if len(self._summaries) >= _MAX_SUMMARIES:
                self._summaries.clear()
            cached = self._summaries[key] = summary(self._index, exchange)
        return cached

    def frame(self, number: int, *, has_cursor: bool, is_marked: bool) -> Strip:
        """Draw the line of a raw frame."""
        frame = self._index.frame(number)
        connection = self._index.connections.get(frame.connection) if frame else None
        row = next(iter(self._index.rows_of(number)), None)
        revision = connection.revision if connection else ""
        if row is not None:
            revision = self._index.revision(row)
        cells = frame_cells(
            frame,
            connection,
            self._columns,
            revision,
            is_marked=is_marked,
            time_origin=self.time_origin,
            ended_cores=self._index.former_cores,
        )
        return self._strip(cells, "traffic--cursor" if has_cursor else "")

    def _strip(self, cells: Sequence[Cell], line_style: str = "", colour: Style | None = None) -> Strip:
        """Draw a line of the full width. `colour` is the colour of a rule, or None."""
        base_style = self._style("")
        line_overlay = self._style(line_style) if line_style else None
        segments = []
        for text, name in cells:
            style = base_style + self._style(name) if name else base_style
            if colour is not None and name not in _STATUS_STYLES:
                style += colour
            segments.append(Segment(text, style + line_overlay if line_overlay else style))
        fill_style = base_style + line_overlay if line_overlay else base_style
        remaining_width = self._width - 1 - sum(cell_len(text) for text, _ in cells)
        if remaining_width < 0:
            segments = Segment.adjust_line_length(segments, self._width - 1, fill_style)
        elif remaining_width:
            segments.append(Segment(" " * remaining_width, fill_style))
        segments.append(Segment(" ", base_style))
        for line_filter in self._filters:
            segments = line_filter.apply(segments, self._background)
        return Strip(segments, self._width)

    def _style(self, name: str) -> Style:
        """Return the style of a component class, or the style of the widget if `name` is empty.

        The styles are cached, because Textual's lookup is slow.
        """
        style = self._styles.get(name)
        if style is None:
            widget = self._widget
            style = widget.get_component_rich_style(name, partial=True) if name else widget.rich_style
            self._styles[name] = style
        return style
