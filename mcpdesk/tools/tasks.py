"""TaskManager: task lists that outlive their conversation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from mcpdesk.errors import HandlerError
from mcpdesk.protocol import content
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.authoring import tool
from mcpdesk.server.offer.tool import ToolResult
from mcpdesk.storage import tasks
from mcpdesk.tools import stripped_text

if TYPE_CHECKING:
    from sqlite3 import Connection

NAME_LIMIT = 500
"""Maximum characters of a task's name."""
TEXT_LIMIT = 10_000
"""Maximum characters of a step."""
MAX_TASKS = 10_000
MAX_STEPS = 1_000
MAX_LISTED_TASKS = 200
"""Maximum number of tasks that `list` and `pending` return. The newest tasks come first."""
READ_ACTIONS = frozenset(("list", "pending"))
"""Actions that change nothing."""

Action = Literal["create", "add", "complete", "list", "pending", "switch"]


class Step(Struct, frozen=True):
    """One step of a task."""

    step_id: int
    text: str
    done: bool


class Task(Struct, frozen=True):
    """A task and its steps."""

    task_id: int
    name: str
    done: bool
    current: bool
    steps: tuple[Step, ...]


class Tasks(Struct, frozen=True):
    """Affected tasks.

    Attributes:
        step_id: Step that was added or completed
    """

    tasks: tuple[Task, ...]
    step_id: int | None = None


class _Request(Struct, frozen=True):
    query: str
    task_id: int | None
    step_id: int | None
    text: str | None


@tool(
    name="TaskManager",
    title="Manage tasks",
    read_only=False,
    destructive=False,
    idempotent=False,
    open_world=False,
    while_planning=("list", "pending"),
)
async def task_manager(
    action: Action,
    query: str,
    ctx: Context,
    task_id: int | None = None,
    step_id: int | None = None,
    text: str | None = None,
) -> ToolResult[Tasks]:
    """Manage persistent tasks with create/add/complete. create makes a task named `query` and selects it as
    the current one; add appends the step `text` to it, or to `task_id`; complete marks the step `step_id`, or
    the whole task, as done; list and pending show tasks whose name contains `query` (empty: all); switch
    selects `task_id` as the current task.

    Args:
        action: Action: create, add, complete, list, pending, switch
        query: The search query
        task_id: Task ID
        step_id: Step ID
        text: Task name or step text
    """
    request = _Request(query, task_id, step_id, text)
    affected_tasks, message, changed_step_id = await ctx.hosted.data.run(
        lambda connection: _ACTION_FUNCTIONS[action](connection, request)
    )
    if action not in READ_ACTIONS:
        ctx.hosted.todo.mark_stale()
    body = Tasks(tuple(_result_task(task) for task in affected_tasks), changed_step_id)
    return ToolResult((content.text("\n".join([message, *map(_task_text, body.tasks)])),), body)


_ActionResult = tuple[list[tasks.Task], str, int | None]
"""Affected tasks, a message, and the number of the step that was added or completed, or None."""


def _create(connection: Connection, request: _Request) -> _ActionResult:
    name = stripped_text("query", request.query or request.text, NAME_LIMIT)
    if tasks.count(connection) >= MAX_TASKS:
        raise HandlerError(f"{MAX_TASKS} tasks exist already, which is the limit")
    number = tasks.create(connection, name)
    return [_task(connection, number)], f"Created task {number}, now the current one:", None


def _add(connection: Connection, request: _Request) -> _ActionResult:
    text = stripped_text("text", request.text or request.query, TEXT_LIMIT)
    task = _selected_task(connection, request)
    if tasks.count(connection, task.id) >= MAX_STEPS:
        raise HandlerError(f"task {task.id} has {MAX_STEPS} steps already, which is the limit")
    step = tasks.add(connection, task.id, text)
    return [_task(connection, task.id)], f"Added step {step} to task {task.id}:", step


def _complete(connection: Connection, request: _Request) -> _ActionResult:
    task = _selected_task(connection, request)
    step = request.step_id
    if step is not None and step not in [each.id for each in task.steps]:
        step_ids = ", ".join(str(each.id) for each in task.steps) or "none"
        raise HandlerError(f"step_id: task {task.id} has no step {step}; its steps: {step_ids}")
    tasks.complete(connection, task.id, step)
    completed_item = f"task {task.id}" if step is None else f"step {step} of task {task.id}"
    return [_task(connection, task.id)], f"Completed {completed_item}:", step


def _list(connection: Connection, request: _Request, *, is_open: bool = False) -> _ActionResult:
    word = request.query.strip()
    matching = tasks.named(connection, word, MAX_LISTED_TASKS, is_open=is_open)
    total = tasks.count_named(connection, word, is_open=is_open)
    return matching, _count_text(len(matching), total, "pending task" if is_open else "task", word), None


def _switch(connection: Connection, request: _Request) -> _ActionResult:
    task = _selected_task(connection, request, by_name=True)
    tasks.switch(connection, task.id)
    return [_task(connection, task.id)], f"Task {task.id} is the current one:", None


_ACTION_FUNCTIONS: dict[str, Callable[[Connection, _Request], _ActionResult]] = {
    "create": _create,
    "add": _add,
    "complete": _complete,
    "list": _list,
    "pending": partial(_list, is_open=True),
    "switch": _switch,
}


def _selected_task(connection: Connection, request: _Request, *, by_name: bool = False) -> tasks.Task:
    """Return the task with the number `task_id`. Without a number, return the task named by `query` if
    `by_name` is true, otherwise the current task.
    """
    if request.task_id is not None:
        return _task(connection, request.task_id)
    if by_name:
        word = stripped_text("task_id or query", request.query, NAME_LIMIT)
        matching = tasks.named(connection, word, 1)
        if tasks.count_named(connection, word) != 1:
            quantity = "more than one task" if matching else "no task"
            raise HandlerError(
                f"query: {quantity} has a name that contains {request.query!r}; give its task_id"
            )
        return matching[0]
    number = tasks.current(connection)
    if number is None:
        raise HandlerError("task_id: is missing, and no task is current; create one first")
    return _task(connection, number)


def _task(connection: Connection, number: int) -> tasks.Task:
    task = tasks.find(connection, number)
    if task is None:
        raise HandlerError(f"task_id: no task {number}; `list` shows all")
    return task


def _count_text(returned: int, total: int, noun: str, word: str) -> str:
    condition = f" with {word[:80]!r}" if word else ""
    if not returned:
        return f"No {noun}{condition}."
    limit_text = f", the newest {returned} of them" if returned < total else ""
    return f"{total} {noun}{'s' if total > 1 else ''}{condition}{limit_text}:"


def _result_task(task: tasks.Task) -> Task:
    steps = tuple(Step(step.id, step.text, step.completed is not None) for step in task.steps)
    return Task(task.id, task.name, task.completed is not None, task.is_current, steps)


def _task_text(task: Task) -> str:
    mark = " (current)" if task.current else ""
    steps = (f"  {step.step_id}. {_box(step.done)} {step.text}" for step in task.steps)
    return "\n".join([f"{_box(task.done)} {task.task_id} {task.name}{mark}", *steps])


def _box(is_done: bool) -> str:
    return "[x]" if is_done else "[ ]"
