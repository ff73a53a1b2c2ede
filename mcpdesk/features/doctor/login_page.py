"""Page of the desk with the steps of the login at one server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from mcpdesk.features.doctor.login_lane import CheckLogin, LoginLanes
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.menu import Dialog

if TYPE_CHECKING:
    from mcpdesk.link.link import Link

POLL_S = 0.2
"""Seconds between two checks for a new result."""
STYLES = {"✗": "$text-error", "!": "$text-warning"}
"""Style of a line by its mark."""


class LoginPage(Dialog[None]):
    """Dialog that checks the login at one server, and shows each step."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss(None)", "Close", show=False),
        Binding("j", "scroll(1)", "Down", show=False),
        Binding("k", "scroll(-1)", "Up", show=False),
        Binding("r", "again(False)", "Again", show=False),
        Binding("t", "again(True)", "Renew", show=False),
        Binding("y", "copy", "Copy", show=False),
    ]
    DEFAULT_CSS = """
    LoginPage { align: center middle; }
    LoginPage > .box { width: 96%; padding: 0 2; scrollbar-size-vertical: 1; }
    LoginPage Static { width: 100%; height: auto; margin: 1 0; }
    """

    def __init__(self, link: Link, server: str, copy: Callable[[str, str], None]) -> None:
        """`copy(text, description)` copies a text, and shows the description in a message."""
        super().__init__()
        self._link = link
        self._server = server
        self._copy = copy
        self._shown_number = 0
        """Number of the check that is shown, or 0."""
        self._lines: tuple[str, ...] = ()

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="box") as box:
            box.border_title = Content(f"Login at {one_line(self._server, 40)}")
            box.border_subtitle = "r again · t renew the token · y copy · esc close"
            yield Static("Checking the login …", markup=False)

    def on_mount(self) -> None:
        """Begin the check."""
        self.query_one(VerticalScroll).focus()
        self._shown_number = self._link.feature_part(LoginLanes).of(self._server).number
        self.set_interval(POLL_S, self._show_result)
        self.action_again(False)

    @work
    async def _begin(self, renews: bool) -> None:
        try:
            has_begun = await asyncio.wrap_future(self._link.do(CheckLogin(self._server, renews)))
        except ValueError as error:
            self.query_one(Static).update(one_line(str(error)))
            return
        if renews and not has_begun:
            self.notify("A check is running. Press t again after its end.", severity="warning")

    def _show_result(self) -> None:
        """Show the result of the newest check that has ended, unless it is already shown."""
        lane = self._link.feature_part(LoginLanes).of(self._server)
        if lane.number == self._shown_number:
            return
        self._shown_number, self._lines = lane.number, lane.lines
        summary_start = len(lane.lines) - lane.lines[::-1].index("") if "" in lane.lines else 0
        lines = [*lane.lines[summary_start:], "", *lane.lines[:summary_start]]  # the summary first
        styled = [Content.styled(line, STYLES.get(line.strip()[:1], "")) for line in lines]
        self.query_one(Static).update(Content("\n").join(styled))

    def action_scroll(self, by: int) -> None:
        """Scroll by lines."""
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)

    def action_again(self, renews: bool) -> None:
        """Begin a check, which renews the token if `renews` is True."""
        self._lines = ()
        self.query_one(Static).update("Checking the login …")
        self._begin(renews)

    def action_copy(self) -> None:
        """Copy the report as text."""
        if self._lines:
            self._copy("\n".join(self._lines), "the report")
