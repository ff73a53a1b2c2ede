"""Search for the exchange that a log line belongs to, and for the log lines of an exchange."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Final, Protocol, TypeVar

from mcpdesk.recorder.index.exchange import KINDS, Exchange, ExchangeKind, Id
from mcpdesk.recorder.index.traffic_index import Index

MAX_SEARCHED_EXCHANGES: Final = 200_000
"""Maximum number of exchanges that are searched. The newest are searched first."""
_REQUEST = KINDS.index(ExchangeKind.REQUEST)


def call_of(index: Index, connection: int, identifier: Id) -> int | None:
    """Return the newest request with an id on a connection, or None if no such request is found."""
    table = index.table
    for row in _newest_rows(index):
        if (
            table.connection[row] == connection
            and table.id[row] == identifier
            and table.kind[row] == _REQUEST
            and not table.direction[row]
        ):
            return index.operations.operation_of.get(row, row)
    return None


def call_at(index: Index, server: str, moment: float) -> int | None:
    """Return the latest client request that a server was handling at a Unix time, or None."""
    table = index.table
    connections = {number for number, info in dict(index.connections).items() if info.server == server}
    for row in _newest_rows(index):
        if (
            table.kind[row] == _REQUEST
            and not table.direction[row]
            and table.connection[row] in connections
            and table.started[row] <= moment
            and not table.ended[row] < moment  # `ended` is NaN while the request runs
        ):
            return index.operations.operation_of.get(row, row)
    return None


class CallLogLine(Protocol):
    """Log line in a capture or of a running core."""

    @property
    def call(self) -> tuple[int, Id] | None:
        """Connection and id of the request that the line belongs to, if known."""

    @property
    def time(self) -> float:
        """Unix time in seconds."""

    @property
    def level(self) -> str:
        """Log level of the MCP specification."""

    @property
    def text(self) -> str:
        """Text of the line. A traceback has several lines."""

    @property
    def where(self) -> str:
        """Source line as `file:line`, if known."""


Line = TypeVar("Line", bound=CallLogLine)
MAX_CLOCK_DIFFERENCE_S: Final = 0.25
"""A log line may be this many seconds earlier or later than its call, because their clocks may differ."""


def logs_by_call(lines: Iterable[Line]) -> Callable[[Exchange], Sequence[Line]]:
    """Return a function that finds the log lines of an exchange.

    If a client used an id twice, the time decides which exchange a line belongs to.
    """
    logs: dict[tuple[int, Id | None], list[Line]] = {}
    for line in lines:
        if line.call is not None:
            logs.setdefault(line.call, []).append(line)

    def lines_of(exchange: Exchange) -> Sequence[Line]:
        earliest = exchange.started - MAX_CLOCK_DIFFERENCE_S
        latest = inf if exchange.ended is None else exchange.ended + MAX_CLOCK_DIFFERENCE_S
        lines = logs.get((exchange.connection, exchange.id), ())
        return [line for line in lines if earliest <= line.time <= latest]

    return lines_of


def _newest_rows(index: Index) -> range:
    """Return the rows to search, the newest first."""
    rows = len(index.table)
    return range(rows - 1, max(index.table.base, rows - MAX_SEARCHED_EXCHANGES) - 1, -1)
