"""Rules of faults on the screen: entered, refused with their line, and marked on the traffic."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mcpdesk.features.holding.fault_dialog import FaultDialog
from mcpdesk.features.holding.held_message import HoldView
from tests.features.holding.test_hold_dialog import FILES, add, choose
from tests.support.desk import running_desk
from tests.support.folders import write
from tests.support.workbench import bench


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_rules_are_set_by_keys_and_what_they_strike_is_marked(
    size: tuple[int, int], tmp_path: Path
) -> None:
    async with (
        running_desk(write(tmp_path / "near", FILES)) as desk,
        bench(desk, size=size) as it,  # type: ignore[arg-type]
    ):
        await it.pilot.press("2")
        await it.until(lambda: bool(it.app.screen.query("TrafficList")))
        await choose(it, "faults")
        await it.until(
            lambda: "delay 2s 10% for tool:NAME" in it.shown() and "ctrl+r apply the rules" in it.shown()
        )
        dialog = it.app.screen
        assert isinstance(dialog, FaultDialog)
        dialog.area.load_text('error 7 "no" for tool:add\nbreak')
        await it.pilot.press("ctrl+r")
        await it.until(lambda: "✗ line 2: 'break' is not a fault" in it.shown())
        dialog.area.load_text('error 7 "no" for tool:add')
        await it.pilot.press("ctrl+r")
        await it.until(lambda: bool(desk.feature_part(HoldView).faults) and it.app.screen is not dialog)
        outcome = await asyncio.wrap_future(add(desk, 1).outcome)
        assert outcome.error is not None and outcome.error["message"] == "no"
        await it.until(lambda: "faults: 1 so far" in it.shown() and "↯" in it.shown())
        await choose(it, "faults")
        await it.until(lambda: 'error 7 "no"' in it.shown())
        again = it.app.screen
        assert isinstance(again, FaultDialog)
        again.area.load_text("")
        await it.pilot.press("ctrl+r")
        await it.until(lambda: not desk.feature_part(HoldView).faults and "so far" not in it.shown())
