"""Which exchange a log line belongs to: by the id of its request, or by what ran at its time."""

from __future__ import annotations

from typing import Final

from mcpdesk.recorder.index.exchange import KINDS, ExchangeKind, Id
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


def _newest(index: Index) -> range:
    rows = len(index.table)
    return range(rows - 1, max(index.table.base, rows - MOST) - 1, -1)
