"""Sections of the activity screen for data that servers store for clients: callbacks, task lists, plans."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import ClassVar, TypeAlias

from rich.cells import cell_len
from textual import work
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Static

from mcpdesk.link.link import Link
from mcpdesk.link.values import CallbackView, CoreView, PlanView, StepView, TodoView
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.following import TICK_S
from mcpdesk.tui.render.amounts import clock, countdown, seconds_until_since_changes, since
from mcpdesk.tui.render.safe_text import clean, ending, one_line
from mcpdesk.tui.widgets.beside import takes_turns
from mcpdesk.tui.widgets.line_list import Span, column
from mcpdesk.tui.widgets.menu import Choice, is_confirmed
from mcpdesk.tui.widgets.section import Detail, Section

MIN_WIDTH_WITH_PEER = 90
"""Width in cells below which the peer column is hidden."""
STATE_CELLS, TIME_CELLS, REPEATS_CELLS, PEER_CELLS = 11, 10, 9, 18
"""Widths in cells of the columns of a callback."""
PLAN_READ_S = 1.0
"""Seconds between two reads of the file of an active plan, while the section is shown."""
INACTIVE_PLAN_READ_S = 5.0
"""Seconds between two reads of the file of a plan that is no longer active."""
MARKDOWN_LIMIT = 16_000
"""Maximum length in characters of a plan that is shown as Markdown. Longer plans are shown as plain text."""


def state_of(callback: CallbackView) -> tuple[str, str, str]:
    """Return glyph, word and style of a callback's state."""
    if callback.due is not None:
        return "◷", "waiting", "lines--key"
    if callback.is_cancelled:
        return "⊘", "cancelled", "lines--muted"
    return "✓", "fired", "lines--good"


def core_suffix(core: str) -> str:
    """Return text such as ` on web-1`, or "" if there is only one core."""
    return f" on {one_line(core, 30)}" if core else ""


def repeat_text(callback: CallbackView) -> str:
    """Return the number of repeats that remain or have happened, such as `3 left` or `4 of 4`."""
    if callback.due is not None:
        return f"{callback.repeat_count - callback.fired} left"
    return f"{callback.fired} of {callback.repeat_count}"


class CallbackPanel(Section[CallbackView]):
    """Callbacks of all servers: next time, repeats, client, and message."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("callbacks")
    title = "Callbacks"
    empty_message = (
        "No callbacks",
        "A client sets a callback to be reminded: the server sends the message back after a delay, once or "
        "several times, even after a restart.\n\n"
        'Built in: add "SetCallback" to `builtins` in mcp.json; clients can then call it.\n\n'
        "To see one now, call SetCallback in the workbench (1): action set, a message, delay_seconds 60.",
    )
    back_action = "activity.back"

    def version_of(self, view: CoreView) -> int:
        return view.work.callbacks_version

    def fetch(self) -> Sequence[CallbackView]:
        """Return the scheduled callbacks by due time. The ended callbacks follow, the newest first."""

        def sort_key(callback: CallbackView) -> tuple[bool, float]:
            if callback.due is not None:
                return False, callback.due
            return True, -(callback.last_fired or callback.created)

        return sorted(self.link.callbacks(), key=sort_key)

    def count_of(self, rows: Sequence[CallbackView]) -> str:
        waiting_count = sum(callback.due is not None for callback in rows)
        return f"◷{waiting_count}" if waiting_count else ""

    def keys_of(self, row: CallbackView) -> tuple[Hashable]:
        return ((row.server, row.id),)

    def spans(self, row: CallbackView, width: int) -> Iterable[Span]:
        glyph, word, style = state_of(row)
        yield f" {glyph} {word:<{STATE_CELLS - 2}} ", style
        time_text = f"{since(self.now - (row.last_fired or row.created))} ago"
        if row.due is not None:
            countdown_text = countdown(row.due - self.now)
            time_text = countdown_text if countdown_text == "now" else f"in {countdown_text}"
        yield f"{time_text:>{TIME_CELLS}}  ", "lines--number" if row.due else "lines--muted"
        yield f"{repeat_text(row):<{REPEATS_CELLS}}  ", "lines--muted"
        room = width - STATE_CELLS - TIME_CELLS - REPEATS_CELLS - 8
        if width >= MIN_WIDTH_WITH_PEER:
            yield column(f"{row.core} {row.peer}".lstrip(), PEER_CELLS) + "  ", "lines--key"
            room -= PEER_CELLS + 2
        yield one_line(row.message, max(room, 1)), ""

    def texts_of(self, row: CallbackView) -> Iterable[str]:
        return row.message, row.peer, row.server, row.core

    def detail_of(self, row: CallbackView) -> tuple[str, Content]:
        message = Content.styled(clean(row.message), "bold")
        facts = Content.styled(_facts_text(row), "$text-muted")
        title = f"callback {row.own_id} of {one_line(row.server, 30)}{core_suffix(row.core)}"
        return title, Content("\n\n").join([message, facts])

    def copy_choices(self, row: CallbackView) -> list[Choice]:
        facts = _facts_text(row)
        return [Choice("message", row.message, row.message, "m"), Choice("facts", facts, facts, "a")]

    def seconds_until_change(self, row: CallbackView) -> float:
        if row.due is not None:
            return TICK_S
        return seconds_until_since_changes(self.now - (row.last_fired or row.created))

    def update_ages(self) -> None:
        super().update_ages()
        self.show_detail()

    def action_fire(self) -> None:
        """Fire the selected callback now."""
        if callback := self._waiting_callback():
            self.link.fire_callback(callback.server, callback.id)

    @work
    async def action_cancel(self) -> None:
        """Cancel the selected callback after a confirmation."""
        if callback := self._waiting_callback():
            cancel = Choice("cancel it", True, f"{repeat_text(callback)}; it does not fire again")
            if await is_confirmed(self.app, f"Cancel callback {callback.own_id}?", cancel, "keep it"):
                self.link.cancel_callback(callback.server, callback.id)

    def _waiting_callback(self) -> CallbackView | None:
        """Return the selected callback. If it is not waiting, notify the person and return None."""
        callback = self.listing.selected
        if callback is None or callback.due is None:
            self.notify("No waiting callback is selected.", markup=False)
            return None
        return callback


def _facts_text(callback: CallbackView) -> str:
    _, word, _ = state_of(callback)
    due_text = last_text = ""
    if callback.due is not None:
        due_text = f", next at {clock(callback.due)[:8]} ({countdown(callback.due - time.time())})"
    if callback.last_fired is not None:
        last_text = f", last at {clock(callback.last_fired)[:8]}"
    lines = (
        f"{word}{due_text}",
        f"fired {callback.fired} of {callback.repeat_count} times{last_text}, every {callback.delay_s:g} s",
        f"set at {clock(callback.created)[:8]} by {one_line(callback.peer, 40)}",
        f"callback://{callback.own_id}",
    )
    return "\n".join(lines)


TodoRow: TypeAlias = tuple[TodoView, StepView | None]
"""Task, and one of its steps. The step is None for the row of the task itself."""


class TodoPanel(Section[TodoRow]):
    """Task lists of all servers. The steps of a task are shown below the task."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("todo")
    DEFAULT_CSS = """
    TodoPanel.-low > .body > LineList { height: 1fr; max-height: 100%; }
    TodoPanel.-low > .body > .detail { height: 5; }
    """
    title = "Tasks"
    empty_message = (
        "No tasks",
        "Clients keep to-do lists here and tick off finished steps. The lists outlive the clients.\n\n"
        'Built in: add "TaskManager" to `builtins` in mcp.json; clients can then call it.\n\n'
        "To see one now, call TaskManager in the workbench (1): action create, query Release 1.2; "
        "then action add, query empty, text Write the changelog.",
    )
    may_take_turns = False

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._fold_choices: dict[Hashable, bool] = {}
        """True if the person folded a task, False if the person unfolded it, by server and task id."""

    def on_resize(self) -> None:
        """Leave the space of a low pane to the list."""
        self.set_class(takes_turns(self), "-low")
        super().on_resize()

    def version_of(self, view: CoreView) -> int:
        return view.work.todo_version

    def fetch(self) -> Sequence[TodoRow]:
        """Return the current task, then open tasks, then completed tasks, the newest first in each group.

        Completed tasks are folded, unless the person unfolded them.
        """
        rows: list[TodoRow] = []

        def sort_key(task: TodoView) -> tuple[bool, bool, float]:
            return not task.is_current, task.completed is not None, -task.created

        for task in sorted(self.link.todo(), key=sort_key):
            rows.append((task, None))
            if not self._is_folded(task):
                rows += [(task, step) for step in task.steps]
        return rows

    def count_of(self, rows: Sequence[TodoRow]) -> str:
        unfinished_count = sum(step is None and task.completed is None for task, step in rows)
        if unfinished_count:
            return f"○{unfinished_count}"
        return "✓" if rows else ""

    def keys_of(self, row: TodoRow) -> tuple[Hashable, ...]:
        task, step = row
        task_key = (task.server, task.id, 0)
        return (task_key,) if step is None else ((task.server, task.id, step.id), task_key)

    def spans(self, row: TodoRow, width: int) -> Iterable[Span]:
        task, step = row
        if step is not None:
            is_done = step.completed is not None
            sign, style = ("✓ [x]", "lines--good") if is_done else ("  [ ]", "")
            yield f"     {sign} {step.id:>2} ", style
            yield one_line(step.text, max(1, width - 14)), "lines--muted" if is_done else ""
            return
        is_done = task.completed is not None
        fold_glyph = "▸" if self._is_folded(task) else "▾"
        yield f" {fold_glyph if task.steps else ' '} ", "lines--muted"
        if is_done:
            yield "✓ done    ", "lines--good"
        elif task.is_current:
            yield "● current ", "lines--key"
        else:
            yield "○ open    ", ""
        steps_note = f"  {task.done}/{len(task.steps)}" if task.steps else "  no steps"
        has_several_servers = len({other_task.server for other_task, _ in self.rows}) > 1
        server_note = f"  {one_line(task.server, 20)}" if has_several_servers else ""
        # A completed task may also be the current one.
        current_note = "  current" if is_done and task.is_current else ""
        room = width - 14 - cell_len(steps_note + server_note + current_note) - 6
        yield f"{task.own_id:>3}  ", "lines--muted"
        yield one_line(task.name, max(room, 1)), "lines--muted" if is_done else "lines--head"
        yield steps_note, "lines--number"
        yield current_note, "lines--key"
        yield server_note, "lines--muted"

    def texts_of(self, row: TodoRow) -> Iterable[str]:
        task, _ = row
        return task.name, *(step.text for step in task.steps)

    def detail_of(self, row: TodoRow) -> tuple[str, Content]:
        task, step = row
        title = f"task {task.own_id} of {one_line(task.server, 30)}{core_suffix(task.core)}"
        text, completion_time = task.name, task.completed
        if step is not None:
            title = f"{title}, step {step.id}"
            text, completion_time = step.text, step.completed
        facts = [f"begun at {clock(task.created)[:8]}", f"{task.done} of {len(task.steps)} steps done"]
        facts.append("open" if completion_time is None else f"completed at {clock(completion_time)[:8]}")
        facts_line = Content.styled(" · ".join(facts), "$text-muted")
        return title, Content("\n\n").join([Content.styled(clean(text), "bold"), facts_line])

    def copy_choices(self, row: TodoRow) -> list[Choice]:
        task, step = row
        text, line = _markdown(task), task.name if step is None else step.text
        return [Choice("task with steps", text, text, "t"), Choice("this line", line, line, "l")]

    async def action_open(self) -> None:
        """Fold or unfold the selected task."""
        self.action_fold()

    def action_fold(self) -> None:
        """Fold or unfold the selected task."""
        if self.listing.selected is not None:
            task, _ = self.listing.selected
            self._fold_choices[task.server, task.id] = not self._is_folded(task)
            self.load()

    def _is_folded(self, task: TodoView) -> bool:
        return self._fold_choices.get((task.server, task.id), task.completed is not None)


def _markdown(task: TodoView) -> str:
    steps = (f"- [{'x' if step.completed is not None else ' '}] {step.text}" for step in task.steps)
    return "\n".join([f"# {task.name}", "", *steps]).rstrip()


class PlanPanel(Section[PlanView]):
    """Active plans of each server, or its last plan if none is active. The details show the plan file."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("plan")
    DEFAULT_CSS = """
    PlanPanel Markdown { padding: 0; margin: 0; background: transparent; }
    PlanPanel MarkdownH1 { margin: 0; content-align: left middle; }
    """
    title = "Plan"
    empty_message = (
        "No plans",
        "In plan mode a client can read but not change anything: tools that are not read-only are refused "
        "until it finishes its plan, a Markdown file. The plan appears here while the client writes it.\n\n"
        'Built in: add "PlanMode" to `builtins` in mcp.json; clients can then call it.\n\n'
        "To see it now, call PlanMode in the workbench (1): action enter, goal Tidy up. "
        "Action exit ends it.",
    )
    may_take_turns = False

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._plans: tuple[PlanView, ...] = ()
        self._shown_file = ""
        """Path of the plan file whose text is shown, or "" until a file was read."""
        self._shown_text: str | None = None
        """Text of this file, or None if it cannot be read."""

    def version_of(self, view: CoreView) -> Hashable:
        self._plans = view.work.plans
        return self._plans, self.app.server

    def fetch(self) -> Sequence[PlanView]:
        """Return the plan of the selected server, then active plans, then the other plans."""
        return sorted(self._plans, key=lambda plan: (plan.server != self.app.server, not plan.is_active))

    def count_of(self, rows: Sequence[PlanView]) -> str:
        active_count = sum(plan.is_active for plan in rows)
        if active_count > 1:
            return f"on ({active_count})"
        return "on" if active_count else ""

    def keys_of(self, row: PlanView) -> tuple[Hashable]:
        return ((row.server, row.session),)

    def spans(self, row: PlanView, width: int) -> Iterable[Span]:
        if row.is_active:
            yield " ● plan mode is ON ", "lines--warn"
        else:
            yield " ○ plan mode is off", "lines--muted"
        yield f"  {one_line(row.server, 30)}", "lines--key"
        if row.client:
            yield f"  {one_line(row.client, 30)}", "lines--muted"
        yield f"  {one_line(row.goal)}", "lines--head"
        if row.is_active:
            yield "  tools that are not read-only are refused", "lines--muted"

    def texts_of(self, row: PlanView) -> Iterable[str]:
        return row.goal, row.server, row.file, row.client

    def detail_of(self, row: PlanView) -> tuple[str, Content]:
        title = f"since {_local_time_text(row.since)} · {ending(row.file, max(20, self.detail_cells - 36))}"
        if row.file != self._shown_file:
            return title, Content("")
        return title, Content(clean(self._shown_text or f"{row.file} cannot be read."))

    def copy_choices(self, row: PlanView) -> list[Choice]:
        choices = [Choice("file", row.file, row.file, "f"), Choice("goal", row.goal, row.goal, "g")]
        if row.file == self._shown_file and self._shown_text:
            choices.insert(0, Choice("plan", self._shown_text, self._shown_text, "p"))
        return choices

    def update_clock(self, view: CoreView, now: float) -> None:
        """Read the file of the selected plan again."""
        if (plan := self.listing.selected) is not None:
            source = partial(self.link.plan_text, plan.server, plan.session)
            self.read("plan", PLAN_READ_S, source, partial(self._show_text, plan.file))

    def tick_s(self) -> float | None:
        """Return the seconds until the plan file must be read again. An active plan is read more often."""
        plan = self.listing.selected
        if plan is None:
            return None
        return PLAN_READ_S if plan.is_active else INACTIVE_PLAN_READ_S

    @work
    async def action_end(self) -> None:
        """Ask for confirmation, then end the plan mode of the client that made the selected plan."""
        plan = self.listing.selected
        if plan is None or not plan.is_active:
            self.notify("No active plan is selected.", markup=False)
            return
        client = one_line(plan.client, 40) or "its client"
        confirm = Choice("end it", True, f"{client} may call tools that change things; the plan is kept")
        if await is_confirmed(self.app, f"End plan mode of {client}?", confirm, "keep it"):
            self.link.end_plan(plan.server, plan.session)

    def show_detail(self) -> None:
        super().show_detail()
        plan = self.listing.selected
        if self._shown_file and plan is not None and plan.file != self._shown_file:
            self._shown_file, self._shown_text = "", None
            self._show_markdown("")
            self.read_now("plan")

    def _show_text(self, file: str, text: str | None) -> None:
        plan = self.listing.selected
        if plan is None or file != plan.file or (file, text) == (self._shown_file, self._shown_text):
            return
        self._shown_file, self._shown_text = file, text
        self.show_detail()
        self._show_markdown(clean(text) if text and len(text) <= MARKDOWN_LIMIT else "")

    def _show_markdown(self, text: str) -> None:
        """Show a text as Markdown instead of the plain text. If it is empty, show the plain text again."""
        from textual.widgets import Markdown  # slow to import, and rarely needed

        detail = self.query_one(Detail)
        widgets = detail.query(Markdown)
        for markdown in widgets:
            markdown.display = bool(text)
            markdown.update(text)
        if text and not widgets:
            detail.mount(Markdown(text, open_links=False))
        detail.query(Static).first().display = not text


def _local_time_text(iso_time: str) -> str:
    """Format an ISO 8601 time as local time. An invalid time is returned as it is, cut to 25 cells."""
    try:
        return f"{datetime.fromisoformat(iso_time).astimezone():%Y-%m-%d %H:%M}"
    except ValueError:
        return one_line(iso_time, 25)
