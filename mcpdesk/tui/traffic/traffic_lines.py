"""Lines of the traffic: exchanges or raw frames as styled cells, and as strips that a widget draws."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from enum import Enum
from time import time

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter
from textual.strip import Strip
from textual.widget import Widget

from mcpdesk.byte_size import size_text
from mcpdesk.link.state_looks import EXCHANGES
from mcpdesk.protocol.revisions import with_era
from mcpdesk.recorder.exchange_summary import Summary, summary
from mcpdesk.recorder.index.exchange import Exchange, ExchangeKind, Id, Status
from mcpdesk.recorder.index.traffic_index import Index, parts_in_words
from mcpdesk.recorder.masking import mask_text
from mcpdesk.recorder.record import BY_MOCK, FAULT, ConnectionInfo, Direction, Frame
from mcpdesk.tui.render.amounts import clock, duration
from mcpdesk.tui.render.safe_text import clean, one_line, shortened
from mcpdesk.tui.render.tones import TRAFFIC_STYLES
from mcpdesk.tui.traffic.colour_rules import THEME_COLOURS, ColourRule, ColourRules
from mcpdesk.tui.traffic.line_columns import LineColumn, bar_columns, columns_for
from mcpdesk.tui.traffic.waterfall import Waterfall

Cell = tuple[str, str]
"""Text, and the component class that styles it (empty: the line's own style)."""

OVERSIZED = 1 << 20
"""Minimum bytes of a size that is marked."""
_PREVIEW = 400
EMPTY_SUMMARY = Summary()
_MOST_SUMMARIES = 1_000
"""Maximum exchanges whose summaries are cached: about some screens."""


class Fold(Enum):
    """Relation of a line to the lines that can be unfolded below it.

    The value is drawn before their number.
    """

    CLOSED = "▸"
    OPEN = "▾"
    BELOW = ""


def heading(columns: tuple[LineColumn, ...]) -> list[Cell]:
    """Return the titles of the columns."""
    return _joined(_fit([(column.title, "")], column) for column in columns)


def exchange_cells(
    exchange: Exchange,
    columns: tuple[LineColumn, ...],
    now: float,
    *,
    marked: bool = False,
    texts: Summary = EMPTY_SUMMARY,
    fold: Fold = Fold.CLOSED,
    zero: float | None = None,
    former: Collection[str] = (),
    is_held: bool = False,
) -> list[Cell]:
    """Return the line of an exchange; `now` is for the clock of a pending one, and times count from `zero`.

    `former` are the replicas that have ended; `is_held` means that a message of it is held at the desk.
    """
    cells = (
        [_time(exchange.started, zero)]
        if column.name == "time"
        else [_HELD if column.width > 2 else ("‖", _HELD[1])]
        if is_held and column.name == "status"
        else _cells(exchange, column, now, marked, texts, fold, former)
        for column in columns
    )
    line = _joined(map(_fit, cells, columns))
    if exchange.status is Status.NEGOTIATION:
        return [(text, "traffic--muted") for text, _ in line]
    return line


def _time(moment: float, zero: float | None) -> Cell:
    """Return the time of day, or the difference from `zero`: `+1.2 s`, `-3.1 ms`."""
    if zero is None:
        return (clock(moment), "traffic--muted")
    return (f"{'-' if moment < zero else '+'}{duration(abs(moment - zero))}", "traffic--clock")


_HELD: Cell = ("‖ held", "traffic--warn")
_BY_HAND: Cell = ("✎", "traffic--warn")
_BY_RULE: Cell = ("↯", "traffic--warn")
_BY_MOCK: Cell = ("M", "traffic--warn")
"""First cell of an exchange with a message that was changed or answered at the desk."""
_REMARKED: Cell = ("!", "traffic--warn")
"""First cell of an exchange with a remark about a fault of a message."""


def _changed_cell(how: str) -> Cell:
    return _BY_RULE if FAULT in how else _BY_MOCK if BY_MOCK in how else _BY_HAND


_REPLICA_BEFORE_PEER = 9
"""Cells of the replica's name before the peer."""


def replica_cell(replica: str, former: Collection[str], after: str = "") -> Cell:
    """Return the name of a replica, marked if the replica has ended."""
    name = _short_replica(replica, _REPLICA_BEFORE_PEER) if after else replica
    if replica in former:
        return (f"✕ {name}{after}", "traffic--bad")
    return (f"{name}{after}", "traffic--muted")


def _short_replica(replica: str, width: int) -> str:
    """Return the end of a long name, where replicas differ; a mark at the beginning stays."""
    mark = "✕ " if replica.startswith("✕ ") else ""
    room = width - len(mark)
    name = replica.removeprefix(mark)
    return mark + (name if len(name) <= room else f"…{name[len(name) - room + 1 :]}")


def _cells(
    exchange: Exchange,
    column: LineColumn,
    now: float,
    marked: bool,
    texts: Summary,
    fold: Fold,
    former: Collection[str],
) -> list[Cell]:
    """Return the contents of a column for an exchange."""
    match column.name:
        case "mark":
            return [("●", "traffic--mark")] if marked else []
        case "replica":
            return [replica_cell(exchange.replica, former)]
        case "peer" if column.has_replica and exchange.replica:
            return [replica_cell(exchange.replica, former, " "), (exchange.peer, "traffic--peer")]
        case "peer":
            return [(exchange.peer, "traffic--peer")]
        case "server":
            return [(exchange.server, "traffic--muted")]
        case "way":
            arrows = "⇢⇠" if exchange.kind is ExchangeKind.NOTIFICATION else "→←"
            return [(arrows[exchange.direction], _DIRECTION_STYLES[exchange.direction])]
        case "what":
            return _message(exchange, now, column.width, texts, fold)
        case "id":
            return [] if exchange.id is None else [(f"#{exchange.id}", "traffic--muted")]
        case "status" if exchange.kind is ExchangeKind.MALFORMED and exchange.name:
            return []
        case "status":
            look = EXCHANGES[exchange.status]
            return [(look.fitted(column.width), TRAFFIC_STYLES[look.tone])]
        case "took":
            return _took(exchange, now)
        case "size":
            return [_size_cell(exchange.size)]
        case "revision":
            return [(with_era(exchange.revision), "traffic--muted")]
        case name:
            raise ValueError(f"column {name} has no cell")


def frame_cells(
    frame: Frame | None,
    connection: ConnectionInfo | None,
    columns: tuple[LineColumn, ...],
    revision: str = "",
    *,
    marked: bool = False,
    zero: float | None = None,
    former: Collection[str] = (),
) -> list[Cell]:
    """Return the line of a raw frame; None is a deleted frame. `revision` is that of its exchange."""
    if frame is None:
        return [("  this frame is no longer in memory, nor in a file", "traffic--muted")]
    replica = connection.replica if connection else ""
    cells: dict[str, Cell] = {
        "replica": replica_cell(replica, former),
        "mark": ("●" if marked else "", "traffic--mark"),
        "time": _time(frame.time, zero),
        "peer": (connection.peer if connection else "", "traffic--peer"),
        "server": (connection.server if connection else "", "traffic--muted"),
        "way": ("→←"[frame.direction], _DIRECTION_STYLES[frame.direction]),
        "bytes": (mask_text(preview(frame.data)), ""),
        "frame": (str(frame.number), "traffic--muted"),
        "size": _size_cell(frame.size),
        "revision": (with_era(revision), "traffic--muted"),
    }
    return _joined(
        _fit(
            [replica_cell(replica, former, " "), cells["peer"]]
            if column.has_replica and replica
            else [cells[column.name]],
            column,
        )
        for column in columns
    )


def preview(data: bytes) -> str:
    """Return the beginning of some bytes as one line without control characters."""
    return clean(data[:_PREVIEW].decode("utf-8", "replace"), newlines=False)


def operation_words(exchange: Exchange, now: float) -> str:
    """Describe the other parts of an operation: `3 rounds · client 8.1 s`."""
    waited = exchange.waiting(now)
    words = (parts_in_words(exchange), f"client {duration(waited)}" if waited > 0 else "")
    return " · ".join(filter(None, words))


def _joined(columns: Iterable[list[Cell]]) -> list[Cell]:
    """Join the cells of all columns; fewer cells are drawn faster."""
    joined: list[Cell] = []
    for column in columns:
        for text, style in column:
            if joined and not text.strip():
                joined[-1] = (joined[-1][0] + text, joined[-1][1])
            else:
                joined.append((text, style))
    return joined


def _fit(cells: list[Cell], column: LineColumn) -> list[Cell]:
    """Cut or pad cells to the width of their column, and add the gap."""
    if column.name in _SHORTENED:
        cells = [(_SHORTENED[column.name](text, column.width), style) for text, style in cells]
    fitted: list[Cell] = []
    left = column.width
    for text, style in cells:
        text = one_line(text)
        if (needed := cell_len(text)) > left:
            text, needed = (set_cell_size(text, left - 1) + "…" if left > 1 else text[:left]), left
        fitted.append((text, style))
        left -= needed
        if not left:
            break
    fitted.append((" ", ""))
    pad = (" " * left, "")
    return [pad, *fitted] if column.right else [*fitted, pad]


def _short_peer(peer: str, width: int) -> str:
    """Return a peer, without its version if that does not fit."""
    return peer if cell_len(peer) <= width else peer.rpartition(" ")[0] or peer


def _short_revision(revision: str, width: int) -> str:
    """Return a revision, without its era, or as `26-07`, if it does not fit."""
    date = revision.partition(" ")[0]
    return revision if len(revision) <= width else date if len(date) <= width else date[2:7]


_SHORTENED: dict[str, Callable[[str, int], str]] = {
    "time": lambda text, width: text[:width],
    "replica": _short_replica,
    "peer": _short_peer,
    "revision": _short_revision,
}
"""Column -> function that shortens its text before it is cut."""


_DIRECTION_STYLES = {Direction.IN: "traffic--in", Direction.OUT: "traffic--out"}


def _message(exchange: Exchange, now: float, width: int, texts: Summary, fold: Fold) -> list[Cell]:
    """Return method, name and operation, and in the remaining space the arguments and the result.

    The name is cut for the operation, down to a few cells.
    """
    cells = _method_cells(exchange)
    if fold is Fold.BELOW:
        cells.insert(0, ("└ ", "traffic--muted"))
    elif folded := len(exchange.notifications) + (len(exchange.parts) if fold is Fold.OPEN else 0):
        cells.append((f" {fold.value} {folded}", "traffic--clock"))
    long = operation_words(exchange, now)
    left = width - sum(cell_len(text) for text, _ in cells)
    if long:
        for words in (long, long.partition(" · client")[0], _operation_glyphs(exchange)):
            if left > cell_len(words):
                break
        else:
            cells = _fit(cells, LineColumn("", max(1, width - cell_len(words) - 1), ""))[:-2]
        cells = [*cells, (f" {words}", "traffic--clock")]
        left -= cell_len(words) + 1
    fits = not texts.answered and cell_len(texts.values) < left
    return [*cells, *_summary_cells(texts, left - 1)] if left > _LEAST_SAID or fits else cells


_LEAST_SAID = 8
"""Minimum cells of arguments and result; below, they are left out."""
_ARROW = " → "
_ROOM_FOR_BOTH = 20
"""Minimum cells for showing the arguments with the result."""


def _summary_cells(texts: Summary, width: int) -> list[Cell]:
    """Return `arguments → result`; the arguments get at most half of the space if both are long.

    In little space the arguments lose their names, and long texts are cut. A failure begins with its reason,
    so its end is cut, and it gets three quarters unless the arguments are short.
    """
    asked, answered, values = one_line(texts.asked), one_line(texts.answered), one_line(texts.values)
    if not answered:
        asked = values if values and cell_len(asked) > width else asked
        return [(f" {shortened(asked, width)}", "traffic--muted")] if asked else []
    style = "traffic--bad" if texts.has_failed else "traffic--good"
    room = width - len(_ARROW)
    free = room - cell_len(answered)
    if values and cell_len(asked) > max(room // 3, free):
        asked = values
    is_short = cell_len(asked) <= max(room // 2, free)
    if not asked or (width < _ROOM_FOR_BOTH and not is_short):
        return [(_ARROW, "traffic--muted"), (_cut_answer(texts, answered, width - 2), style)]
    asked = asked if is_short else shortened(asked, max(room // (4 if texts.has_failed else 2), free))
    return [
        (f" {asked}{_ARROW}", "traffic--muted"),
        (_cut_answer(texts, answered, room - cell_len(asked)), style),
    ]


def _cut_answer(texts: Summary, answered: str, width: int) -> str:
    if not texts.has_failed or cell_len(answered) <= width:
        return shortened(answered, width)
    return f"{set_cell_size(answered, max(0, width - 1)).rstrip()}…"


def _operation_glyphs(exchange: Exchange) -> str:
    """Return the operation in a few cells: `×3` rounds, `?2` questions, `↻4` polls of the task."""
    counts = (
        ("×", exchange.rounds - 1 and exchange.rounds),
        ("?", exchange.questions),
        ("↻", exchange.looks),
    )
    asking = "?" if exchange.asked_at is not None and not exchange.questions else ""
    return "".join(f"{glyph}{count}" for glyph, count in counts if count) + asking


def _method_cells(exchange: Exchange) -> list[Cell]:
    if exchange.kind is ExchangeKind.MALFORMED and exchange.name:
        return [(mask_text(exchange.name), "traffic--method")]
    if exchange.kind is ExchangeKind.MALFORMED:
        return [("not a JSON-RPC message", "traffic--bad")]
    if exchange.kind is ExchangeKind.RESPONSE:
        return [("response to no request", "traffic--warn")]
    if exchange.name:
        return [(f"{exchange.method} ", "traffic--method"), (mask_text(exchange.name), "traffic--name")]
    if exchange.status is Status.NEGOTIATION:
        return [(f"{exchange.method} ", "traffic--method"), (exchange.status.value, "traffic--muted")]
    return [(exchange.method, "traffic--method")]


def _took(exchange: Exchange, now: float) -> list[Cell]:
    if exchange.kind is not ExchangeKind.REQUEST:
        return []
    took = duration(max(0.0, exchange.elapsed(now)))
    if exchange.is_slow:
        return [(f"▲{took}", "traffic--warn")]
    return [(took, "traffic--clock" if exchange.ended is None else "")]


def _size_cell(size: int) -> Cell:
    return (
        (f"▲{size_text(size)}", "traffic--warn") if size >= OVERSIZED else (size_text(size), "traffic--muted")
    )


_PARTS = ("head", "in", "out", "method", "name", "peer", "mark", "good", "bad", "warn", "clock", "muted")
STYLES = frozenset(f"traffic--{part}" for part in (*_PARTS, "cursor"))
"""Component classes of the lines."""


_JUDGED = frozenset({"traffic--good", "traffic--bad", "traffic--warn", "traffic--mark"})
"""Styles of cells that a colour rule does not change."""


class TrafficStrips:
    """Draws lines for one widget, in its styles and width; the last column is for the scroll bar."""

    def __init__(self, widget: Widget, index: Index, waterfall: Waterfall) -> None:
        self.has_clock = False
        """True if a line with a running clock was drawn since this was last set to False."""
        self._widget = widget
        self._index = index
        self._width = 0
        self._waterfall = waterfall
        self._has_bars = False
        self.order = ("", False)
        """Column that the lines are sorted by, if any, and True if the largest value comes first."""
        self.held: Collection[tuple[int, Id | None]] = ()
        """Connections and ids of exchanges with a message that is held at the desk."""
        self.zero: float | None = None
        """Unix time in seconds that the times of the lines are relative to; None to show the time of day."""
        self._fitted: tuple[object, ...] = ()
        """Parameters of the current column layout."""
        self._filters: tuple[LineFilter, ...] = ()
        """Line filters of the app."""
        self._background = Color(0, 0, 0)
        self._columns: tuple[LineColumn, ...] = ()
        self._styles: dict[str, Style] = {}
        self.rules: ColourRules | None = None
        """Rules that colour whole lines."""
        self._summaries: dict[tuple[object, ...], Summary] = {}
        self._drawn: dict[int, tuple[object, Strip]] = {}
        """Lines of finished exchanges, each with the values it was drawn from."""

    def forget_styles(self) -> None:
        """Look the styles up again after a change of the theme or the focus."""
        self._styles.clear()
        self._drawn.clear()

    def fit(self, width: int, raw: bool) -> None:
        """Lay the columns out for a widget of `width` cells."""
        widget, has_zero = self._widget, self.zero is not None
        bars, index = self._waterfall.is_on and not raw, self._index
        has_replicas, has_servers = index.has_replicas, index.has_servers
        filters, background = tuple(widget.get_line_filters()), widget.background_colors[1]
        fitted = (width, raw, bars, has_zero, has_replicas, has_servers, filters, background)
        if fitted != self._fitted:
            self._fitted, self._width, self._has_bars = fitted, width, bars
            self._filters, self._background = filters, background
            self._columns = (
                bar_columns(width - 2)
                if bars
                else columns_for(
                    width - 2,
                    raw=raw,
                    keeps_time=has_zero,
                    has_replicas=has_replicas,
                    has_servers=has_servers,
                )
            )
            self._drawn.clear()

    @property
    def columns(self) -> list[str]:
        """Names of the shown columns, from the left."""
        return [column.name for column in self._columns]

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
        name, is_falling = self.order
        if column.name == "time" and self.zero is not None:
            return "elapsed"
        return f"{column.title}{'↓' if is_falling else '↑'}" if column.name == name else column.title

    def text(self, cells: Sequence[Cell] = ()) -> Strip:
        """Draw a line that is not part of the traffic."""
        return self._strip(cells)

    def exchange(self, number: int, *, cursor: bool, marked: bool, fold: Fold = Fold.CLOSED) -> Strip:
        """Draw the line of an exchange."""
        exchange = self._index.exchange(number)
        is_running = exchange.ended is None or exchange.asked_at is not None
        self.has_clock = self.has_clock or is_running
        changed = self._how_changed(exchange)
        texts = self._summary(exchange, changed)
        if self._has_bars:
            texts = texts._replace(answered="")
        how = "" if marked else changed
        rule = self.rules.rule_of(exchange) if self.rules is not None else None
        former = self._index.former_replicas
        is_remarked = not marked and self._index.is_remarked(number)
        is_former = exchange.replica in former
        look = (exchange, texts, cursor, marked, fold, how, is_remarked, rule, self.zero, is_former)
        cached = self._drawn.get(number)
        if cached is not None and cached[0] == look:
            return cached[1]
        columns = self._columns[:-1] if self._has_bars else self._columns
        cells = exchange_cells(
            exchange,
            columns,
            time(),
            marked=marked,
            texts=texts,
            fold=fold,
            zero=self.zero,
            former=former,
            is_held=is_running and (exchange.connection, exchange.id) in self.held,
        )
        if how or is_remarked:
            cells[0] = (cells[0][0][1:], cells[0][1])
            cells.insert(0, _changed_cell(how) if how else _REMARKED)
        if self._has_bars:
            cells += self._waterfall.bar(exchange, self._columns[-1].width)
        strip = self._strip(cells, "traffic--cursor" if cursor else "", self._colour(rule))
        if not is_running and not self._has_bars:
            if len(self._drawn) >= _MOST_SUMMARIES:
                self._drawn.clear()
            self._drawn[number] = (look, strip)
        return strip

    def _how_changed(self, exchange: Exchange) -> str:
        """Return how messages of an exchange were changed at the desk; empty if none was."""
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

    def _summary(self, exchange: Exchange, changed: str) -> Summary:
        """Return the summary of an exchange, cached until its answer arrives or it is changed."""
        news = exchange.response if exchange.ended is not None else len(exchange.notifications)
        key = (exchange.number, exchange.ended, news, changed, self._index.reveals_secrets)
        summarised = self._summaries.get(key)
        if summarised is None:
            if len(self._summaries) >= _MOST_SUMMARIES:
                self._summaries.clear()
            summarised = self._summaries[key] = summary(self._index, exchange)
        return summarised

    def frame(self, number: int, *, cursor: bool, marked: bool) -> Strip:
        """Draw the line of a raw frame."""
        frame = self._index.frame(number)
        connection = self._index.connections.get(frame.connection) if frame else None
        row = next(iter(self._index.rows_of(number)), None)
        revision = self._index.revision(row) if row is not None else connection.revision if connection else ""
        cells = frame_cells(
            frame,
            connection,
            self._columns,
            revision,
            marked=marked,
            zero=self.zero,
            former=self._index.former_replicas,
        )
        return self._strip(cells, "traffic--cursor" if cursor else "")

    def _strip(self, cells: Sequence[Cell], line_style: str = "", colour: Style | None = None) -> Strip:
        base = self._style("")
        over = self._style(line_style) if line_style else None
        segments = []
        for text, name in cells:
            style = base + self._style(name) if name else base
            if colour is not None and name not in _JUDGED:
                style += colour
            segments.append(Segment(text, style + over if over else style))
        fill = base + over if over else base
        left = self._width - 1 - sum(cell_len(text) for text, _ in cells)
        if left < 0:
            segments = Segment.adjust_line_length(segments, self._width - 1, fill)
        elif left:
            segments.append(Segment(" " * left, fill))
        segments.append(Segment(" ", base))
        for each in self._filters:
            segments = each.apply(segments, self._background)
        return Strip(segments, self._width)

    def _style(self, name: str) -> Style:
        """Return a component's style, or the widget's own for no name.

        Cached, because Textual's lookup is slow.
        """
        style = self._styles.get(name)
        if style is None:
            widget = self._widget
            style = widget.get_component_rich_style(name, partial=True) if name else widget.rich_style
            self._styles[name] = style
        return style
