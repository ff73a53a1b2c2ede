"""Functions that read and write callbacks in a transaction of a connection. Times are Unix seconds."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from sqlite3 import Connection

from mcpdesk.storage.facts import MAX_ID

COLUMNS = "id, message, delay_s, repeat_count, fired, due, peer, created, last_fired, core"
MAX_FINISHED_CALLBACKS = 200
"""Maximum number of finished callbacks that are kept."""
CREATOR_KEY = ""
"""Key in the map of notified peers that represents the connection that created the callback."""
MAX_NOTIFIED_PEERS = 100
"""Maximum number of peers that are remembered for each callback."""


@dataclass(frozen=True, slots=True)
class Callback:
    """A scheduled message. `due` is None if it has fired `repeat_count` times or was cancelled."""

    id: int
    message: str
    delay_s: float
    repeat_count: int
    fired: int
    due: float | None
    peer: str
    """Peer that created the callback."""
    created: float
    last_fired: float | None
    core: str = ""
    """Id of the process that created the callback."""

    @property
    def remaining_firings(self) -> int:
        """Number of times that the callback will still fire."""
        return 0 if self.due is None else self.repeat_count - self.fired


def add(
    connection: Connection,
    message: str,
    delay_s: float,
    repeat_count: int,
    peer: str,
    now: float,
    unused_id: int | None = None,
    core: str = "",
) -> Callback:
    """Store a new callback, due after its delay.

    `unused_id` is an id for which `release_id` returned True. If None, SQLite chooses the id.
    """
    columns = "(id, message, delay_s, repeat_count, due, peer, created, core)"
    row = (unused_id, message, delay_s, repeat_count, now + delay_s, peer, now, core)
    insertion = connection.execute(f"INSERT INTO callbacks {columns} VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    number = insertion.lastrowid
    newest_ids = "SELECT id FROM callbacks WHERE due IS NULL ORDER BY id DESC LIMIT ?"
    connection.execute(
        f"DELETE FROM callbacks WHERE due IS NULL AND id NOT IN ({newest_ids})", (MAX_FINISHED_CALLBACKS,)
    )
    callback = find(connection, number or 0)
    assert callback is not None
    return callback


def release_id(connection: Connection, number: int) -> bool:
    """Delete the callback with that id if it is finished. Return True if the id is free now."""
    connection.execute("DELETE FROM callbacks WHERE id = ? AND due IS NULL", (number,))
    return find(connection, number) is None


def mark_notified(connection: Connection, number: int, peers: Iterable[str]) -> None:
    """Record that peers were notified of all past firings of a callback."""
    row = connection.execute("SELECT told, fired FROM callbacks WHERE id = ?", (number,)).fetchone()
    if row is not None:
        notified_json, fired = row
        notified = json.loads(notified_json) | dict.fromkeys(peers, fired)
        newest_peers = dict(list(notified.items())[-MAX_NOTIFIED_PEERS:])
        connection.execute("UPDATE callbacks SET told = ? WHERE id = ?", (json.dumps(newest_peers), number))


def pop_missed(connection: Connection, peer: str) -> list[Callback]:
    """Return the callbacks that have fired although neither their creator nor this peer was notified.

    The returned callbacks are marked as notified.
    """
    callbacks = []
    rows = connection.execute(f"SELECT told, {COLUMNS} FROM callbacks WHERE fired > 0 ORDER BY last_fired")
    for notified_json, *row in rows.fetchall():
        notified, callback = json.loads(notified_json), Callback(*row)
        if max(notified.get(CREATOR_KEY, 0), notified.get(peer, 0)) < callback.fired:
            callbacks.append(callback)
            mark_notified(connection, callback.id, (peer,))
    return callbacks


def find(connection: Connection, number: int) -> Callback | None:
    """Return the callback with this id, or None. `number` may be any integer."""
    if not 0 < number <= MAX_ID:
        return None
    row = connection.execute(f"SELECT {COLUMNS} FROM callbacks WHERE id = ?", (number,)).fetchone()
    return None if row is None else Callback(*row)


def all_callbacks(connection: Connection) -> tuple[Callback, ...]:
    """Return all callbacks, oldest first."""
    rows = connection.execute(f"SELECT {COLUMNS} FROM callbacks ORDER BY id")
    return tuple(Callback(*row) for row in rows)


def cancel(connection: Connection, number: int) -> None:
    """Cancel a callback."""
    connection.execute("UPDATE callbacks SET due = NULL WHERE id = ?", (number,))


def count(connection: Connection) -> int:
    """Return the number of callbacks that will still fire."""
    (number,) = connection.execute("SELECT count(*) FROM callbacks WHERE due IS NOT NULL").fetchone()
    return int(number)


def fire(connection: Connection, callback: Callback, now: float) -> bool:
    """Record that a callback fires now.

    Return False if another process has recorded this already, or the callback was cancelled. The next time is
    computed from the planned time and not from `now`, so that delays do not add up. Missed times are skipped.
    """
    assert callback.due is not None
    period_count = max(1, math.floor((now - callback.due) / callback.delay_s) + 1)
    is_last_firing = callback.fired + 1 >= callback.repeat_count
    due = None if is_last_firing else callback.due + period_count * callback.delay_s
    sql = "UPDATE callbacks SET fired = fired + 1, last_fired = ?, due = ? WHERE id = ? AND due = ?"
    return connection.execute(sql, (now, due, callback.id, callback.due)).rowcount == 1
