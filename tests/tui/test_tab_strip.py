from __future__ import annotations

from mcpdesk.tui.widgets.tabs import TabStrip
from tests.support.widgets import staged, until


async def test_a_click_or_a_step_brings_up_another_tab() -> None:
    strip = TabStrip(("Content", "Structured", "Raw"))
    async with staged(strip) as (stage, pilot):
        await pilot.click(TabStrip, offset=(12, 0))
        assert strip.current == 1
        strip.action_step(-2)
        assert strip.current == 2
        await until(pilot, lambda: sum(isinstance(one, TabStrip.Picked) for one in stage.heard) == 2)
