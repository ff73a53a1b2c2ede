"""Latest calls of a client, tool or method, one line each, for the space below the details."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.cells import cell_len
from textual.content import Content

from mcpdesk.recorder.exchange_summary import summary
from mcpdesk.recorder.index.exchange import KINDS, Exchange, ExchangeKind
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.recorder.record import ConnectionInfo
from mcpdesk.tui.render.amounts import clock, duration
from mcpdesk.tui.render.safe_text import one_line

MAX_SEARCHED_ROWS = 2_000
"""Number of newest index rows that are searched for calls."""
MIN_LINES = 4
"""Minimum number of lines, including the heading."""
_NAME_CELLS = 20
_REQUEST_KIND = KINDS.index(ExchangeKind.REQUEST)

RequestFilter = Callable[[ConnectionInfo, str, str], bool]
"""Function that returns True if a request is included. Its arguments are the connection, the method and the
requested name."""


def latest_calls(index: Index, is_included: RequestFilter, max_calls: int) -> Iterator[Exchange]:
    """Yield at most `max_calls` requests of clients that the filter includes, the newest first."""
    table, end = index.table, len(index.table)
    for row in range(end - 1, max(table.base, end - MAX_SEARCHED_ROWS) - 1, -1):
        is_from_server = bool(table.direction[row])
        if table.kind[row] != _REQUEST_KIND or is_from_server:
            continue
        info = index.connections.get(table.connection[row])
        if info is None or not is_included(info, *table.labels[table.label[row]]):
            continue
        if (exchange := index.exchange(row)).part_of is None:
            yield exchange
            max_calls -= 1
        if max_calls <= 0:
            return


def latest_lines(
    index: Index,
    is_included: RequestFilter,
    title_of: Callable[[Exchange], str],
    width: int,
    height: int,
    now: float,
) -> list[Content]:
    """Return a heading and one line per call, in at most `height` lines.

    Return an empty list if there is no call, or if `height` is less than `MIN_LINES`. `title_of` returns the
    text before the arguments. `now` is Unix time in seconds.
    """
    if height < MIN_LINES:
        return []
    calls = list(latest_calls(index, is_included, height - 1))
    lines = [_line(index, call, title_of(call), width, now) for call in calls]
    return [Content.styled("latest calls", "$text-muted"), *lines] if lines else []


def _line(index: Index, call: Exchange, title: str, width: int, now: float) -> Content:
    """Format a call: `17:04:07  price  334 µs ✓ article="lamp" → 19.90 EUR`."""
    call_summary, name = summary(index, call), one_line(title, _NAME_CELLS)
    sign, style = ("✗", "$text-error") if call_summary.has_failed else ("✓", "$text-success")
    if call.response is None:
        sign, style = ("…", "$text-warning") if call.ended is None else ("⊘", "$text-warning")
    name_column = name + " " * (_NAME_CELLS - cell_len(name))
    line_start = f"{clock(call.started)[:8]}  {name_column} {duration(call.elapsed(now)):>8} "
    summary_text = " → ".join(filter(None, (call_summary.arguments, call_summary.result)))
    room = max(1, width - cell_len(line_start) - 2)
    return Content.assemble((line_start, "$text-muted"), (sign, style), " ", one_line(summary_text, room))
