"""The plan on the activity screen: whether plan mode is on, and the plan file as it is being written."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import ClassVar

from textual import work
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.css.query import NoMatches
from textual.widget import Widget
from textual.widgets import Static

from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView, PlanView
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.activity.section import Detail, Section
from mcpdesk.tui.render.safe_text import clean, ending, one_line
from mcpdesk.tui.widgets.menu import Choice

READ_S = 1.0
"""Seconds between two reads of the file, while the section is shown."""
MARKDOWN_LIMIT = 16_000
"""Characters up to which a plan is shown as Markdown; a longer one is shown as plain text."""


class PlanPanel(Section):
    """The mode above, the plan below: the plan of the server shown, else an active one, else the first."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("plan")
    DEFAULT_CSS = """
    PlanPanel {
        & .mode { height: auto; padding: 0 1; }
        & Markdown { padding: 0; margin: 0; background: transparent; }
        & MarkdownH1 { margin: 0; content-align: left middle; }
        &.-beside > .body { layout: vertical; }
        &.-beside > .body > .detail { width: 100%; }
    }
    """
    title = "Plan"
    can_filter = False
    lesson = (
        "Nothing is being planned",
        "In plan mode a client may look at everything and change nothing: tools that are not read-only are "
        "refused until its plan, a Markdown file, is made. It is shown here while it is being written.\n\n"
        'Built in: put "PlanMode" into `builtins` of mcp.json; clients may call it from then on.\n\n'
        "To see it now, call PlanMode in the workbench (1): action enter, goal Tidy up. "
        "Action exit ends it.",
    )

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._plan: PlanView | None = None
        self._text: str | None = None
        self._next_read = 0.0

    def parts(self) -> Iterable[Widget]:
        yield Static(classes="mode", markup=False)
        yield Detail(classes="detail")

    @property
    def listing(self) -> Widget:
        """The text: there is no list."""
        return self.query_one(Detail)

    def update_data(self, view: CoreView) -> None:
        plans = view.work.plans
        self.count = "on" if view.work.is_planning else ""
        mine = [plan for plan in plans if plan.server == self.app.server]
        active = [plan for plan in plans if plan.is_active]
        plan = next(iter((*mine, *active, *plans)), None)
        if plan != self._plan:
            if self._plan is None or plan is None or plan.file != self._plan.file:
                self._text, self._next_read = None, 0.0
            self._plan = plan
            self.query_one(".mode", Static).update(Content("") if plan is None else _mode(plan))
        self.set_empty(is_empty=plan is None)

    def update_clock(self, view: CoreView, now: float) -> None:
        """Read the file again each second."""
        if self._plan is not None and time.monotonic() >= self._next_read:
            self._next_read = float("inf")
            self._read(self._plan)

    @work
    async def action_copy(self) -> None:
        """Copy the plan, its file or its goal."""
        plan = self._plan
        if plan is None:
            return
        choices = [Choice("file", plan.file, plan.file, "f"), Choice("goal", plan.goal, plan.goal, "g")]
        if self._text:
            choices.insert(0, Choice("plan", self._text, self._text, "p"))
        await self.copy_one_of(choices)

    @work(group="plan")
    async def _read(self, plan: PlanView) -> None:
        """Read the file in a thread."""
        try:
            text = await asyncio.to_thread(self.link.plan_text, plan.server)
        finally:
            self._next_read = time.monotonic() + READ_S
        if plan.file == (self._plan.file if self._plan else "") and text != self._text:
            self._text = text
            with suppress(NoMatches):  # the screen may be taken down meanwhile
                await self._show(text, plan)

    async def _show(self, text: str | None, plan: PlanView) -> None:
        detail = self.query_one(Detail)
        detail.border_title = Content(ending(plan.file, max(0, detail.size.width - 6)))
        shown = clean(text) if text is not None else f"{clean(plan.file)} cannot be read."
        is_markdown = text is not None and len(text) <= MARKDOWN_LIMIT
        plain = detail.query_one(Static)
        plain.display = not is_markdown
        for made in detail.query("Markdown"):
            made.display = is_markdown
        if is_markdown:
            await _markdown(detail, shown)
        else:
            plain.update(Content(shown))


async def _markdown(detail: VerticalScroll, text: str) -> None:
    from textual.widgets import Markdown  # slow to import, and most screens show none

    for made in detail.query(Markdown):
        await made.update(text)
        return
    await detail.mount(Markdown(text, open_links=False))


def _moment(written: str) -> str:
    """A time in ISO 8601 as local time."""
    try:
        return f"{datetime.fromisoformat(written).astimezone():%Y-%m-%d %H:%M}"
    except ValueError:
        return one_line(written, 25)


def _mode(plan: PlanView) -> Content:
    since = _moment(plan.since)
    if plan.is_active:
        head = Content.assemble(
            ("● plan mode is ON", "bold $text-warning"),
            (f"  since {since} · tools that are not read-only are refused", "$text-muted"),
        )
    else:
        head = Content.styled(f"○ plan mode is off · what was planned last, since {since}", "$text-muted")
    goal = Content.assemble((f"{one_line(plan.server, 30)}  ", "$text-accent"), (clean(plan.goal), "bold"))
    return Content("\n").join([head, goal])
