"""Dialogs close once, and one asks for a name."""

from __future__ import annotations

import pytest
from textual import events

from mcpdesk.tui.forms.question_dialog import QuestionScreen
from mcpdesk.tui.screens.overlays import HelpScreen, JumpScreen
from mcpdesk.tui.widgets.dialog import LONGEST, NamePrompt
from mcpdesk.tui.widgets.menu import Choice, Menu
from tests.support.asking import DATABASE, asked
from tests.support.fake_link import FakeLink
from tests.support.frame import running_frame
from tests.support.widgets import until


async def test_two_letters_at_once_jump_once() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("ctrl+o")
        screen = app.screen
        assert isinstance(screen, JumpScreen)
        for letter, _ in zip("as", screen.targets, strict=False):
            screen.post_message(events.Key(letter, letter))
        await until(pilot, lambda: not screen.is_attached)
        assert app.screen is app.main and app.focused is screen.targets["a"]


@pytest.mark.parametrize("below", [False, True])
async def test_what_is_chosen_twice_closes_one_dialog(*, below: bool) -> None:
    async with running_frame() as (app, pilot):
        if below:
            await app.push_screen(HelpScreen(app.main))
        under = app.screen
        chosen: list[object] = []
        menu = Menu("Which", [Choice("one", 1), Choice("two", 2)])
        await app.push_screen(menu, chosen.append)
        menu.listing.action_choose()
        menu.listing.action_choose()
        await until(pilot, lambda: not menu.is_attached)
        assert app.screen is under and chosen == [1]
        await pilot.press("escape")
        assert app.screen is app.main


async def test_a_digit_typed_after_a_question_was_put_off_chooses_nothing() -> None:
    async with asked(DATABASE) as desk:
        dialog, draft = desk.dialog, desk.dialog.page.draft
        dialog.post_message(events.Key("1", "1"))
        await desk.until(lambda: bool(draft.chosen))
        before = set(draft.chosen)
        dialog.dismiss()
        dialog.post_message(events.Key("2", "2"))
        await desk.until(lambda: not dialog.is_attached)
        assert set(draft.chosen) == before


async def test_a_menu_closed_before_it_was_drawn_ends_nothing() -> None:
    async with running_frame() as (app, pilot):
        menu = Menu("Any", [Choice("one", 1)], filtered=True)
        app.push_screen(menu)
        menu.dismiss()
        await until(pilot, lambda: not menu.is_attached)
        assert app.is_running and app.screen is app.main


async def test_a_key_that_comes_before_a_question_is_drawn_answers_nothing() -> None:
    async with running_frame(FakeLink()) as (app, pilot):
        app.main.ask(app.link.questions()[0])
        dialog = app.screen
        await app.run_action("next_page", dialog)
        await until(pilot, lambda: dialog.is_mounted)
        assert app.screen is dialog and isinstance(dialog, QuestionScreen)
        assert dialog.page.is_attached


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "name"),
    [
        (["m", "e", "space", "enter"], "me"),
        (["m", "escape"], ""),
        (["enter"], ""),
        (["x"] * (LONGEST + 5) + ["enter"], "x" * LONGEST),
    ],
    ids=["trimmed", "closed", "empty", "long"],
)
async def test_it_ends_with_the_name(keys: list[str], name: str) -> None:
    async with running_frame() as (app, pilot):
        given: list[str | None] = []
        app.push_screen(NamePrompt("Keep as"), given.append)
        await pilot.pause()
        await pilot.press(*keys)
        await pilot.pause()
        assert given == [name]
