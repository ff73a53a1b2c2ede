"""Tasks and their steps as rows that can be folded: what is done is ticked, the current task is marked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual import on, work
from textual.binding import BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView, StepView, TodoView
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.activity.section import Detail, Section, SectionList
from mcpdesk.tui.render.amounts import clock
from mcpdesk.tui.render.safe_text import clean, one_line
from mcpdesk.tui.widgets.line_list import Span
from mcpdesk.tui.widgets.menu import Choice, Menu

Row = tuple[TodoView, StepView | None]
"""A task, and its step; None is the task itself."""


class TodoList(SectionList):
    """The current task first, then open ones, then what is done; newest first each. Done ones are folded."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Row] = []
        self._tasks: tuple[TodoView, ...] = ()
        self._folded: dict[tuple[str, int], bool] = {}
        """What the person folded or unfolded."""
        self._names_servers = False

    @property
    def selected(self) -> Row | None:
        """The task under the cursor, and its step if it is one."""
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    @property
    def row_count(self) -> int:
        return len(self.rows)

    def show(self, tasks: Sequence[TodoView]) -> None:
        """Take the tasks as they are now; the selected row stays selected."""
        self._names_servers = len({task.server for task in tasks}) > 1
        self._tasks = tuple(
            sorted(tasks, key=lambda task: (not task.is_current, task.completed is not None, -task.created))
        )
        self._lay_out()

    def fold(self) -> None:
        """Fold the selected task, or unfold it."""
        if self.selected is not None:
            task, _ = self.selected
            self._folded[_key((task, None))[:2]] = not self._is_folded(task)
            self._lay_out()

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
        yield (
            "✓ done    " if is_done else "● current " if task.is_current else "○ open    ",
            ("lines--good" if is_done else "lines--key" if task.is_current else ""),
        )
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

    def _lay_out(self) -> None:
        chosen = None if self.selected is None else _key(self.selected)
        self.rows = []
        for task in self._tasks:
            self.rows.append((task, None))
            if not self._is_folded(task):
                self.rows += [(task, step) for step in task.steps]
        places = {_key(row): at for at, row in enumerate(self.rows)}
        keys = () if chosen is None else (chosen, (*chosen[:2], 0))
        self.settle(places[key] for key in keys if key in places)


def _key(row: Row) -> tuple[str, int, int]:
    task, step = row
    return task.server, task.id, 0 if step is None else step.id


class TodoPanel(Section):
    """Tasks with their steps above, the selected one in full below."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("todo")
    title = "Tasks"
    lesson = (
        "No task was noted down",
        "Clients keep lists of what they have to do, and tick off what is done. The lists outlive them.\n\n"
        'Built in: put "TaskManager" into `builtins` of mcp.json; clients may call it from then on.\n\n'
        "To see one now, call TaskManager in the workbench (1): action create, query Release 1.2; "
        "then action add, query empty, text Write the changelog.",
    )

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._version: int | None = None
        self._tasks: tuple[TodoView, ...] = ()

    def parts(self) -> Iterable[Widget]:
        """Rows, detail."""
        yield TodoList()
        yield Detail(classes="detail")

    @property
    def todo(self) -> TodoList:
        """The rows."""
        return self.query_one(TodoList)

    def take(self, view: CoreView) -> None:
        """Take the lists when they changed."""
        if view.work.todo_version != self._version:
            self._version = view.work.todo_version
            self._tasks = self.link.todo()
            unfinished = sum(task.completed is None for task in self._tasks)
            self.count = f"○{unfinished}" if unfinished else "✓" if self._tasks else ""
            self.set_empty(is_empty=not self._tasks)
            self.narrow()

    def narrow(self) -> None:
        """Show the tasks that have the words, in their name or in a step."""
        shown = [task for task in self._tasks if self.admits(task.name, *(step.text for step in task.steps))]
        self.todo.show(shown)

    def action_fold(self) -> None:
        """Fold the selected task, or unfold it."""
        self.todo.fold()

    @work
    async def action_copy(self) -> None:
        """Copy the task as a Markdown list, or the selected row."""
        if self.todo.selected is None:
            return
        task, step = self.todo.selected
        whole, row = _markdown(task), task.name if step is None else step.text
        choices = [Choice("task with steps", whole, whole, "t"), Choice("this line", row, row, "l")]
        if text := await self.app.push_screen_wait(Menu("Copy", choices)):
            self.app.copy(text, one_line(text, 40))

    @on(TodoList.Opened)
    def _opened(self) -> None:
        self.action_fold()

    @on(TodoList.Moved)
    def _tell(self) -> None:
        detail, row = self.query_one(Detail), self.todo.selected
        detail.display = row is not None
        if row is None:
            return
        task, step = row
        is_step = "" if step is None else f", step {step.id}"
        detail.border_title = Content(f"task {task.id} of {one_line(task.server, 30)}{is_step}")
        text = task.name if step is None else step.text
        done = task.completed if step is None else step.completed
        facts = [f"begun at {clock(task.created)[:8]}", f"{task.done} of {len(task.steps)} steps done"]
        facts.append("open" if done is None else f"completed at {clock(done)[:8]}")
        said = Content.styled(clean(text), "bold")
        about = Content.styled(" · ".join(facts), "$text-muted")
        detail.query_one(Static).update(Content("\n\n").join([said, about]))


def _markdown(task: TodoView) -> str:
    steps = (f"- [{'x' if step.completed is not None else ' '}] {step.text}" for step in task.steps)
    return "\n".join([f"# {task.name}", "", *steps]).rstrip()
