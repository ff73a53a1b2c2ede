"""A desk with the dialog of one question open, on sample data."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from unittest.mock import patch

from msgspec.structs import replace
from textual.pilot import Pilot
from textual.widgets import Static

from mcpdesk.inbox.question import Approval, Option, Page, Question, QuestionKind
from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.forms import question_dialog
from mcpdesk.tui.forms.question_dialog import QuestionScreen
from mcpdesk.tui.screens import main_screen
from tests.support.driven import OnScreen
from tests.support.fake_link import FakeLink
from tests.support.frame import quiet_link, running_frame

DATABASE = Page("Which database?", "Storage", (Option("PostgreSQL", "relational"), Option("SQLite")))
CHECKS = Page("Which checks?", "", (Option("lint"), Option("types"), Option("tests")), multi_select=True)

APPROVAL = Page(
    "May cursor 1 call Bash?",
    "destructive",
    tuple(Option(each, "what it means") for each in Approval),
    own_words=False,
    detail="command: rm -rf build\ntimeout: 5",
)


class Asked(OnScreen):
    """A desk with one dialog open."""

    def __init__(self, app: DeskApp, pilot: Pilot[None], link: FakeLink, question: Question) -> None:
        super().__init__(app, pilot)
        self.link, self.question = link, question

    @property
    def dialog(self) -> QuestionScreen:
        assert isinstance(self.app.screen, QuestionScreen)
        return self.app.screen

    @property
    def is_open(self) -> bool:
        return isinstance(self.app.screen, QuestionScreen)

    @property
    def marks(self) -> str:
        return "".join(str(mark.content) for mark in self.dialog.query(".mark").results(Static))

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    def end_elsewhere(self, **changes: object) -> None:
        self.link._settle(self.question.id, **changes)


@asynccontextmanager
async def asked(
    *pages: Page,
    size: tuple[int, int] = (80, 24),
    may_cancel: bool = False,
    kind: QuestionKind = QuestionKind.QUESTION,
    peer: str = "claude-code 2.1",
    hands_off_s: float = 0.0,
    after_s: float = 0.0,
    is_form: bool = False,
) -> AsyncIterator[Asked]:
    """The desk with a question's dialog, which takes keys after `hands_off_s` seconds.

    Once it has ended the screen takes what is typed after `after_s` seconds.
    """
    link = quiet_link()
    question = link.asked[-1] = replace(
        link.ask(*pages), may_cancel=may_cancel, kind=kind, peer=peer, is_form=is_form
    )
    with (
        patch.object(question_dialog, "KEY_PAUSE_S", hands_off_s),
        patch.object(main_screen, "KEY_PAUSE_S", after_s),
    ):
        async with running_frame(link, size=size) as (app, pilot):
            desk = Asked(app, pilot, link, question)
            await desk.until(lambda: desk.is_open)
            await pilot.pause()
            yield desk
    QuestionScreen.drafts.clear()
