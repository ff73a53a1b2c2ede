"""The latest calls of a client, a tool or a method, a line each: they fill the room below what is counted."""

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

MOST_SEARCHED = 2_000
"""Newest rows of the index among which calls are looked for."""
LEAST_LINES = 4
"""Lines below which there is no room for them, their head among them."""
_NAME_CELLS = 20
_REQUEST = KINDS.index(ExchangeKind.REQUEST)

Wanted = Callable[[ConnectionInfo, str, str], bool]
"""Whether a request is meant: its connection, its method and the name it asks for."""


def latest_calls(index: Index, is_wanted: Wanted, most: int) -> Iterator[Exchange]:
    """The newest requests of peers that are meant, the last one first."""
    table, end = index.table, len(index.table)
    for row in range(end - 1, max(table.base, end - MOST_SEARCHED) - 1, -1):
        if table.kind[row] != _REQUEST or table.direction[row]:
            continue
        info = index.connections.get(table.connection[row])
        if info is None or not is_wanted(info, *table.labels[table.label[row]]):
            continue
        if (found := index.exchange(row)).whole is None:
            yield found
            most -= 1
        if most <= 0:
            return


def latest_lines(
    index: Index, is_wanted: Wanted, title_of: Callable[[Exchange], str], width: int, height: int, now: float
) -> list[Content]:
    """A head and a line each call, in `height` lines; none where there is no room or no call.

    `title_of` is what stands before the arguments; `now` is Unix time in seconds.
    """
    if height < LEAST_LINES:
        return []
    calls = list(latest_calls(index, is_wanted, height - 1))
    lines = [_line(index, call, title_of(call), width, now) for call in calls]
    return [Content.styled("latest calls", "$text-muted"), *lines] if lines else []


def _line(index: Index, call: Exchange, title: str, width: int, now: float) -> Content:
    """`17:04:07  price  334 µs ✓ article="lamp" → 19.90 EUR`."""
    said, name = summary(index, call), one_line(title, _NAME_CELLS)
    sign, style = ("✗", "$text-error") if said.has_failed else ("✓", "$text-success")
    if call.response is None:
        sign, style = ("…", "$text-warning") if call.ended is None else ("⊘", "$text-warning")
    named = name + " " * (_NAME_CELLS - cell_len(name))
    head = f"{clock(call.started)[:8]}  {named} {duration(call.elapsed(now)):>8} "
    told = " → ".join(filter(None, (said.asked, said.answered)))
    room = max(1, width - cell_len(head) - 2)
    return Content.assemble((head, "$text-muted"), (sign, style), " ", one_line(told, room))
