"""Storage of tasks and steps."""

from __future__ import annotations

from sqlite3 import Connection

import pytest

from mcpdesk.storage.tasks import (
    STEP_OVERHEAD_CHARS,
    add,
    complete,
    count,
    count_named,
    create,
    current,
    find,
    named,
    switch,
)


def test_steps_are_numbered_within_their_task(connection: Connection) -> None:
    first, second = create(connection, "one"), create(connection, "two")
    assert [add(connection, first, "a"), add(connection, second, "b"), add(connection, first, "c")] == [
        1,
        1,
        2,
    ]
    task = find(connection, first)
    assert task is not None and [step.text for step in task.steps] == ["a", "c"]


def test_what_is_complete_keeps_its_time(connection: Connection) -> None:
    number = create(connection, "one")
    add(connection, number, "a")
    complete(connection, number, 1)
    before = find(connection, number)
    complete(connection, number)
    after = find(connection, number)
    assert before is not None and after is not None
    assert before.completed is None and after.completed is not None
    assert before.steps[0].completed == after.steps[0].completed


def test_the_newest_are_given_in_their_order(connection: Connection) -> None:
    for name in ("a1", "a2", "b", "a3"):
        create(connection, name)
    assert [task.name for task in named(connection, "A", 2)] == ["a2", "a3"]
    assert count(connection) == 4


def test_completed_tasks_are_named_unless_only_open_ones_are_wanted(connection: Connection) -> None:
    complete(connection, create(connection, "a1"))
    create(connection, "a2")
    assert [task.name for task in named(connection, "a", 9)] == ["a1", "a2"]
    assert [task.name for task in named(connection, "a", 9, is_open=True)] == ["a2"]
    assert (count_named(connection, "a"), count_named(connection, "a", is_open=True)) == (2, 1)


def test_names_match_in_either_case_of_any_script(connection: Connection) -> None:
    create(connection, "Ärger, Straße")
    for word in ("ärger", "ÄRGER", "strasse"):
        assert [task.name for task in named(connection, word, 9)] == ["Ärger, Straße"]
    assert named(connection, "\0", 9) == []


def test_no_more_is_read_than_a_reader_can_bear(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_two = 2 * (len("a") + 100 + STEP_OVERHEAD_CHARS)
    monkeypatch.setattr("mcpdesk.storage.tasks.MAX_CHARACTERS", of_two)
    for name in ("a", "b", "c"):
        add(connection, create(connection, name), "x" * 100)
    assert [task.name for task in named(connection, "", 9)] == ["b", "c"]
    assert count_named(connection, "") == 3
    add(connection, 3, "x" * 1000)
    assert [task.name for task in named(connection, "", 9)] == ["c"], "the newest is always given"


def test_the_last_created_is_current_until_another_is_chosen(connection: Connection) -> None:
    assert current(connection) is None
    first, second = create(connection, "one"), create(connection, "two")
    assert current(connection) == second
    switch(connection, first)
    assert current(connection) == first
