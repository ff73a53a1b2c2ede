"""Columns of the traffic: a table of all columns, and functions that select the columns that fit a line."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
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
    direction_cells,
    duration_cells,
    id_cells,
    item_cells,
    mark_cells,
    message_cells,
    muted_cells,
    peer_cells,
    preview,
    short_core,
    short_peer,
    short_revision,
    size_cell,
    status_cells,
    time_cell,
)


@dataclass(frozen=True, slots=True)
class ShrinkStep:
    """Step that shrinks a column, to give more space to the message or bytes column."""

    position: int
    """Position among the steps of all columns, which are taken in ascending order.

    A step before `_FIRST_URGENT_STEP` is taken if the message column has less than its roomy width, a later
    step if it has less than its minimum width.
    """
    width: int
    """New width in cells. 0 hides the column."""
    title: str | None = None
    """New title, or None if it stays the same."""
    allowed_deficit: int = 0
    """Number of cells that the message column may have less than its minimum before this step is taken."""


@dataclass(frozen=True, slots=True)
class LineColumn:
    """Column of `width` cells, with a gap of one cell after it. A width of 0 takes the remaining space."""

    name: str
    width: int
    title: str
    is_right_aligned: bool = False
    exchange: Callable[[ExchangeLine, LineColumn], list[Cell]] | None = None
    """Function that returns the cells of an exchange, or None if only raw frames have the column."""
    frame: Callable[[FrameLine, LineColumn], list[Cell]] | None = None
    """Function that returns the cells of a raw frame, or None if only exchanges have the column."""
    shorten: Callable[[str, int], str] | None = None
    """Function that shortens a text to a number of cells. A text that is still too long is cut."""
    sort: SortKey | None = None
    """Sort key of the column, or None if lines cannot be sorted by it."""
    shrink_steps: tuple[ShrinkStep, ...] = ()
    has_core: bool = False
    """True for a peer column whose cells begin with the name of the core, because there is no core column."""

    def cells(self, line: ExchangeLine | FrameLine) -> list[Cell]:
        """Return the cells of a line."""
        if isinstance(line, ExchangeLine):
            return [] if self.exchange is None else self.exchange(line, self)
        return [] if self.frame is None else self.frame(line, self)


_SHORT_STATUS_WIDTH = 9
"""Width in cells of a status column with short words."""
_FIRST_URGENT_STEP = 35
"""Position of the first step that is taken only if the message column has less than its minimum width."""
COLUMNS = (
    LineColumn(
        "mark", 1, "",
        exchange=lambda line, _: mark_cells(line),
        frame=lambda line, _: mark_cells(line),
    ),
    LineColumn(
        "time", 12, "time",
        exchange=lambda line, _: [time_cell(line.exchange.started, line.time_origin)],
        frame=lambda line, _: [time_cell(line.frame.time, line.time_origin)],
        shorten=lambda text, width: text[:width],
        shrink_steps=(ShrinkStep(10, 8), ShrinkStep(90, 0)),
    ),
    LineColumn(
        "core", 10, "replica",
        exchange=lambda line, _: [core_cell(line.exchange.core, line.ended_cores)],
        frame=lambda line, _: [core_cell(line.core, line.ended_cores)],
        shorten=short_core,
        shrink_steps=(ShrinkStep(40, 0),),
    ),
    LineColumn(
        "peer", 14, "peer",
        exchange=lambda line, column: peer_cells(line, with_core=column.has_core),
        frame=lambda line, column: peer_cells(line, with_core=column.has_core),
        shorten=short_peer,
        sort=BY_PEER,
        shrink_steps=(ShrinkStep(12, 11), ShrinkStep(100, 8), ShrinkStep(110, 0, allowed_deficit=4)),
    ),
    LineColumn(
        "server", 10, "server",
        exchange=lambda line, _: muted_cells(line.exchange.server),
        frame=lambda line, _: muted_cells(line.server),
        sort=BY_SERVER,
        shrink_steps=(ShrinkStep(20, 8), ShrinkStep(60, 0)),
    ),
    LineColumn(
        "way", 1, "",
        exchange=lambda line, _: direction_cells(line),
        frame=lambda line, _: direction_cells(line),
    ),
    LineColumn(
        "what", 0, "message",
        exchange=lambda line, column: message_cells(line, column.width),
        sort=BY_MESSAGE,
    ),
    LineColumn("bytes", 0, "bytes", frame=lambda line, _: [(mask_text(preview(line.frame.data)), "")]),
    LineColumn(
        "frame", 7, "frame", is_right_aligned=True,
        frame=lambda line, _: muted_cells(str(line.frame.number)),
        shrink_steps=(ShrinkStep(80, 0),),
    ),
    LineColumn(
        "id", 6, "id", is_right_aligned=True,
        exchange=lambda line, _: id_cells(line),
        sort=BY_ID,
        shrink_steps=(ShrinkStep(30, 0),),
    ),
    LineColumn(
        "status", 16, "status",  # with room for `protocol error`
        exchange=lambda line, column: status_cells(line, column.width),
        sort=BY_STATUS,
        shrink_steps=(ShrinkStep(2, _SHORT_STATUS_WIDTH), ShrinkStep(120, 2)),
    ),
    LineColumn(
        "took", 8, "took", is_right_aligned=True,
        exchange=lambda line, _: duration_cells(line),
        sort=BY_DURATION,
        shrink_steps=(ShrinkStep(130, 0),),
    ),
    LineColumn(
        "size", 8, "size", is_right_aligned=True,
        exchange=lambda line, _: [size_cell(line.exchange.size)],
        frame=lambda line, _: [size_cell(line.frame.size)],
        sort=BY_SIZE,
        shrink_steps=(ShrinkStep(70, 0),),
    ),
    LineColumn(
        "revision", 20, "revision, era",
        exchange=lambda line, _: muted_cells(with_era(line.exchange.revision)),
        frame=lambda line, _: muted_cells(with_era(line.revision)),
        shorten=short_revision,
        sort=BY_REVISION,
        shrink_steps=(ShrinkStep(4, 10, "revision"), ShrinkStep(6, 5, "rev"), ShrinkStep(8, 0)),
    ),
)  # fmt: skip
"""All columns, from the left. Lines of exchanges have the columns with `exchange`, and lines of raw frames
have the columns with `frame`."""
_COLUMN_BY_NAME = {column.name: column for column in COLUMNS}
HIDEABLE = frozenset(_COLUMN_BY_NAME) - {"mark", "what", "bytes"}
"""Names of the columns that the person can hide. Marks, messages and bytes are always shown."""
_HIDEABLE_BESIDE_BARS = frozenset({"way", "status", "took"})
"""Names of the columns that the person can hide in the waterfall."""
SORT_KEYS = {column.name: column.sort for column in COLUMNS if column.sort is not None}
"""Name of a column -> its sort key. Lines cannot be sorted by other columns."""
_MIN_WIDTH_WITH_CORE = 60
"""Minimum width in cells of a line that never hides a peer column with the core."""
CORE_WIDTH = 8
"""Number of cells that the name of the core adds to the peer column."""
_ROOMY_MESSAGE_WIDTH = 64
"""Width in cells of the message column below which minor columns shrink. In a line of 120 cells, it leaves
about 40 cells for arguments."""
_ROOMY_BYTES_WIDTH = 60
"""Width in cells of the bytes column below which minor columns shrink."""
_MIN_MESSAGE_WIDTH = 40
"""Width in cells of the message column below which all other columns shrink."""
_MIN_BYTES_WIDTH = 44
"""Width in cells of the bytes column below which all other columns shrink."""


def sorted_by(column: str, view: View, index: Index, is_descending: bool | None = None) -> SortedLines:
    """Return the lines of a view sorted by a column.

    Without `is_descending`, the usual direction of the column is used.
    """
    key = SORT_KEYS[column]
    if is_descending is None:
        is_descending = key.largest_first
    return SortedLines(view, index, column, key, is_descending)


def column_label(name: str) -> str:
    """Return the title of a column for menus and sentences, or "" if the column has no title."""
    return _COLUMN_BY_NAME[name].title.partition(",")[0]


def columns_for(
    width: int,
    *,
    raw: bool = False,
    is_time_kept: bool = False,
    has_cores: bool = False,
    has_servers: bool = False,
    hidden: Collection[str] = (),
) -> tuple[LineColumn, ...]:
    """Return the columns that fit into a line of `width` cells.

    The message or bytes column takes the remaining space. `width` is the width of the list. On a terminal of
    160 columns, it is 96 if the details are beside the list. With `is_time_kept`, the time column is never
    hidden. If the core column does not fit, the core is shown in the peer column. `hidden` are the names of
    columns that the person hid.
    """
    needless_names = set[str]()
    if not has_cores:
        needless_names.add("core")
    if not has_servers:
        needless_names.add("server")
    columns = [
        column
        for column in COLUMNS
        if (column.frame if raw else column.exchange) is not None and column.name not in needless_names
    ]
    roomy_width = _ROOMY_BYTES_WIDTH if raw else _ROOMY_MESSAGE_WIDTH
    min_width = _MIN_BYTES_WIDTH if raw else _MIN_MESSAGE_WIDTH
    steps = [(step, column.name) for column in columns for step in column.shrink_steps]
    for step, name in sorted(steps, key=lambda step_and_name: step_and_name[0].position):
        is_urgent = step.position >= _FIRST_URGENT_STEP
        sufficient_width = min_width - step.allowed_deficit if is_urgent else roomy_width
        if _remaining_width(columns, width) >= sufficient_width:
            break
        if is_time_kept and name == "time" and not step.width:
            continue
        position = _position_of(name, columns)
        column = columns[position]
        if column.has_core and not step.width and width >= _MIN_WIDTH_WITH_CORE:
            continue
        if step.width:
            new_width = step.width + CORE_WIDTH * column.has_core
            title = column.title if step.title is None else step.title
            columns[position] = replace(column, width=new_width, title=title)
        else:
            del columns[position]
        if name == "core":
            position = _position_of("peer", columns)
            peer_column = columns[position]
            columns[position] = replace(peer_column, width=peer_column.width + CORE_WIDTH, has_core=True)
    columns = list(_without(columns, {*hidden} - {"time"} if is_time_kept else hidden))
    return _with_remaining_width(columns, width)


def _position_of(name: str, columns: list[LineColumn]) -> int:
    return next(position for position, column in enumerate(columns) if column.name == name)


def _with_remaining_width(columns: list[LineColumn], width: int) -> tuple[LineColumn, ...]:
    """Give the remaining width of a line to the column of width 0."""
    remaining_width = max(1, _remaining_width(columns, width))
    return tuple(column if column.width else replace(column, width=remaining_width) for column in columns)


def _without(columns: Iterable[LineColumn], hidden: Collection[str]) -> Iterator[LineColumn]:
    """Yield the columns that are not in `hidden`.

    The peer column of a narrow line also shows the core. If only the peer or only the core is hidden, the
    other one remains.
    """
    for column in columns:
        if column.has_core and "core" in hidden:
            column = replace(column, width=column.width - CORE_WIDTH, has_core=False)
        elif column.has_core and column.name in hidden:
            column = _COLUMN_BY_NAME["core"]
        if column.name not in hidden:
            yield column


def hideable_columns(
    *, raw: bool, has_bars: bool, has_cores: bool, has_servers: bool
) -> Iterator[tuple[str, str]]:
    """Yield name and label of each column that the person can hide at present.

    The columns are those of raw frames, of the waterfall (`has_bars`), or of the list of exchanges.
    """
    for column in COLUMNS:
        if raw:
            is_in_list = column.frame is not None
        elif has_bars:
            is_in_list = column.name in _HIDEABLE_BESIDE_BARS
        else:
            is_in_list = column.exchange is not None
        is_needed = {"core": has_cores, "server": has_servers}.get(column.name, True)
        if column.name in HIDEABLE and is_in_list and is_needed:
            yield column.name, column_label(column.name) or "direction"


def bar_columns(width: int, hidden: Collection[str] = ()) -> tuple[LineColumn, ...]:
    """Return the columns of the waterfall without `hidden`. The bars take the remaining space."""
    if width >= _MIN_WIDTH_WITH_STATUS:
        status = replace(_COLUMN_BY_NAME["status"], width=_SHORT_STATUS_WIDTH)
    else:
        status = replace(_COLUMN_BY_NAME["status"], width=1, title="")
    columns = [
        _COLUMN_BY_NAME["mark"],
        _COLUMN_BY_NAME["way"],
        replace(_COLUMN_BY_NAME["what"], width=min(44, max(16, width // 3))),
        status,
        _COLUMN_BY_NAME["took"],
        LineColumn("bar", 0, ""),
    ]
    return _with_remaining_width(list(_without(columns, hidden)), width)


def item_columns(width: int) -> tuple[LineColumn, ...]:
    """Return the columns of a narrow list of requests for one item. Method and name are left out."""
    columns = [_COLUMN_BY_NAME["mark"], replace(_COLUMN_BY_NAME["time"], width=8)]
    if width >= _MIN_WIDTH_WITH_PEER:
        columns.append(replace(_COLUMN_BY_NAME["peer"], width=11))
    columns += [
        replace(_COLUMN_BY_NAME["what"], exchange=lambda line, column: item_cells(line, column.width)),
        replace(_COLUMN_BY_NAME["status"], width=2),
        _COLUMN_BY_NAME["took"],
    ]
    return _with_remaining_width(columns, width)


_MIN_WIDTH_WITH_PEER = 52
"""Minimum number of cells of a line of one item that shows the peer."""
_MIN_WIDTH_WITH_STATUS = 90
"""Minimum number of cells of a line that shows the status as a word in the waterfall."""


def _remaining_width(columns: list[LineColumn], width: int) -> int:
    """Return the number of cells of a line that remain beside the columns and the gaps between them."""
    return width - sum(column.width for column in columns) - (len(columns) - 1)
