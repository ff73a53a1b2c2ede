"""The task lists of the activity screen: what clients have noted down to do, and how far they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual import on, work
from textual.binding import BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView, TodoView
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.render.since import clock
from mcpdesk.tui.render.text import clean, one_line
from mcpdesk.tui.widgets.menu import Choice, Menu
from mcpdesk.tui.widgets.section import Detail, Section
from mcpdesk.tui.widgets.todo_list import TodoList


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
