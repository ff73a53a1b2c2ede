"""Menus, and what all dialogs have in common: they close once."""

from __future__ import annotations

import pytest
from textual import events
from textual.app import App

from mcpdesk.tui.forms.question_dialog import QuestionScreen
from mcpdesk.tui.screens.overlays import HelpScreen, JumpScreen
from mcpdesk.tui.widgets.menu import (
    MAX_NAME_LENGTH,
    Choice,
    ChoiceList,
    LinePrompt,
    Menu,
    is_confirmed,
    search,
)
from tests.support.asking import DATABASE, asked
from tests.support.driven import driven
from tests.support.fake_link import FakeLink
from tests.support.frame import running_frame
from tests.support.patience import until

FRUIT = [
    Choice("apple", 1, "red", "a", "Keeps the doctor away."),
    Choice("[b]banana", 2, "yellow", "b"),
    Choice("cherry", 3, "red", "c"),
]


async def chosen(*keys: str, size: tuple[int, int] = (80, 24), **options: object) -> object:
    """Outcome of a menu of fruit after some keys."""
    app: App[None] = App()
    ends: list[object] = []
    async with driven(app, size=size) as pilot:
        await app.push_screen(Menu("Fruit", FRUIT, **options), ends.append)  # type: ignore[arg-type]
        await pilot.press(*keys)
        await pilot.pause()
    return ends[0] if ends else "open"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("keys", "end"),
    [
        (("enter",), 1),
        (("down", "enter"), 2),
        (("j", "j", "enter"), 3),
        (("G", "k", "enter"), 2),
        (("c",), 3),
        (("escape",), None),
        (("x",), "open"),
    ],
)
async def test_keys_choose(keys: tuple[str, ...], end: object) -> None:
    assert await chosen(*keys) == end


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("keys", "end"),
    [(("c", "h", "enter"), 3), (("down", "enter"), 2), (("q", "q", "enter"), "open"), (("escape",), None)],
)
async def test_filtered_menu_searches_while_typing(keys: tuple[str, ...], end: object) -> None:
    assert await chosen(*keys, filtered=True) == end


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("keys", "end"), [(("enter",), False), (("y",), True), (("down", "enter"), True), (("escape",), False)]
)
async def test_a_confirmation_begins_at_the_safe_choice(keys: tuple[str, ...], end: bool) -> None:
    app: App[None] = App()
    async with driven(app) as pilot:
        do = Choice("remove", True, key="x")
        worker = app.run_worker(is_confirmed(app, "Remove it?", do, "keep it"))
        await until(lambda: isinstance(app.screen, Menu) and app.screen.is_mounted, pilot)
        await pilot.press(*keys)
        assert await worker.wait() is end


async def test_caller_sees_what_the_cursor_passes() -> None:
    passed: list[object] = []
    await chosen("down", "down", "escape", preview=passed.append)
    assert passed[0] == 1 and passed[-2:] == [2, 3]
    assert await chosen("enter", cursor=2, size=(20, 5)) == 3


async def test_mouse_chooses_and_a_click_beside_closes() -> None:
    app: App[None] = App()
    ends: list[object] = []
    async with driven(app, size=(80, 24)) as pilot:
        await app.push_screen(Menu("Fruit", FRUIT), ends.append)
        await pilot.pause()
        await pilot.click(ChoiceList, offset=(3, 1))
        await pilot.pause()
        await app.push_screen(Menu("Fruit", FRUIT), ends.append)
        await pilot.pause()
        await pilot.click(offset=(0, 23))
        await pilot.pause()
    assert ends == [2, None]


def test_lines_show_label_hint_and_key_in_columns() -> None:
    rows = ChoiceList(FRUIT)
    lines = ["".join(text for text, _ in rows.spans(at, 40)) for at in range(3)]
    assert [len(line) for line in lines] == [40, 40, 40]
    assert lines[0].split() == ["apple", "red", "a"] and len({line.index("red") for line in lines[::2]}) == 1


def test_search_prefers_labels_and_keeps_order() -> None:
    assert [one.value for one in search(FRUIT, "")] == [1, 2, 3]
    assert [one.value for one in search(FRUIT, "red")] == [1, 3]
    assert search(FRUIT, "ban")[0].value == 2 and not search(FRUIT, "zzz")


def test_words_that_are_not_shown_are_found_after_labels_and_before_scattered_letters() -> None:
    choices = [
        Choice("Delay if far", 1),
        Choice("Compare results", 2, words="diff changed"),
        Choice("Show the diff", 3),
        Choice("Copy the configuration", 4, words="api key secret"),
    ]
    assert [one.value for one in search(choices, "diff")] == [3, 2, 1]
    assert [one.value for one in search(choices, "api key")] == [4]
    assert [one.value for one in search(choices, "chan")] == [2, 4]


async def test_a_menu_says_that_nothing_matches_until_something_does() -> None:
    app: App[None] = App()
    async with driven(app, size=(80, 24)) as pilot:
        menu = Menu("Fruit", FRUIT, filtered=True)
        await app.push_screen(menu)
        await pilot.press(*"qq[b")
        await pilot.pause()
        told = menu.query_one(".nothing")
        assert told.display and "Nothing matches “qq[b”. Fewer letters" in str(told.render())
        await pilot.press("ctrl+u", *"ban")
        await pilot.pause()
        assert not told.display and menu.listing.display


@pytest.mark.slow
async def test_two_letters_at_once_jump_once() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("ctrl+o")
        screen = app.screen
        assert isinstance(screen, JumpScreen)
        for letter, _ in zip("as", screen.targets, strict=False):
            screen.post_message(events.Key(letter, letter))
        await until(lambda: not screen.is_attached, pilot)
        assert app.screen is app.main and app.focused is screen.targets["a"]


@pytest.mark.slow
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
        await until(lambda: not menu.is_attached, pilot)
        assert app.screen is under and chosen == [1]
        await pilot.press("escape")
        assert app.screen is app.main


@pytest.mark.slow
async def test_a_digit_typed_after_a_question_was_put_off_chooses_nothing() -> None:
    async with asked(DATABASE) as desk:
        dialog, draft = desk.dialog, desk.dialog.page.draft
        dialog.post_message(events.Key("1", "1"))
        await desk.until(lambda: bool(draft.selected_indexes))
        before = set(draft.selected_indexes)
        dialog.dismiss()
        dialog.post_message(events.Key("2", "2"))
        await desk.until(lambda: not dialog.is_attached)
        assert set(draft.selected_indexes) == before


async def test_a_menu_closed_before_it_was_drawn_ends_nothing() -> None:
    async with running_frame() as (app, pilot):
        menu = Menu("Any", [Choice("one", 1)], filtered=True)
        app.push_screen(menu)
        menu.dismiss()
        await until(lambda: not menu.is_attached, pilot)
        assert app.is_running and app.screen is app.main


@pytest.mark.slow
async def test_a_key_that_comes_before_a_question_is_drawn_answers_nothing() -> None:
    async with running_frame(FakeLink()) as (app, pilot):
        app.main.ask(app.link.questions()[0])
        dialog = app.screen
        await app.run_action("next_page", dialog)
        await until(lambda: dialog.is_mounted, pilot)
        assert app.screen is dialog and isinstance(dialog, QuestionScreen)
        assert dialog.page.is_attached


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "name"),
    [
        (["m", "e", "space", "enter"], "me"),
        (["m", "escape"], ""),
        (["enter"], ""),
        (["x"] * (MAX_NAME_LENGTH + 5) + ["enter"], "x" * MAX_NAME_LENGTH),
    ],
    ids=["trimmed", "closed", "empty", "long"],
)
async def test_it_ends_with_the_name(keys: list[str], name: str) -> None:
    async with running_frame() as (app, pilot):
        given: list[str | None] = []
        app.push_screen(LinePrompt("Keep as"), given.append)
        await pilot.pause()
        await pilot.press(*keys)
        await pilot.pause()
        assert given == [name]
