"""The border between arguments and result is moved and remembered."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpdesk.tui.workbench.split import MAX_PERCENT, MIN_PERCENT, STEP_PERCENT, Split
from tests.support.workbench import bench


def test_the_shares_survive_a_restart_and_stay_within_bounds(tmp_path: Path) -> None:
    memory = tmp_path / "state" / "split"
    split = Split(memory)
    split.set(40, is_stacked=False)
    split.set(999, is_stacked=True)
    split.store()
    again = Split(memory)
    assert again.share(is_stacked=False) == 40 and again.share(is_stacked=True) == MAX_PERCENT
    alone = Split(tmp_path / "one side")
    alone.set(40, is_stacked=False)
    alone.store()
    assert Split(tmp_path / "one side").share(is_stacked=True) is None, "only what was chosen is remembered"
    again.set(-3, is_stacked=False)
    assert again.share(is_stacked=False) == MIN_PERCENT
    for nonsense in ("x y", "3 999999", "\x00"):
        memory.write_text(nonsense, "utf-8")
        assert Split(memory).share(is_stacked=False) is None


def test_a_share_beyond_the_limits_is_not_moved_in_the_wrong_direction(tmp_path: Path) -> None:
    split = Split(tmp_path / "split")
    split.move(STEP_PERCENT, is_stacked=True, visible_share=92)
    assert split.share(is_stacked=True) is None
    split.move(-STEP_PERCENT, is_stacked=True, visible_share=92)
    assert split.share(is_stacked=True) == MAX_PERCENT
    split.move(-STEP_PERCENT, is_stacked=True, visible_share=92)
    assert split.share(is_stacked=True) == MAX_PERCENT - STEP_PERCENT, (
        "the chosen share counts, not the visible one"
    )


@pytest.mark.slow
@pytest.mark.parametrize("height", [40, 60])
async def test_keys_and_the_mouse_move_the_border_between_a_form_and_the_result_below(height: int) -> None:
    async with bench(size=(120, height)) as it:
        await it.open("user-profile")
        pane, result = it.pane.item_pane, it.pane.item_pane.result
        await it.pilot.press("escape")
        before = result.region.height
        await it.pilot.press("greater_than_sign", "greater_than_sign")
        await it.until(lambda: result.region.height < before)
        smaller = result.region.height
        await it.pilot.press("less_than_sign")
        await it.until(lambda: result.region.height > smaller)
        room, x = pane.query_one("#work").region, result.region.x + 20
        middle = room.y + room.height // 2
        await it.pilot.mouse_down(offset=(x, result.region.y))
        await it.pilot.hover(offset=(x, middle))
        await it.pilot.mouse_up(offset=(x, middle))
        await it.until(lambda: abs(result.region.height - room.height // 2) <= 2)
        assert Split().share(is_stacked=True) in range(45, 56)


@pytest.mark.slow
async def test_the_first_key_enlarges_a_result_below_a_short_form() -> None:
    async with bench(size=(120, 40)) as it:
        await it.open("user-profile")
        result = it.pane.item_pane.result
        await it.pilot.press("escape")
        before = result.region.height
        await it.pilot.press("less_than_sign")
        await it.until(lambda: Split().share(is_stacked=True) is not None)
        await it.pilot.pause()
        assert result.region.height > before


@pytest.mark.slow
async def test_keys_and_the_mouse_move_the_border() -> None:
    async with bench(size=(150, 40)) as it:
        await it.open("user-profile")
        pane, result = it.pane.item_pane, it.pane.item_pane.result
        await it.pilot.press("escape")
        before = result.region.width
        await it.pilot.press("less_than_sign")
        await it.until(lambda: result.region.width > before)
        await it.pilot.press("greater_than_sign")
        await it.until(lambda: result.region.width == before)
        room, y = pane.region, result.region.y + 4
        await it.pilot.mouse_down(offset=(result.region.x, y))
        await it.pilot.hover(offset=(room.x + room.width // 2, y))
        await it.pilot.mouse_up(offset=(room.x + room.width // 2, y))
        await it.until(lambda: abs(result.region.width - room.width // 2) <= 2)
        assert Split().share(is_stacked=False) in range(45, 56)
