"""Callbacks as they are kept: functions of a connection, within a transaction. Times are Unix seconds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from sqlite3 import Connection

from mcpdesk.storage.facts import MOST_ID

COLUMNS = "id, message, delay_s, repeat_count, fired, due, peer, created, last_fired"
KEPT = 200
"""Callbacks that are over and are still listed."""


@dataclass(frozen=True, slots=True)
class Callback:
    """A message that comes back. `due` is None once it is over: fired often enough, or cancelled."""

    id: int
    message: str
    delay_s: float
    repeat_count: int
    fired: int
    due: float | None
    peer: str
    """Who set it."""
    created: float
    last_fired: float | None

    @property
    def left(self) -> int:
        """How often it is still to fire."""
        return 0 if self.due is None else self.repeat_count - self.fired


def add(
    connection: Connection, message: str, delay_s: float, repeat_count: int, peer: str, now: float
) -> Callback:
    """Keep a new callback, due after its delay."""
    sql = (
        "INSERT INTO callbacks (message, delay_s, repeat_count, due, peer, created) VALUES (?, ?, ?, ?, ?, ?)"
    )
    row = (message, delay_s, repeat_count, now + delay_s, peer, now)
    number = connection.execute(sql, row).lastrowid
    sql = "DELETE FROM callbacks WHERE due IS NULL AND id NOT IN "
    newest = "(SELECT id FROM callbacks WHERE due IS NULL ORDER BY id DESC LIMIT ?)"
    connection.execute(sql + newest, (KEPT,))
    callback = one(connection, number or 0)
    assert callback is not None
    return callback


def one(connection: Connection, number: int) -> Callback | None:
    """A callback by its number, which may be any."""
    if not 0 < number <= MOST_ID:
        return None
    row = connection.execute(f"SELECT {COLUMNS} FROM callbacks WHERE id = ?", (number,)).fetchone()
    return None if row is None else Callback(*row)


def everything(connection: Connection) -> tuple[Callback, ...]:
    """All that is kept, oldest first."""
    rows = connection.execute(f"SELECT {COLUMNS} FROM callbacks ORDER BY id")
    return tuple(Callback(*row) for row in rows)


def cancel(connection: Connection, number: int) -> None:
    """A callback shall not fire again."""
    connection.execute("UPDATE callbacks SET due = NULL WHERE id = ?", (number,))


def count(connection: Connection) -> int:
    """How many are still to fire."""
    (number,) = connection.execute("SELECT count(*) FROM callbacks WHERE due IS NOT NULL").fetchone()
    return int(number)


def fire(connection: Connection, callback: Callback, now: float) -> bool:
    """Note that a callback fires now; False when another process was first, or it has been cancelled.

    The next time is on the grid the first delay began, so it never drifts; what was missed is not made up.
    """
    assert callback.due is not None
    periods = max(1, math.floor((now - callback.due) / callback.delay_s) + 1)
    is_over = callback.fired + 1 >= callback.repeat_count
    due = None if is_over else callback.due + periods * callback.delay_s
    sql = "UPDATE callbacks SET fired = fired + 1, last_fired = ?, due = ? WHERE id = ? AND due = ?"
    return connection.execute(sql, (now, due, callback.id, callback.due)).rowcount == 1
