"""Task lists for observers: bounded, and read again only after a change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpdesk.server.state.server_state import MAX_SNAPSHOT_TASKS, Todo
from mcpdesk.storage import tasks
from mcpdesk.storage.database import Database


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "state.sqlite")
    yield database
    database.close()


async def test_a_snapshot_is_taken_when_asked_for_and_counts_only_changes(data: Database) -> None:
    todo = Todo(data)
    assert (todo.version, todo.snapshot, todo.is_stale) == (0, (), True)
    await todo.refresh()
    assert (todo.version, todo.is_stale) == (0, False)
    await data.run(lambda connection: tasks.create(connection, "Release"))
    todo.mark_stale()
    assert todo.is_stale
    await todo.refresh()
    await todo.refresh()
    assert todo.version == 1 and [(task.name, task.is_current) for task in todo.snapshot] == [
        ("Release", True)
    ]


async def test_only_the_newest_tasks_are_in_it(data: Database) -> None:
    def work(connection: object) -> None:
        for number in range(MAX_SNAPSHOT_TASKS + 5):
            tasks.create(connection, f"task {number}")  # type: ignore[arg-type]

    await data.run(work)
    todo = Todo(data)
    await todo.refresh()
    first, last = (task.name for task in todo.snapshot[:: MAX_SNAPSHOT_TASKS - 1])
    assert (first, last) == ("task 5", f"task {MAX_SNAPSHOT_TASKS + 4}")
