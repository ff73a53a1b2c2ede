"""The tabs of the screens, and those inside a screen."""

from __future__ import annotations

from mcpdesk.tui.screens.main_screen import PANES
from mcpdesk.tui.widgets.tabs import SCREENS, DeskTabs, TabStrip
from tests.support.frame import running_frame
from tests.support.widgets import staged, until


def test_every_tab_has_a_pane_and_a_digit() -> None:
    assert list(SCREENS) == list(PANES)
    assert [action.keys for action in SCREENS.values()] == ["1", "2", "3", "4", "5"]


async def test_tabs_shrink_to_the_width_and_keep_the_current_one_whole() -> None:
    async with running_frame(size=(44, 20)) as (app, pilot):
        await pilot.press("3")
        await pilot.pause()
        text = app.main.query_one(DeskTabs).render().plain
        assert len(text) <= 44 and "3 Activity" in text and "1 Work" in text


async def test_a_click_or_a_step_brings_up_another_tab() -> None:
    strip = TabStrip(("Content", "Structured", "Raw"))
    async with staged(strip) as (stage, pilot):
        await pilot.click(TabStrip, offset=(12, 0))
        assert strip.current == 1
        strip.action_step(-2)
        assert strip.current == 2
        await until(pilot, lambda: sum(isinstance(one, TabStrip.Picked) for one in stage.heard) == 2)
