"""Tasks and their steps as rows that can be folded: what is done is ticked, the current task is marked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len

from mcpdesk.link.values import StepView, TodoView
from mcpdesk.tui.render.text import one_line
from mcpdesk.tui.widgets.line_list import Span
from mcpdesk.tui.widgets.section import SectionList

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
