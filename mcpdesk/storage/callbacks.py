"""Callbacks as they are kept: functions of a connection, within a transaction. Times are Unix seconds."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from sqlite3 import Connection

from mcpdesk.storage.facts import MOST_ID

COLUMNS = "id, message, delay_s, repeat_count, fired, due, peer, created, last_fired, core"
KEPT = 200
"""Callbacks that are over and are still listed."""
SETTER = ""
"""Stands among the peers that were told for the connection that set a callback."""
MOST_TOLD = 100
"""Peers remembered of each callback."""


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
    core: str = ""
    """The process whose connection set it."""

    @property
    def left(self) -> int:
        """How often it is still to fire."""
        return 0 if self.due is None else self.repeat_count - self.fired


def add(
    connection: Connection,
    message: str,
    delay_s: float,
    repeat_count: int,
    peer: str,
    now: float,
    wanted: int | None = None,
    core: str = "",
) -> Callback:
    """Keep a new callback, due after its delay. `wanted` is an id that `make_free` found free."""
    sql = "INSERT INTO callbacks (id, message, delay_s, repeat_count, due, peer, created, core) VALUES "
    row = (wanted, message, delay_s, repeat_count, now + delay_s, peer, now, core)
    sql += "(?, ?, ?, ?, ?, ?, ?, ?)"
    number = connection.execute(sql, row).lastrowid
    sql = "DELETE FROM callbacks WHERE due IS NULL AND id NOT IN "
    newest = "(SELECT id FROM callbacks WHERE due IS NULL ORDER BY id DESC LIMIT ?)"
    connection.execute(sql + newest, (KEPT,))
    callback = one(connection, number or 0)
    assert callback is not None
    return callback


def make_free(connection: Connection, number: int) -> bool:
    """Forget the callback of that id if it is over; whether the id is free now."""
    connection.execute("DELETE FROM callbacks WHERE id = ? AND due IS NULL", (number,))
    return one(connection, number) is None


def mark_told(connection: Connection, number: int, peers: Iterable[str]) -> None:
    """Note that peers heard of all a callback has fired so far."""
    row = connection.execute("SELECT told, fired FROM callbacks WHERE id = ?", (number,)).fetchone()
    if row is not None:
        told = json.loads(row[0]) | dict.fromkeys(peers, row[1])
        newest = dict(list(told.items())[-MOST_TOLD:])
        connection.execute("UPDATE callbacks SET told = ? WHERE id = ?", (json.dumps(newest), number))


def take_missed(connection: Connection, peer: str) -> list[Callback]:
    """What fired without its setter and without a peer hearing of it; noted as told to that peer."""
    found = []
    rows = connection.execute(f"SELECT told, {COLUMNS} FROM callbacks WHERE fired > 0 ORDER BY last_fired")
    for told_json, *row in rows.fetchall():
        told, callback = json.loads(told_json), Callback(*row)
        if max(told.get(SETTER, 0), told.get(peer, 0)) < callback.fired:
            found.append(callback)
            mark_told(connection, callback.id, (peer,))
    return found


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
