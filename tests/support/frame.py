"""The frame of the screen with empty panes, for tests of the frame itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.pilot import Pilot
from textual.widgets import Button, Input

from mcpdesk.link.values import CoreView, ItemKind
from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.screens.main_screen import PANES, Panes
from mcpdesk.tui.widgets.pane import Pane
from tests.support.driven import driven
from tests.support.fake_link import FakeLink


class StubPane(Vertical, Pane):
    """A button and an input; records its calls."""

    def __init__(self, link: FakeLink) -> None:
        super().__init__()
        self.seen: list[CoreView] = []
        self.opened: list[tuple[ItemKind, str]] = []
        self.query_text = ""
        self.trouble: Exception | None = None

    def compose(self) -> ComposeResult:
        yield Input(id="field")
        yield Button("go", id="go")

    def show_view(self, view: CoreView) -> None:
        if self.trouble is not None:
            raise self.trouble
        self.seen.append(view)

    def open_item(self, kind: ItemKind, name: str) -> None:
        self.opened.append((kind, name))

    def show_only(self, query: str) -> None:
        self.query_text = query


STUBS: Panes = {**PANES, "workbench": StubPane, "traffic": StubPane, "activity": StubPane}  # type: ignore[dict-item]


def quiet_link() -> FakeLink:
    """Sample data without a waiting question."""
    link = FakeLink()
    link.asked = []
    return link


@asynccontextmanager
async def running_frame(
    link: FakeLink | None = None,
    size: tuple[int, int] = (120, 40),
    theme: str | None = None,
    panes: Panes = STUBS,
) -> AsyncIterator[tuple[DeskApp, Pilot[None]]]:
    """A desk on sample data, drawn in memory."""
    app = DeskApp(link or quiet_link(), theme, panes)
    async with driven(app, size=size, notifications=True) as pilot:
        await pilot.pause()
        yield app, pilot


def toasts(app: DeskApp) -> list[str]:
    """Texts of all notifications so far, newest last."""
    return [text for _, _, text in app.news_log]
