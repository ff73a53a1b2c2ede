"""Holding, faults and mocks are shown in the header, and the palette offers them on every screen."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpdesk.features.holding.held_message import CannedCall, Mock, SetFaults, SetHold
from mcpdesk.features.holding.hold_dialog import HoldDialog
from mcpdesk.tui.screens.palette import action_choices, item_choices, other_choices
from mcpdesk.tui.screens.palette_index import PaletteIndex
from tests.support.desk import running_desk
from tests.support.folders import write
from tests.support.patience import result_of
from tests.support.workbench import bench

HOSTED = {
    "mcp.json": '{"name": "near"}',
    "tools/tools.py": """
        async def add(a: int) -> int:
            return a + 1
        """,
}


@pytest.mark.slow
@pytest.mark.parametrize("width", [200, 120, 80])
async def test_holding_faults_and_mocks_are_seen_on_every_screen(width: int, tmp_path: Path) -> None:
    async with (
        running_desk(write(tmp_path / "near", HOSTED)) as desk,
        bench(desk, size=(width, 24)) as it,  # type: ignore[arg-type]
    ):
        await it.until(lambda: "near" in it.shown())
        assert "‖" not in it.shown()
        result_of(desk.do(SetHold("tool:add", "requests")))
        await it.until(lambda: "‖ holding" in it.shown())
        call = desk.request("near", "tools/call", {"name": "add", "arguments": {"a": 1}})
        await it.until(lambda: "‖ 1 held" in it.shown())
        result_of(desk.do(SetHold("", "requests")))
        await it.until(lambda: call.outcome.done() and "‖" not in it.shown())
        result_of(desk.do(SetFaults("delay 0.01s 100% for tool:add")))
        await it.until(lambda: "↯ faults" in it.shown())
        desk.request("near", "tools/call", {"name": "add", "arguments": {"a": 1}})
        await it.until(lambda: "↯ 1 fault " in it.shown())
        result_of(desk.do(SetFaults("")))
        result_of(desk.do(Mock(CannedCall("near", "tools/call", "add"), '{"content": []}')))
        await it.until(lambda: "↯" not in it.shown().split("\n")[0] and "M 1 mocked" in it.shown())


@pytest.mark.slow
async def test_the_palette_offers_to_hold_messages_on_every_screen(tmp_path: Path) -> None:
    folder = write(tmp_path / "near", {"tools/tools.py": "async def add(a: int) -> int:\n    return a\n"})
    async with (
        running_desk(folder) as desk,
        bench(desk, size=(80, 24)) as it,  # type: ignore[arg-type]
    ):
        await it.pilot.press("ctrl+p", *"hold", "space", *"mess", "enter")
        await it.until(lambda: isinstance(it.app.screen, HoldDialog))
        assert it.app.main.shown == "traffic"
        await it.pilot.press("escape", "4")
        await it.until(lambda: it.app.main.shown == "clients")
        choices = [*action_choices(it.app), *other_choices(it.app), *item_choices(it.app)]
        for words in ("breakpoint", "intercept"):
            found = [one.label for one in PaletteIndex(choices).lines(words)[:3]]
            assert "Hold messages that match a filter" in found, words
