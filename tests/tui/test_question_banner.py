"""The line that announces a question."""

from __future__ import annotations

from msgspec.structs import replace
from textual.app import App, ComposeResult

from mcpdesk.inbox.question import Kind, Page
from mcpdesk.tui.forms.question_text import QuestionBanner
from tests.support.fake_link import sample_questions

QUESTION = sample_questions(0.0)[0]


class BannerApp(App[None]):
    """A banner alone."""

    def compose(self) -> ComposeResult:
        yield QuestionBanner()


async def test_banner_says_who_asks_what_and_how_to_answer() -> None:
    app = BannerApp()
    async with app.run_test(size=(100, 5)) as pilot:
        banner = app.query_one(QuestionBanner)
        assert not banner.display
        assert banner.announce(QUESTION) and not banner.announce(QUESTION)
        await pilot.pause()
        text = banner.render().plain
        assert (
            banner.display
            and "claude-code 2.1 asks: Which database" in text
            and text.rstrip().endswith("then a")
        )
        assert banner.announce(replace(QUESTION, id=8, pages=(Page("\x1b[31m[b]?"),)))
        assert "␛[31m[b]?" in banner.render().plain
        assert not banner.announce(None)
        await pilot.pause()
        assert not banner.display


async def test_an_approval_is_announced_with_its_arguments_as_far_as_there_is_room() -> None:
    app = BannerApp()
    page = Page("May cursor 1 call Bash?", detail="command: " + "x" * 200)
    async with app.run_test(size=(80, 5)) as pilot:
        banner = app.query_one(QuestionBanner)
        banner.announce(replace(QUESTION, kind=Kind.APPROVAL, pages=(page,)))
        await pilot.pause()
        text = banner.render().plain
        assert text.startswith(" ? May cursor 1 call Bash? command: xxx") and "…" in text
        assert text.rstrip().endswith("then a")
