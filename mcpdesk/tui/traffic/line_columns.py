"""Columns of the traffic, their widths, and their order of shrinking."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class LineColumn:
    """Column of `width` cells, with a gap after it. A width of 0 takes the remaining space."""

    name: str
    width: int
    title: str
    right: bool = False
    has_replica: bool = False
    """True if the cells begin with the name of the replica."""


_STATUS, _SHORT_STATUS = 16, 9
"""Cells of the status column: with room for `protocol error`, and for short words."""
_ALL = (
    LineColumn("mark", 1, ""),
    LineColumn("time", 12, "time"),
    LineColumn("replica", 10, "replica"),
    LineColumn("peer", 14, "peer"),
    LineColumn("server", 10, "server"),
    LineColumn("way", 1, ""),
    LineColumn("what", 0, "message"),
    LineColumn("id", 6, "id", right=True),
    LineColumn("status", _STATUS, "status"),
    LineColumn("took", 8, "took", right=True),
    LineColumn("size", 8, "size", right=True),
    LineColumn("revision", 20, "revision, era"),
)
_RAW = tuple(
    column
    for each in _ALL
    for column in (
        (LineColumn("bytes", 0, "bytes"), LineColumn("frame", 7, "frame", right=True))
        if each.name == "what"
        else (each,)
    )
    if column.name not in {"id", "status", "took"}
)
"""Columns of raw frames. They show bytes instead of the message."""
_KEEPS_REPLICA = 60
"""Width of a line from which on a peer column with the replica is never hidden."""
REPLICA_CELLS = 8
"""Number of cells that the name of the replica adds to the peer column."""
_ROOMY, _ROOMY_RAW = 52, 60
"""Cells that the message column must have; otherwise status and revision shrink. `_RAW`: bytes column."""
_ENOUGH, _ENOUGH_RAW = 40, 44
"""Cells that the message or bytes column must have; otherwise other columns shrink in their order."""
_FOR_THE_PEER = 4
"""Number of cells below that minimum that the column may have before the peer column is hidden."""
_FIRST = (
    ("status", _SHORT_STATUS, "status"),
    ("revision", 10, "revision"),
    ("revision", 5, "rev"),
    ("revision", 0, ""),
)
"""The columns that shrink while the message column is not roomy, as in `_GIVE_WAY`."""
_GIVE_WAY = (
    ("time", 8, "time"),
    ("server", 8, "server"),
    ("id", 0, ""),
    ("replica", 0, ""),
    ("peer", 11, "peer"),
    ("server", 0, ""),
    ("size", 0, ""),
    ("frame", 0, ""),
    ("time", 0, ""),
    ("peer", 8, "peer"),
    ("peer", 0, ""),
    ("status", 2, "status"),
    ("took", 0, ""),
)
"""Columns in their order of shrinking, with their new width (0: hidden) and new title."""


def columns_for(
    width: int,
    *,
    raw: bool = False,
    keeps_time: bool = False,
    has_replicas: bool = False,
    has_servers: bool = False,
) -> tuple[LineColumn, ...]:
    """Return the columns that fit into a line of `width` cells. The one of width 0 takes the remaining space.

    `width` is that of the list. On a terminal of 120 columns it is 72 if the details are beside the list. If
    the replica column does not fit, the replica is shown in the peer column.
    """
    left_out = {name for name, there in (("replica", has_replicas), ("server", has_servers)) if not there}
    columns = [column for column in (_RAW if raw else _ALL) if column.name not in left_out]
    roomy, enough = (_ROOMY_RAW, _ENOUGH_RAW) if raw else (_ROOMY, _ENOUGH)
    for name, narrower, title in (*_FIRST, *_GIVE_WAY):
        is_first = (name, narrower, title) in _FIRST
        least = roomy if is_first else enough - _FOR_THE_PEER * ((name, narrower) == ("peer", 0))
        if _left(columns, width) >= least:
            break
        if keeps_time and (name, narrower) == ("time", 0):
            continue
        at = next((at for at, column in enumerate(columns) if column.name == name), None)
        if at is not None and columns[at].has_replica and not narrower and width >= _KEEPS_REPLICA:
            break
        if at is not None:
            width_of = narrower + REPLICA_CELLS * (columns[at].has_replica and bool(narrower))
            columns[at : at + 1] = [replace(columns[at], width=width_of, title=title)] * bool(narrower)
        if name == "replica" and has_replicas:
            at = next(at for at, column in enumerate(columns) if column.name == "peer")
            columns[at] = replace(columns[at], width=columns[at].width + REPLICA_CELLS, has_replica=True)
    left = max(1, _left(columns, width))
    return tuple(column if column.width else replace(column, width=left) for column in columns)


def bar_columns(width: int) -> tuple[LineColumn, ...]:
    """Return the columns beside the bars of the waterfall. The bars take the remaining space."""
    columns = [
        LineColumn("mark", 1, ""),
        LineColumn("way", 1, ""),
        LineColumn("what", min(44, max(16, width // 3)), "message"),
        LineColumn("status", _SHORT_STATUS, "status") if width >= _WIDE_BARS else LineColumn("status", 1, ""),
        LineColumn("took", 8, "took", right=True),
        LineColumn("bar", 0, ""),
    ]
    columns[-1] = replace(columns[-1], width=max(1, _left(columns, width)))
    return tuple(columns)


_WIDE_BARS = 90
"""Minimum number of cells of a line that shows the status as a word in the waterfall."""


def _left(columns: list[LineColumn], width: int) -> int:
    return width - sum(column.width for column in columns) - (len(columns) - 1)
