"""Functions that read and write tasks, steps and the current task in a transaction of a connection."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from mcpdesk.storage.facts import MAX_ID, fact, set_fact

if TYPE_CHECKING:
    from sqlite3 import Connection

CURRENT_KEY = "task.current"
"""Key of the number of the current task."""
NAME_CONDITION = "WHERE instr(folded(name), ?) AND (completed IS NULL OR NOT ?)"
"""SQL condition with two parameters: a word in lower case, and True to exclude completed tasks."""
MAX_CHARACTERS = 1_000_000
"""Maximum number of characters of names and steps that are read at once."""
STEP_OVERHEAD_CHARS = 50
"""Number of characters that is added for each step to the length of its text."""


class Step(Struct, frozen=True):
    """Step of a task. `completed` is Unix time in seconds, or None while the step is open."""

    id: int
    text: str
    completed: float | None


class Task(Struct, frozen=True):
    """Task with its steps in order of creation."""

    id: int
    name: str
    created: float
    completed: float | None
    is_current: bool
    steps: tuple[Step, ...]


def create(connection: Connection, name: str) -> int:
    """Add a task, make it current, and return its number."""
    sql = "INSERT INTO tasks (name, created) VALUES (?, ?)"
    number = connection.execute(sql, (name, time.time())).lastrowid
    assert number is not None
    switch(connection, number)
    return number


def add(connection: Connection, task: int, text: str) -> int:
    """Add a step to a task, reopen the task if it was completed, and return the step's number."""
    sql = "SELECT coalesce(max(id), 0) + 1 FROM steps WHERE task = ?"
    (number,) = connection.execute(sql, (task,)).fetchone()
    connection.execute(
        "INSERT INTO steps (task, id, text, created) VALUES (?, ?, ?, ?)", (task, number, text, time.time())
    )
    connection.execute("UPDATE tasks SET completed = NULL WHERE id = ?", (task,))
    return int(number)


def complete(connection: Connection, task: int, step: int | None = None) -> None:
    """Complete one step. If `step` is None, complete the task and all its steps.

    Earlier completion times are kept.
    """
    now = time.time()
    sql = "UPDATE steps SET completed = ? WHERE task = ? AND completed IS NULL AND id = coalesce(?, id)"
    connection.execute(sql, (now, task, step))
    if step is None:
        sql = "UPDATE tasks SET completed = ? WHERE id = ? AND completed IS NULL"
        connection.execute(sql, (now, task))


def switch(connection: Connection, task: int) -> None:
    """Make a task current."""
    set_fact(connection, CURRENT_KEY, str(task))


def current(connection: Connection) -> int | None:
    """Return the number of the current task, or None if there is no current task."""
    number = fact(connection, CURRENT_KEY)
    return None if number is None else int(number)


def find(connection: Connection, number: int) -> Task | None:
    """Return the task with this id, or None. `number` may be any integer."""
    if not 0 < number <= MAX_ID:
        return None
    return next(iter(_tasks(connection, "WHERE id = ?", (number,))), None)


def named(connection: Connection, word: str, limit: int, *, is_open: bool = False) -> list[Task]:
    """Return the newest tasks whose name contains a word, ignoring case. `is_open` excludes completed tasks.

    Return at most `limit` tasks with at most `MAX_CHARACTERS`. The newest matching task is returned even if
    it has more characters.
    """
    connection.create_function("folded", 1, str.casefold, deterministic=True)
    return _tasks(connection, NAME_CONDITION, (word.casefold(), is_open), limit)


def count_named(connection: Connection, word: str, *, is_open: bool = False) -> int:
    """Return the number of tasks that match the word. `named` returns the newest of these tasks."""
    connection.create_function("folded", 1, str.casefold, deterministic=True)
    sql = f"SELECT count(*) FROM tasks {NAME_CONDITION}"
    (number,) = connection.execute(sql, (word.casefold(), is_open)).fetchone()
    return int(number)


def count(connection: Connection, task: int | None = None) -> int:
    """Return the number of tasks, or of steps of one task."""
    if task is None:
        (number,) = connection.execute("SELECT count(*) FROM tasks").fetchone()
    else:
        (number,) = connection.execute("SELECT count(*) FROM steps WHERE task = ?", (task,)).fetchone()
    return int(number)


def _tasks(connection: Connection, where: str, values: Iterable[object], limit: int = 1) -> list[Task]:
    """Return the newest tasks that match an SQL condition, oldest first, with the limits of `named`."""
    current_number = current(connection)
    sql = f"SELECT id, name, created, completed FROM tasks {where} ORDER BY id DESC LIMIT ?"
    tasks: list[Task] = []
    remaining_characters = MAX_CHARACTERS
    for number, name, created, completed in connection.execute(sql, (*values, limit)).fetchall():
        steps = _steps(connection, number)
        remaining_characters -= len(name) + sum(len(step.text) + STEP_OVERHEAD_CHARS for step in steps)
        if tasks and remaining_characters < 0:
            break
        tasks.append(Task(number, name, created, completed, number == current_number, steps))
    return tasks[::-1]


def _steps(connection: Connection, task: int) -> tuple[Step, ...]:
    sql = "SELECT id, text, completed FROM steps WHERE task = ? ORDER BY id"
    return tuple(Step(*row) for row in connection.execute(sql, (task,)))
