"""Page of the desk with the check-up of all servers in client configurations."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static
from textual.worker import get_current_worker

from mcpdesk.errors import DeskError
from mcpdesk.features.doctor.report import Report
from mcpdesk.features.doctor.report_text import (
    MAX_TARGET_LENGTH,
    fact_lines,
    note_lines,
    report_lines,
    table_lines,
)
from mcpdesk.plain_text import clean
from mcpdesk.tui.widgets.menu import Dialog

MIN_WIDE_CELLS = 150
"""Width in cells of the screen from which the table shows long names of servers."""
NARROW_TARGET_LENGTH = 28
"""Maximum number of characters of the name of a server on a narrower screen."""
_HINTS = "⏎ all facts · r again · y copy · esc close"
_LOG = logging.getLogger(__name__)


class DoctorPage(Dialog[None]):
    """Dialog that examines all servers and shows the report. Closing it ends the check-up."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss(None)", "Close", show=False),
        Binding("j", "scroll(1)", "Down", show=False),
        Binding("k", "scroll(-1)", "Up", show=False),
        Binding("r", "again", "Again", show=False),
        Binding("y", "copy", "Copy", show=False),
        Binding("enter", "details", "Details", show=False),
    ]
    DEFAULT_CSS = """
    DoctorPage { align: center middle; }
    DoctorPage > .box { width: 96%; padding: 0 2; overflow-x: hidden; scrollbar-size-vertical: 1; }
    DoctorPage .table { width: auto; height: auto; margin: 1 0 0 0; }
    DoctorPage .table.-facts { width: 100%; }
    DoctorPage .notes { width: 100%; height: auto; margin: 1 0; }
    """

    def __init__(self, copy: Callable[[str, str], None]) -> None:
        """`copy(text, description)` copies a text, and shows the description in a message."""
        super().__init__()
        self._copy = copy
        self._report: Report | None = None
        self._shows_facts = False
        """True if all facts are shown instead of the table, which has only the columns that fit."""
        self._is_running = False
        self._stop: Callable[[], object] = lambda: None
        """Function that ends the running check-up."""
        self._is_closed = False

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="box") as box:
            box.border_title = Content("Servers of all clients")
            box.border_subtitle = _HINTS
            yield Static(classes="table", markup=False)
            yield Static("Reading the configurations …", classes="notes", markup=False)

    def on_mount(self) -> None:
        """Begin the check-up."""
        self.query_one(VerticalScroll).focus()
        self.action_again()

    def on_unmount(self) -> None:
        """End the check-up with its programs."""
        self._is_closed = True
        self._stop()

    @work(thread=True, exclusive=True)
    def _examine(self) -> None:
        """Run a check-up on a separate thread, because servers may send any amount of data."""
        from mcpdesk.client.discovery import discover
        from mcpdesk.features.doctor.checkup import CheckupPlan, check_up
        from mcpdesk.features.doctor.selection import no_input, only_trusted
        from mcpdesk.settings import resolve

        worker = get_current_worker()

        def on_begin(stop: Callable[[], object]) -> None:
            self._stop = stop
            if self._is_closed:
                stop()

        def on_examined(examined_count: int, total_count: int) -> None:
            if not (worker.is_cancelled or self._is_closed):
                self.call_later(self._show_text, f"{examined_count} of {total_count} servers examined …")

        try:
            settings = resolve({}, os.environ).settings
            agree = only_trusted(settings, trusts_all=False)
            plan = CheckupPlan(
                settings.state_dir, agree, no_input, on_examined=on_examined, on_begin=on_begin
            )
            report = check_up(discover(), plan)
        except asyncio.CancelledError:
            return
        except DeskError as error:
            self.call_later(self._show_failure, clean(str(error)))
            return
        except Exception:
            _LOG.exception("the check-up failed")
            self.call_later(self._show_failure, "mcpdesk has a bug: the check-up failed.")
            return
        if not (worker.is_cancelled or self._is_closed):
            self.call_later(self._show_report, report)

    def _show_failure(self, reason: str) -> None:
        self._is_running = False
        if not self.has_left:
            self.query_one(".table", Static).update("")
        self._show_text(f"{reason}\n\nPress r to check again.")

    def _show_text(self, text: str) -> None:
        if not self.has_left:
            self.query_one(".notes", Static).update(text)

    def _show_report(self, report: Report) -> None:
        self._is_running = False
        if self.has_left:
            return
        self._report = report
        self._show_servers(report)
        self.query_one(".notes", Static).update("\n".join(note_lines(report)))

    def _show_servers(self, report: Report) -> None:
        """Show the table with the columns that fit, or all facts."""
        if self.has_left:
            return
        styles = ["$text-error" if each.has_fault else "" for each in report.servers]
        if self._shows_facts:
            lines = []
            for (title, facts), style in zip(fact_lines(report), styles, strict=True):
                lines.append(Content.styled(title, style or "bold"))
                lines.append(Content.styled(f"  {facts}", "$text-muted"))
        else:
            max_width = self.query_one(VerticalScroll).scrollable_content_region.width - 1
            is_narrow = self.size.width < MIN_WIDE_CELLS
            max_target_length = NARROW_TARGET_LENGTH if is_narrow else MAX_TARGET_LENGTH
            table = table_lines(report, max_target_length, max_width)
            lines = [Content.styled(*line) for line in zip(table, ["bold", *styles], strict=False)]
        widget = self.query_one(".table", Static)
        widget.set_class(self._shows_facts, "-facts")
        widget.update(Content("\n").join(lines))

    def on_resize(self) -> None:
        """Show the columns that fit into the new width."""
        if self._report is not None:
            self.call_after_refresh(self._show_servers, self._report)

    def action_details(self) -> None:
        """Show all facts about each server, or the table again."""
        if self._report is not None and self._report.servers:
            self._shows_facts = not self._shows_facts
            hints = _HINTS.replace("all facts", "table") if self._shows_facts else _HINTS
            self.query_one(VerticalScroll).border_subtitle = hints
            self._show_servers(self._report)

    def action_scroll(self, by: int) -> None:
        """Scroll by lines."""
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)

    def action_again(self) -> None:
        """Begin a check-up, unless one is running."""
        if not self._is_running:
            self._is_running = True
            self._report = None
            self._examine()

    def action_copy(self) -> None:
        """Copy the report as text."""
        if self._report is not None:
            self._copy("\n".join(report_lines(self._report)), "the report")
