"""Columns of the traffic: a table of all columns, and functions that select those that fit into a line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from mcpdesk.protocol.revisions import with_era
from mcpdesk.recorder.index.sorted_lines import (
    BY_DURATION,
    BY_ID,
    BY_MESSAGE,
    BY_PEER,
    BY_REVISION,
    BY_SERVER,
    BY_SIZE,
    BY_STATUS,
    SortedLines,
    SortKey,
)
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.recorder.index.view import View
from mcpdesk.recorder.masking import mask_text
from mcpdesk.tui.traffic.line_cells import (
    Cell,
    ExchangeLine,
    FrameLine,
    core_cell,
    id_cells,
    item_cells,
    mark_cells,
    message_cells,
    muted,
    peer_cells,
    preview,
    short_core,
    short_peer,
    short_revision,
    size_cell,
    status_cells,
    time_cell,
    took_cells,
    way_cells,
)


@dataclass(frozen=True, slots=True)
class Narrower:
    """Step in which a column shrinks because the message or bytes column lacks space."""

    order: int
    """Position among the steps of all columns. Steps below `_URGENT` are already taken if the message column
    has less than its roomy width."""
    width: int
    """New width. 0 hides the column."""
    title: str | None = None
    """New title, or None if it stays the same."""
    tolerated: int = 0
    """Number of cells below the minimum that the message column may have before this step is taken."""


@dataclass(frozen=True, slots=True)
class LineColumn:
    """Column of `width` cells, with a gap after it. A width of 0 takes the remaining space."""

    name: str
    width: int
    title: str
    right: bool = False
    exchange: Callable[[ExchangeLine, LineColumn], list[Cell]] | None = None
    """Returns the cells of an exchange, or None if only raw frames have the column."""
    frame: Callable[[FrameLine, LineColumn], list[Cell]] | None = None
    """Returns the cells of a raw frame, or None if only exchanges have the column."""
    shorten: Callable[[str, int], str] | None = None
    """Shortens a text to a number of cells, before it is cut."""
    sort: SortKey | None = None
    """Order of lines that are sorted by this column, or None if lines cannot be sorted by it."""
    narrower: tuple[Narrower, ...] = ()
    """Steps in which the column shrinks."""
    has_core: bool = False
    """True if the cells begin with the name of the core."""

    def cells(self, line: ExchangeLine | FrameLine) -> list[Cell]:
        """Return the cells of a line."""
        if isinstance(line, ExchangeLine):
            return [] if self.exchange is None else self.exchange(line, self)
        return [] if self.frame is None else self.frame(line, self)


_SHORT_STATUS = 9
"""Width in cells of the status column if it shows short words."""
_URGENT = 35
"""This step and later ones are taken only if the message column has less than its minimum width."""
COLUMNS = (
    LineColumn(
        "mark", 1, "",
        exchange=lambda line, _: mark_cells(line),
        frame=lambda line, _: mark_cells(line),
    ),
    LineColumn(
        "time", 12, "time",
        exchange=lambda line, _: [time_cell(line.exchange.started, line.zero)],
        frame=lambda line, _: [time_cell(line.frame.time, line.zero)],
        shorten=lambda text, width: text[:width],
        narrower=(Narrower(10, 8), Narrower(90, 0)),
    ),
    LineColumn(
        "core", 10, "replica",
        exchange=lambda line, _: [core_cell(line.exchange.core, line.former)],
        frame=lambda line, _: [core_cell(line.core, line.former)],
        shorten=short_core,
        narrower=(Narrower(40, 0),),
    ),
    LineColumn(
        "peer", 14, "peer",
        exchange=lambda line, column: peer_cells(line, with_core=column.has_core),
        frame=lambda line, column: peer_cells(line, with_core=column.has_core),
        shorten=short_peer,
        sort=BY_PEER,
        narrower=(Narrower(12, 11), Narrower(100, 8), Narrower(110, 0, tolerated=4)),
    ),
    LineColumn(
        "server", 10, "server",
        exchange=lambda line, _: muted(line.exchange.server),
        frame=lambda line, _: muted(line.server),
        sort=BY_SERVER,
        narrower=(Narrower(20, 8), Narrower(60, 0)),
    ),
    LineColumn(
        "way", 1, "",
        exchange=lambda line, _: way_cells(line),
        frame=lambda line, _: way_cells(line),
    ),
    LineColumn(
        "what", 0, "message",
        exchange=lambda line, column: message_cells(line, column.width),
        sort=BY_MESSAGE,
    ),
    LineColumn("bytes", 0, "bytes", frame=lambda line, _: [(mask_text(preview(line.frame.data)), "")]),
    LineColumn(
        "frame", 7, "frame", right=True,
        frame=lambda line, _: muted(str(line.frame.number)),
        narrower=(Narrower(80, 0),),
    ),
    LineColumn(
        "id", 6, "id", right=True,
        exchange=lambda line, _: id_cells(line),
        sort=BY_ID,
        narrower=(Narrower(30, 0),),
    ),
    LineColumn(
        "status", 16, "status",  # with room for `protocol error`
        exchange=lambda line, column: status_cells(line, column.width),
        sort=BY_STATUS,
        narrower=(Narrower(2, _SHORT_STATUS), Narrower(120, 2)),
    ),
    LineColumn(
        "took", 8, "took", right=True,
        exchange=lambda line, _: took_cells(line),
        sort=BY_DURATION,
        narrower=(Narrower(130, 0),),
    ),
    LineColumn(
        "size", 8, "size", right=True,
        exchange=lambda line, _: [size_cell(line.exchange.size)],
        frame=lambda line, _: [size_cell(line.frame.size)],
        sort=BY_SIZE,
        narrower=(Narrower(70, 0),),
    ),
    LineColumn(
        "revision", 20, "revision, era",
        exchange=lambda line, _: muted(with_era(line.exchange.revision)),
        frame=lambda line, _: muted(with_era(line.revision)),
        shorten=short_revision,
        sort=BY_REVISION,
        narrower=(Narrower(4, 10, "revision"), Narrower(6, 5, "rev"), Narrower(8, 0)),
    ),
)  # fmt: skip
"""All columns, from the left. Exchanges have those with `exchange`, raw frames those with `frame`."""
_BY_NAME = {column.name: column for column in COLUMNS}
SORT_KEYS = {column.name: column.sort for column in COLUMNS if column.sort is not None}
"""Name of a column -> its order. Only columns that lines can be sorted by are included."""
_KEEPS_CORE = 60
"""In a line of at least this width in cells, a peer column that shows the core is never hidden."""
CORE_CELLS = 8
"""Number of cells that the name of the core adds to the peer column."""
_ROOMY, _ROOMY_RAW = 64, 60  # at a width of 120, about 40 cells for arguments and result
"""Roomy width in cells of the message column (`_RAW`: of the bytes column). Below it, minor columns
shrink."""
_ENOUGH, _ENOUGH_RAW = 40, 44
"""Minimum width in cells of the message or bytes column. Below it, the other columns shrink, too."""


def sorted_by(column: str, view: View, index: Index, is_descending: bool | None = None) -> SortedLines:
    """Return the lines of a view sorted by a column.

    If `is_descending` is None, the usual direction of the column is used.
    """
    key = SORT_KEYS[column]
    return SortedLines(
        view, index, column, key, key.largest_first if is_descending is None else is_descending
    )


def column_label(name: str) -> str:
    """Return the title of a column, as used in menus and sentences."""
    return _BY_NAME[name].title.partition(",")[0]


def columns_for(
    width: int,
    *,
    raw: bool = False,
    keeps_time: bool = False,
    has_cores: bool = False,
    has_servers: bool = False,
) -> tuple[LineColumn, ...]:
    """Return the columns that fit into a line of `width` cells. A column of width 0 takes the remaining
    space.

    `width` is the width of the list. On a terminal of 160 columns, it is 96 if the details are beside the
    list. If the core column does not fit, the core is shown in the peer column.
    """
    left_out = {name for name, there in (("core", has_cores), ("server", has_servers)) if not there}
    columns = [
        column
        for column in COLUMNS
        if (column.frame if raw else column.exchange) is not None and column.name not in left_out
    ]
    roomy, enough = (_ROOMY_RAW, _ENOUGH_RAW) if raw else (_ROOMY, _ENOUGH)
    steps = [(step, column.name) for column in columns for step in column.narrower]
    for step, name in sorted(steps, key=lambda each: each[0].order):
        if _left(columns, width) >= (roomy if step.order < _URGENT else enough - step.tolerated):
            break
        if keeps_time and name == "time" and not step.width:
            continue
        at = next(at for at, column in enumerate(columns) if column.name == name)
        column = columns[at]
        if column.has_core and not step.width and width >= _KEEPS_CORE:
            continue
        if step.width:
            narrowed = step.width + CORE_CELLS * column.has_core
            title = column.title if step.title is None else step.title
            columns[at] = replace(column, width=narrowed, title=title)
        else:
            del columns[at]
        if name == "core":
            at = next(at for at, column in enumerate(columns) if column.name == "peer")
            columns[at] = replace(columns[at], width=columns[at].width + CORE_CELLS, has_core=True)
    left = max(1, _left(columns, width))
    return tuple(column if column.width else replace(column, width=left) for column in columns)


def bar_columns(width: int) -> tuple[LineColumn, ...]:
    """Return the columns beside the bars of the waterfall. The bars take the remaining space."""
    status = _BY_NAME["status"]
    columns = [
        _BY_NAME["mark"],
        _BY_NAME["way"],
        replace(_BY_NAME["what"], width=min(44, max(16, width // 3))),
        replace(status, width=_SHORT_STATUS) if width >= _WIDE_BARS else replace(status, width=1, title=""),
        _BY_NAME["took"],
        LineColumn("bar", 0, ""),
    ]
    columns[-1] = replace(columns[-1], width=max(1, _left(columns, width)))
    return tuple(columns)


def item_columns(width: int) -> tuple[LineColumn, ...]:
    """Return the columns of a narrow list of requests for one item. Method and name are left out."""
    time, peer, what = _BY_NAME["time"], _BY_NAME["peer"], _BY_NAME["what"]
    status = _BY_NAME["status"]
    columns = [
        _BY_NAME["mark"],
        replace(time, width=8),
        *([replace(peer, width=11)] if width >= _SHOWS_PEER else []),
        replace(what, exchange=lambda line, column: item_cells(line, column.width)),
        replace(status, width=2),
        _BY_NAME["took"],
    ]
    left = max(1, _left(columns, width))
    return tuple(column if column.width else replace(column, width=left) for column in columns)


_SHOWS_PEER = 52
"""Minimum number of cells of a line of one item that shows the peer."""
_WIDE_BARS = 90
"""Minimum number of cells of a line that shows the status as a word in the waterfall."""


def _left(columns: list[LineColumn], width: int) -> int:
    return width - sum(column.width for column in columns) - (len(columns) - 1)
