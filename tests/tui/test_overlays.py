"""The help, the letters to jump to a pane, the menu of themes, and the latest news."""

from __future__ import annotations

import pytest
from textual.widget import Widget
from textual.widgets import Static

from mcpdesk.tui.actions import key_or_palette, rebind
from mcpdesk.tui.screens.first_steps import FirstStepsScreen
from mcpdesk.tui.screens.overlays import HelpScreen, JumpScreen, TabTarget
from mcpdesk.tui.screens.theme_menu import ThemeMenu
from tests.support.action_menu import choose_action
from tests.support.frame import running_frame
from tests.support.patience import screen_lines, until
from tests.support.workbench import bench, link_with, tool


@pytest.mark.slow
async def test_help_begins_with_the_focused_pane_and_scrolls_where_it_does_not_fit() -> None:
    async with running_frame(size=(80, 16)) as (app, pilot):
        await pilot.press("5", "f1")
        assert isinstance(app.screen, HelpScreen)
        titles = list(app.screen.groups)
        assert titles[0] == "Logs" and titles[-1] == "Everywhere"
        box, content = app.screen.query_one("VerticalScroll"), app.screen.query_one(Static)

        def shown() -> str:
            return " ".join(" ".join(line.text for line in content.render_lines(box.region)).split())

        await until(lambda: "Show only lines that contain all words in their" in shown(), pilot)
        await pilot.press("j", "j")
        await until(lambda: box.scroll_offset.y == 2, pilot)
        await pilot.press("end")
        await until(lambda: box.scroll_offset.y > 2, pilot)


@pytest.mark.slow
@pytest.mark.parametrize("key", ["escape", "q", "question_mark", "f1"])
async def test_help_closes_and_nothing_else_happens(key: str) -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("question_mark", key)
        await pilot.pause()
        assert app.is_running and app.screen is app.main


@pytest.mark.slow
async def test_three_exercises_name_the_keys_of_the_actions() -> None:
    async with running_frame(size=(100, 40)) as (app, pilot):
        app.action_first_steps()
        await until(lambda: isinstance(app.screen, FirstStepsScreen), pilot)
        await pilot.pause()
        text = str(app.screen.query_one(Static).visual)
        named = {
            "workbench.call": 1,
            "workbench.edit_source": 1,
            "traffic.filter": 2,
            "main.open_question": 3,
        }
        for action, number in named.items():
            exercise = text.split(f"{number}  ")[1].split(f"{number + 1}  ")[0]
            assert f"{key_or_palette(action)} " in exercise
        await pilot.press("escape")
        await until(lambda: app.screen is app.main, pilot)


async def test_the_exercises_follow_changed_keys() -> None:
    try:
        rebind({"workbench.call": "f9", "main.open_question": "no_key"})
        assert key_or_palette("workbench.call") == "f9"
        assert key_or_palette("main.open_question") == '^p, then "answer"'
    finally:
        rebind({})


@pytest.mark.slow
async def test_help_has_one_ground() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("question_mark")
        await pilot.pause()
        lines = [each.render_line(y) for each in app.screen.query(Static) for y in range(each.size.height)]
        assert len({segment.style.bgcolor for line in lines for segment in line if segment.style}) == 1


async def test_letters_stand_on_their_widgets_and_lead_there() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("ctrl+o")
        await pilot.pause()
        screen: object = app.screen
        assert isinstance(screen, JumpScreen)
        widgets = {key: one for key, one in screen.targets.items() if isinstance(one, Widget)}
        targets = {widget.id: letter for letter, widget in widgets.items()}
        assert set(targets) == {"field", "go"} and len(widgets) == len(screen.targets)
        labels = [label.region.offset for label in screen.query(".letter")]
        assert labels == [widget.region.offset for widget in widgets.values()]
        await pilot.press(targets["field"])
        await pilot.pause()
        assert app.screen == app.main and app.focused is app.main.query_one("#field")


@pytest.mark.slow
async def test_tabs_have_letters_that_pick_them() -> None:
    form = link_with(tool("wide", {"type": "object", "properties": {"a": {"type": "string"}}}))
    async with bench(form, size=(120, 40)) as it:
        for title in ("JSON", "Raw"):
            await it.pilot.press("ctrl+o")
            await it.until(lambda: isinstance(it.app.screen, JumpScreen))
            screen = it.app.screen
            assert isinstance(screen, JumpScreen)
            tabs = {key: one for key, one in screen.targets.items() if isinstance(one, TabTarget)}
            [letter] = [key for key, one in tabs.items() if one.strip.titles[one.tab_index] == title]
            label = screen.query(".letter")[list(screen.targets).index(letter)]
            drawn = it.app.main._compositor.render_strips()[label.region.y].text
            assert drawn[label.region.x :].startswith(title)
            await it.pilot.press(letter)
            await it.until(lambda tab=tabs[letter]: tab.strip.current == tab.tab_index)  # type: ignore[misc]


@pytest.mark.slow
async def test_what_is_scrolled_out_of_sight_has_no_letter() -> None:
    properties = {f"field{number}": {"type": "string"} for number in range(12)}
    form = link_with(tool("wide", {"type": "object", "properties": properties}))
    async with bench(form, size=(80, 24)) as it:
        await it.pilot.press("enter")
        await it.until(lambda: it.pane.query_one("#form").max_scroll_y > 0)
        first, *_, last = it.pane.query("#form Input")
        await it.pilot.press("ctrl+o")
        await it.until(lambda: isinstance(it.app.screen, JumpScreen))
        assert isinstance(it.app.screen, JumpScreen)
        lettered = it.app.screen.targets.values()
        assert first in lettered and last not in lettered


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("keys", "shown"),
    [(["exclamation_mark", "4"], "clients"), (["escape"], "workbench")],
    ids=["digit", "esc"],
)
async def test_a_digit_shows_a_screen_and_escape_stays(keys: list[str], shown: str) -> None:
    async with running_frame() as (app, pilot):
        await until(lambda: app.focused is not None, pilot)
        before = app.focused
        await pilot.press("ctrl+o", *keys)
        await pilot.pause()
        assert app.screen == app.main and app.main.shown == shown
        assert (app.focused is before) == (shown == "workbench")


@pytest.mark.slow
async def test_the_menu_of_themes_leaves_the_screen_in_sight_and_shows_the_theme() -> None:
    async with running_frame() as (app, pilot):
        before = app.theme
        await choose_action(pilot, "theme")
        await until(lambda: isinstance(app.screen, ThemeMenu), pilot)
        await pilot.press("down")
        await pilot.pause()
        assert isinstance(app.screen, ThemeMenu) and app.theme != before
        (used,) = (one.value for one in app.screen.listing.rows if one.hint.endswith("in use"))
        assert used == before
        assert app.screen.styles.background.a == 0
        assert "selected" in str(app.screen.query_one(".sample", Static).content)
        await pilot.press("escape")
        await pilot.pause()
        assert app.theme == before


@pytest.mark.slow
async def test_the_last_news_show_what_a_terminal_may_not_have_taken() -> None:
    async with running_frame() as (app, pilot):
        app.copy("url: http://127.0.0.1\nkey: 42", "the configuration")
        await pilot.press("exclamation_mark")
        await pilot.pause()
        text = "\n".join(screen_lines(app))
        assert "copied the configuration" in text and "key: 42" in text
