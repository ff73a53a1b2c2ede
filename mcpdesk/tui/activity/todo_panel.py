"""The task lists on the activity screen: what clients have to do, and which steps are done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, TypeAlias

from rich.cells import cell_len
from textual.binding import BindingType
from textual.content import Content

from mcpdesk.link.values import CoreView, StepView, TodoView
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.activity.section import ListSection, SectionList
from mcpdesk.tui.render.amounts import clock
from mcpdesk.tui.render.safe_text import clean, one_line
from mcpdesk.tui.widgets.line_list import Span
from mcpdesk.tui.widgets.menu import Choice

TodoRow: TypeAlias = tuple[TodoView, StepView | None]
"""A task and one of its steps; None: the row of the task itself."""


class TodoList(SectionList[TodoView, TodoRow]):
    """The current task first, then open ones, then done ones; each newest first. Done ones are folded."""

    def __init__(self) -> None:
        super().__init__()
        self._tasks: Sequence[TodoView] = ()
        self._folded: dict[tuple[str, int], bool] = {}
        """(server, task id) -> whether the person folded or unfolded it."""
        self._names_servers = False

    def rows_of(self, items: Sequence[TodoView]) -> Sequence[TodoRow]:
        self._tasks = items
        self._names_servers = len({task.server for task in items}) > 1
        rows: list[TodoRow] = []
        for task in sorted(
            items, key=lambda task: (not task.is_current, task.completed is not None, -task.created)
        ):
            rows.append((task, None))
            if not self._is_folded(task):
                rows += [(task, step) for step in task.steps]
        return rows

    def keys_of(self, row: TodoRow) -> tuple[tuple[str, int, int], ...]:
        task, step = row
        own = (task.server, task.id, 0)
        return (own,) if step is None else ((task.server, task.id, step.id), own)

    def fold(self) -> None:
        """Fold or unfold the selected task."""
        if self.selected is not None:
            task, _ = self.selected
            self._folded[task.server, task.id] = not self._is_folded(task)
            self.show(self._tasks, self.now)

    def spans(self, index: int, width: int) -> Iterable[Span]:
        task, step = self.rows[index]
        if step is not None:
            is_done = step.completed is not None
            yield f"     {'✓ [x]' if is_done else '  [ ]'} {step.id:>2} ", "lines--good" if is_done else ""
            yield one_line(step.text, max(1, width - 14)), "lines--muted" if is_done else ""
            return
        is_done = task.completed is not None
        fold = " " if not task.steps else "▸" if self._is_folded(task) else "▾"
        yield f" {fold} ", "lines--muted"
        if is_done:
            yield "✓ done    ", "lines--good"
        elif task.is_current:
            yield "● current ", "lines--key"
        else:
            yield "○ open    ", ""
        steps = f"  {task.done}/{len(task.steps)}" if task.steps else "  no steps"
        where = f"  {one_line(task.server, 20)}" if self._names_servers else ""
        # A task that is done may be the current one as well.
        mark = "  current" if is_done and task.is_current else ""
        room = width - 14 - cell_len(steps + where + mark) - 6
        yield f"{task.id:>3}  ", "lines--muted"
        yield one_line(task.name, max(room, 1)), "lines--muted" if is_done else "lines--head"
        yield steps, "lines--number"
        yield mark, "lines--key"
        yield where, "lines--muted"

    def _is_folded(self, task: TodoView) -> bool:
        return self._folded.get((task.server, task.id), task.completed is not None)


class TodoPanel(ListSection[TodoView, TodoRow]):
    """The task lists of all servers."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("todo")
    title = "Tasks"
    lesson = (
        "No task was noted down",
        "Clients keep lists of what they have to do, and tick off what is done. The lists outlive them.\n\n"
        'Built in: put "TaskManager" into `builtins` of mcp.json; clients may call it from then on.\n\n'
        "To see one now, call TaskManager in the workbench (1): action create, query Release 1.2; "
        "then action add, query empty, text Write the changelog.",
    )
    list_type = TodoList

    def version_of(self, view: CoreView) -> int:
        return view.work.todo_version

    def fetch(self) -> Sequence[TodoView]:
        return self.link.todo()

    def count_of(self, items: Sequence[TodoView]) -> str:
        unfinished = sum(task.completed is None for task in items)
        return f"○{unfinished}" if unfinished else "✓" if items else ""

    def texts_of(self, item: TodoView) -> Iterable[str]:
        return item.name, *(step.text for step in item.steps)

    def detail_of(self, row: TodoRow) -> tuple[str, Content]:
        task, step = row
        title = f"task {task.id} of {one_line(task.server, 30)}"
        text, done = task.name, task.completed
        if step is not None:
            title, text, done = f"{title}, step {step.id}", step.text, step.completed
        facts = [f"begun at {clock(task.created)[:8]}", f"{task.done} of {len(task.steps)} steps done"]
        facts.append("open" if done is None else f"completed at {clock(done)[:8]}")
        about = Content.styled(" · ".join(facts), "$text-muted")
        return title, Content("\n\n").join([Content.styled(clean(text), "bold"), about])

    def copies_of(self, row: TodoRow) -> list[Choice]:
        task, step = row
        whole, line = _markdown(task), task.name if step is None else step.text
        return [Choice("task with steps", whole, whole, "t"), Choice("this line", line, line, "l")]

    def update_clock(self, view: CoreView, now: float) -> None:
        """Nothing in these rows changes with time."""

    def action_open(self) -> None:
        """Fold or unfold the selected task."""
        self.action_fold()

    def action_fold(self) -> None:
        """Fold or unfold the selected task."""
        self.query_one(TodoList).fold()


def _markdown(task: TodoView) -> str:
    steps = (f"- [{'x' if step.completed is not None else ' '}] {step.text}" for step in task.steps)
    return "\n".join([f"# {task.name}", "", *steps]).rstrip()
