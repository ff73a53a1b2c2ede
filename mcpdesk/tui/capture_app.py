"""The application that shows a capture from disk: the traffic and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.content import Content

from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.screens.main_screen import PANES, MainScreen, Panes
from mcpdesk.tui.widgets.part_line import LinePart

if TYPE_CHECKING:
    from mcpdesk.inbox.question import Question
    from mcpdesk.link.link import Link
    from mcpdesk.link.values import CoreView
    from mcpdesk.tui.crash import ScreenPlace

_NEEDS_SERVER = frozenset(
    {"copy_url", "client_config", "pick_server", "give_token", "reload", "open_question"}
)


class CaptureScreen(MainScreen):
    """The frame around the traffic; nothing is hosted."""

    def show_header(self, view: CoreView, waiting: tuple[Question, ...]) -> None:
        """Which file is shown."""
        name = view.capture_path.rpartition("/")[2]
        self.header.show(
            [
                LinePart(
                    Content.styled(" mcpdesk ", "bold $text-primary"), "app.palette", "All actions", rank=10
                ),
                LinePart(Content.styled(f" {one_line(name, 60)} ", "bold"), tip=view.capture_path, rank=90),
                LinePart(Content.styled("  a capture, read only ", "$text-muted"), rank=50),
            ]
        )

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There is one screen, and no server to do anything about."""
        if action == "show_screen":
            return parameters[0] in self._panes
        return action not in _NEEDS_SERVER


class CaptureApp(DeskApp):
    """One capture."""

    def __init__(
        self,
        link: Link,
        theme: str | None = None,
        begin: Callable[[], None] = lambda: None,
        place: ScreenPlace | None = None,
        news: str = "",
    ) -> None:
        super().__init__(link, theme, {"traffic": PANES["traffic"]}, begin=begin, place=place, news=news)

    def make_main(self, link: Link, panes: Panes, place: ScreenPlace | None) -> MainScreen:
        """The frame without what needs a server."""
        return CaptureScreen(link, panes, place)

    def frame_is_painted(self) -> None:
        """There is no server to wait for."""
        super().frame_is_painted()
        self.server_is_painted()
