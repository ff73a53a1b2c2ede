"""Choosing a theme: preview while passing, remembered afterwards, complaints instead of crashes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpdesk.paths import package_themes
from mcpdesk.tui.themes import load_themes
from mcpdesk.tui.widgets.menu import Menu
from tests.support.frame import running_frame, toasts


async def test_screen_wears_each_theme_the_cursor_passes() -> None:
    async with running_frame(theme="amber") as (app, pilot):
        await pilot.press("t")
        assert isinstance(app.screen, Menu)
        await pilot.press("down")
        await pilot.pause()
        assert app.theme == "contrast"
        await pilot.press("escape")
        await pilot.pause()
        assert app.theme == "amber"


async def test_chosen_theme_is_remembered() -> None:
    async with running_frame(theme="amber") as (app, pilot):
        await pilot.press("t", *"paper", "enter")
        await pilot.pause()
        assert app.theme == "paper"
    async with running_frame() as (app, _):
        assert app.theme == "paper"
    async with running_frame(theme="plum") as (app, _):
        assert app.theme == "plum"


async def test_ours_come_first_and_textuals_are_there_too() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("t")
        assert isinstance(app.screen, Menu)
        names = [choice.label for choice in app.screen.choices]
        assert names[:8] == sorted(load_themes([package_themes()])[0]) and "nord" in names
        await pilot.press("escape")


@pytest.mark.parametrize("name", sorted(load_themes([package_themes()])[0]))
async def test_every_theme_can_be_switched_to_in_the_living_screen(name: str) -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("5")
        app.theme = name
        await pilot.press("question_mark", "escape", "ctrl+p", "escape")
        assert app.theme == name and app.main.get_visual_style().foreground


async def test_person_s_own_theme_is_offered_and_a_broken_one_named(own_folders: Path) -> None:
    folder = own_folders / "config" / "themes"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text('primary = "#ff0000"\n')
    (folder / "broken.toml").write_text('primary = "#ff0000"\ncolour = 1\n')
    async with running_frame(theme="mine") as (app, pilot):
        await pilot.pause()
        assert app.theme == "mine" and "mine" in app.available_themes
        assert "broken.toml:2: unknown key 'colour'" in toasts(app)[-1]


async def test_built_in_theme_can_be_asked_for() -> None:
    async with running_frame(theme="nord") as (app, _):
        assert app.theme == "nord"


async def test_unknown_theme_falls_back_and_says_so() -> None:
    async with running_frame(theme="nonesuch") as (app, pilot):
        await pilot.pause()
        assert app.theme == "night" and toasts(app) == ["There is no theme called nonesuch."]


async def test_garbage_in_the_memory_is_ignored(own_folders: Path) -> None:
    (own_folders / "state").mkdir()
    (own_folders / "state" / "theme").write_bytes(b"../../\xff")
    async with running_frame() as (app, _):
        assert app.theme == "night"
