"""Sequences of two keys: they run actions, show what can follow, and never take typed text."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.pilot import Pilot

from mcpdesk.tui import sequences
from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.screens.frame_lines import DeskFooter
from mcpdesk.tui.screens.overlays import HelpScreen
from mcpdesk.tui.sequences import ChoiceLine, SequenceBox
from tests.support.frame import quiet_link, running_frame, toasts
from tests.support.patience import until

KEYMAP = {"main.copy_url": "g b", "app.show_help": "g question_mark,f1", "main.jump": "v right"}


@asynccontextmanager
async def desk() -> AsyncIterator[tuple[DeskApp, Pilot[None]]]:
    async with running_frame(quiet_link()) as (app, pilot):
        app.set_keymap(KEYMAP)
        app.main.query_one("#go").focus()
        await pilot.pause()
        yield app, pilot


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequences, "SHOW_AFTER_S", 0.01)


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequences, "SHOW_AFTER_S", 1000.0)


def shown(app: DeskApp) -> list[str]:
    """Lines of the box."""
    return [str(each.render()).strip() for each in app.screen.query(ChoiceLine)]


@pytest.mark.usefixtures("never")
async def test_the_second_key_runs_the_action_and_no_box_appears() -> None:
    async with desk() as (app, pilot):
        await pilot.press("g")
        assert app.screen is app.main
        await pilot.press("b")
        assert app.clipboard == "http://127.0.0.1:3333/mcp/profiles"
        await pilot.press("b")
        assert len(toasts(app)) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("at_once")
async def test_a_pause_shows_what_can_follow_and_the_next_key_still_counts() -> None:
    async with desk() as (app, pilot):
        await pilot.press("g")
        await until(lambda: isinstance(app.screen, SequenceBox), pilot)
        await pilot.pause()
        assert shown(app) == ["q  questions", "p  plan", "s  servers", "b  copy URL", "?  help"]
        assert str(app.screen.query_one(".box").border_title) == "g"
        await pilot.press("question_mark")
        await until(lambda: isinstance(app.screen, HelpScreen), pilot)
        assert len(app.screen_stack) == 2
        await pilot.press("escape")
        assert app.focused is app.main.query_one("#go")


@pytest.mark.slow
@pytest.mark.usefixtures("at_once")
async def test_a_click_on_a_line_runs_it_and_a_click_beside_the_box_ends_it() -> None:
    async with desk() as (app, pilot):
        await pilot.press("g")
        await until(lambda: isinstance(app.screen, SequenceBox), pilot)
        await pilot.pause()
        await pilot.click(app.screen.query(ChoiceLine)[3])
        await until(lambda: app.clipboard, pilot)
        assert app.screen is app.main
        await pilot.press("g")
        await until(lambda: isinstance(app.screen, SequenceBox), pilot)
        await pilot.click(offset=(3, 3))
        await until(lambda: app.screen is app.main, pilot)
        assert len(toasts(app)) == 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize("is_shown", [False, True])
async def test_escape_ends_it_and_an_unknown_key_says_so(
    is_shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequences, "SHOW_AFTER_S", 0.01 if is_shown else 1000.0)
    async with desk() as (app, pilot):

        async def begin() -> None:
            await pilot.press("g")
            await until(lambda: not is_shown or isinstance(app.screen, SequenceBox), pilot)

        await begin()
        await pilot.press("escape")
        await until(lambda: app.screen is app.main, pilot)
        await pilot.press("b")
        assert toasts(app) == [] or "copied" not in toasts(app)[-1]
        before = len(toasts(app))
        await begin()
        await pilot.press("k")
        assert toasts(app)[before:] == ["g k has no action here: g takes q p s b ?"]
        assert app.screen is app.main and not app.clipboard


@pytest.mark.slow
@pytest.mark.usefixtures("never")
async def test_a_key_that_types_nothing_keeps_its_own_action() -> None:
    async with desk() as (app, pilot):
        await pilot.press("g", "f1")
        assert isinstance(app.screen, HelpScreen)
        await pilot.press("escape")
        await pilot.press("v", "right")
        await until(lambda: app.screen is not app.main, pilot)


@pytest.mark.usefixtures("never")
async def test_a_prefix_without_actions_is_a_dead_key() -> None:
    async with desk() as (app, pilot):
        await pilot.press("left_square_bracket", "1")
        assert toasts(app) == [] and app.screen is app.main


@pytest.mark.usefixtures("at_once")
async def test_in_a_field_the_prefix_is_text() -> None:
    async with desk() as (app, pilot):
        field: Any = app.main.query_one("#field")
        field.focus()
        await pilot.press("g", "b", "v", "right")
        assert field.value == "gbv" and app.screen is app.main and not app.clipboard


@pytest.mark.slow
@pytest.mark.usefixtures("never")
async def test_a_click_elsewhere_ends_it() -> None:
    async with desk() as (app, pilot):
        await pilot.press("g")
        await pilot.click("#field")
        await pilot.press("b")
        assert not app.clipboard


@pytest.mark.slow
@pytest.mark.usefixtures("never")
async def test_the_footer_shows_and_presses_a_sequence_unless_text_is_typed() -> None:
    async with running_frame(quiet_link()) as (app, pilot):
        app.set_keymap({"app.show_help": "g question_mark"})
        app.main.query_one("#go").focus()
        await pilot.pause()
        footer = app.main.query_one(DeskFooter)
        await until(lambda: "g ? help" in str(footer.render()), pilot)
        rows = str(footer.render()).split("\n")
        row = next(at for at, line in enumerate(rows) if "g ? help" in line)
        await pilot.click(footer, offset=(rows[row].index("g ? help"), row))
        await until(lambda: isinstance(app.screen, HelpScreen), pilot)
        await pilot.press("escape")
        app.main.query_one("#field").focus()
        await until(lambda: "g ?" not in str(footer.render()), pilot)
