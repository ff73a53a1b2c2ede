"""The activity screen: questions, jobs, callbacks, task lists and the plan, one section at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import ContentSwitcher

from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.activity.inbox_panel import InboxPanel
from mcpdesk.tui.activity.job_panel import JobPanel
from mcpdesk.tui.activity.kept_panels import CallbackPanel, PlanPanel, TodoPanel
from mcpdesk.tui.widgets.choice_box import TabStrip
from mcpdesk.tui.widgets.section import Section

if TYPE_CHECKING:
    from mcpdesk.tui.app import DeskApp

SECTIONS: dict[str, Callable[[Link], Section[Any]]] = {
    "inbox": InboxPanel,
    "jobs": JobPanel,
    "callbacks": CallbackPanel,
    "tasks": TodoPanel,
    "plan": PlanPanel,
}
"""Name -> section, in the order of the tabs."""


class ActivityPane(Vertical):
    """A line of tabs with counts, and the section that is shown."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("activity")
    DEFAULT_CSS = """
    ActivityPane > TabStrip { background: $surface; }
    ActivityPane > ContentSwitcher { height: 1fr; }
    """
    app: DeskApp

    def __init__(self, link: Link) -> None:
        super().__init__()
        self.sections = {name: kind(link) for name, kind in SECTIONS.items()}
        for name, section in self.sections.items():
            section.id = f"part-{name}"
        self._has_looked = False

    def compose(self) -> ComposeResult:
        yield TabStrip([section.title for section in self.sections.values()])
        with ContentSwitcher(initial="part-inbox"):
            yield from self.sections.values()

    @property
    def shown(self) -> str:
        """Name of the section that is shown."""
        return list(self.sections)[self.query_one(TabStrip).current]

    @property
    def section(self) -> Section[Any]:
        """The section that is shown."""
        return self.sections[self.shown]

    def show_view(self, view: CoreView) -> None:
        """Update the data of all sections, and the clocks of the one that is shown."""
        for section in self.sections.values():
            section.update_data(view)
        if not self._has_looked:
            self._has_looked = True
            busy = (name for name, section in self.sections.items() if section.count)
            self.show_section(next(busy, "inbox"))
        self.section.update_clock(view, time.time())
        if self.screen.focused is None:
            self.section.entry.focus()
        titles = [f"{section.title} {section.count}".rstrip() for section in self.sections.values()]
        self.query_one(TabStrip).show(titles)

    def show_section(self, name: str) -> None:
        """Show a section."""
        self.query_one(TabStrip).pick(list(self.sections).index(name))

    def action_show_tab(self, by: int) -> None:
        """Show the next or previous section."""
        self.query_one(TabStrip).action_step(by)

    def action_filter(self) -> None:
        """Go to the filter."""
        self.section.action_filter()

    def action_back(self) -> None:
        """Go from the detail to the list, then drop the filter."""
        self.section.action_back()

    @on(TabStrip.Picked)
    def _picked(self) -> None:
        had_focus = self.has_focus_within
        self.query_one(ContentSwitcher).current = f"part-{self.shown}"
        if had_focus or self.screen.focused is None:
            self.section.entry.focus()
