"""Which exchange a log line belongs to: by the id of its request, or by what ran at its time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Final, Protocol, TypeVar

from mcpdesk.recorder.index.exchange import KINDS, Exchange, ExchangeKind, Id
from mcpdesk.recorder.index.traffic_index import Index

MOST: Final = 200_000
"""Exchanges that are looked through, the newest first."""
_REQUEST = KINDS.index(ExchangeKind.REQUEST)


def call_of(index: Index, connection: int, identifier: Id) -> int | None:
    """The newest request with an id on a connection; None when it is not in sight."""
    table = index.table
    for row in _newest(index):
        if (
            table.connection[row] == connection
            and table.id[row] == identifier
            and table.kind[row] == _REQUEST
            and not table.direction[row]
        ):
            return index.operations.whole.get(row, row)
    return None


def call_at(index: Index, server: str, moment: float) -> int | None:
    """The request of a client that the server was answering at a Unix time, the one begun last."""
    table = index.table
    own = {number for number, info in dict(index.connections).items() if info.server == server}
    for row in _newest(index):
        if (
            table.kind[row] == _REQUEST
            and not table.direction[row]
            and table.connection[row] in own
            and table.started[row] <= moment
            and not table.ended[row] < moment  # NaN while it runs
        ):
            return index.operations.whole.get(row, row)
    return None


class SaidLine(Protocol):
    """A log line, of a capture or of a core that runs."""

    @property
    def call(self) -> tuple[int, Id] | None:
        """Connection and id of the request it belongs to, where that is known."""

    @property
    def time(self) -> float:
        """Unix time in seconds."""

    @property
    def level(self) -> str:
        """A level of the specification."""

    @property
    def text(self) -> str:
        """What was said, a traceback in lines."""

    @property
    def where(self) -> str:
        """`file:line`, where known."""


Line = TypeVar("Line", bound=SaidLine)
CLOSE_S: Final = 0.25
"""By how much the clocks of a line and of its call may be apart."""


def logs_by_call(lines: Iterable[Line]) -> Callable[[Exchange], Sequence[Line]]:
    """What finds the lines of an exchange among all of them. An id may come again: time tells them apart."""
    found: dict[tuple[int, Id | None], list[Line]] = {}
    for line in lines:
        if line.call is not None:
            found.setdefault(line.call, []).append(line)

    def of(exchange: Exchange) -> Sequence[Line]:
        ended = inf if exchange.ended is None else exchange.ended + CLOSE_S
        kept = found.get((exchange.connection, exchange.id), ())
        return [line for line in kept if exchange.started - CLOSE_S <= line.time <= ended]

    return of


def _newest(index: Index) -> range:
    rows = len(index.table)
    return range(rows - 1, max(index.table.base, rows - MOST) - 1, -1)
