"""Storage of callbacks: no drift, no backlog, and each is fired by one process only."""

from __future__ import annotations

from dataclasses import replace
from sqlite3 import Connection

import pytest

from mcpdesk.storage.callbacks import Callback, add, all_callbacks, cancel, count, find, fire


def fired(connection: Connection, callback: Callback, now: float) -> Callback:
    assert fire(connection, callback, now)
    again = find(connection, callback.id)
    assert again is not None
    return again


def test_it_fires_on_the_grid_its_first_delay_began(connection: Connection) -> None:
    callback = add(connection, "tea", 60, 3, "client", 1000.0)
    dues = [callback.due]
    for late in (0.4, 0.9):
        assert callback.due is not None
        callback = fired(connection, callback, callback.due + late)
        dues.append(callback.due)
    assert dues == [1060.0, 1120.0, 1180.0]
    callback = fired(connection, callback, 1180.0)
    assert (callback.due, callback.fired, callback.remaining_firings) == (None, 3, 0)


def test_what_was_missed_is_not_made_up(connection: Connection) -> None:
    callback = fired(connection, add(connection, "tea", 60, 100, "client", 1000.0), 1000.0 + 3600)
    assert (callback.due, callback.fired, callback.remaining_firings) == (4660.0, 1, 99)


def test_only_one_of_two_processes_fires(connection: Connection) -> None:
    callback = add(connection, "tea", 60, 3, "client", 1000.0)
    assert [fire(connection, callback, 1060.0), fire(connection, callback, 1060.1)] == [True, False]


def test_a_cancelled_one_does_not_fire(connection: Connection) -> None:
    callback = add(connection, "tea", 60, 3, "client", 1000.0)
    cancel(connection, callback.id)
    assert not fire(connection, callback, 1060.0)
    assert find(connection, callback.id) == replace(callback, due=None)


def test_what_is_over_is_forgotten_in_time(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpdesk.storage.callbacks.MAX_FINISHED_CALLBACKS", 2)
    for _ in range(4):
        cancel(connection, add(connection, "old", 1, 1, "client", 0.0).id)
    waiting = add(connection, "new", 1, 1, "client", 0.0)
    assert [each.id for each in all_callbacks(connection)] == [3, 4, waiting.id]
    assert count(connection) == 1


@pytest.mark.parametrize("number", [0, -1, 5, 1 << 70])
def test_a_number_nothing_has_is_nothing(connection: Connection, number: int) -> None:
    assert find(connection, number) is None
