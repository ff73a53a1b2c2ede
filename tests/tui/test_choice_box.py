from __future__ import annotations

import pytest

from mcpdesk.tui.widgets.choice_box import Chip, ChoiceBox, TabStrip
from mcpdesk.tui.widgets.menu import Menu
from tests.support.patience import until
from tests.support.widgets import staged


async def test_labels_stand_side_by_side_and_arrows_go_round() -> None:
    box = ChoiceBox(["on", "off"], None, optional=True)
    async with staged(box) as (stage, pilot):
        box.focus()
        await pilot.press("left")
        assert box.index == 1
        await pilot.press("right")
        assert box.index is None
        assert "● unset" in stage.shown()


async def test_a_click_picks_the_label_below_it() -> None:
    box = ChoiceBox(["small", "large"], 0)
    async with staged(box) as (_, pilot):
        await pilot.click(ChoiceBox, offset=(11, 0))
        assert box.index == 1


@pytest.mark.slow
async def test_many_labels_are_behind_a_menu() -> None:
    box = ChoiceBox([f"choice-{number}" for number in range(30)], 3)
    async with staged(box) as (stage, pilot):
        assert "choice-3 ▾" in stage.shown()
        box.focus()
        await pilot.press("enter")
        await until(lambda: isinstance(stage.screen, Menu), pilot)
        await pilot.press(*"choice-17", "enter")
        await until(lambda: box.index == 17, pilot)


@pytest.mark.parametrize(("width", "shown"), [(20, "● off  ○ unset"), (19, "off ▾")])
async def test_labels_that_do_not_fit_are_never_cut(width: int, shown: str) -> None:
    box = ChoiceBox(["on", "off"], 1, optional=True)
    box.styles.width = width
    async with staged(box) as (stage, pilot):
        await until(lambda: shown in stage.shown(), pilot)


async def test_a_chip_is_pressed_by_key_and_mouse() -> None:
    chip = Chip("+ add")
    async with staged(chip) as (stage, pilot):
        chip.focus()
        await pilot.press("enter")
        await pilot.click(Chip)
        await until(lambda: sum(isinstance(one, Chip.Pressed) for one in stage.heard) == 2, pilot)


async def test_a_click_or_a_step_brings_up_another_tab() -> None:
    strip = TabStrip(("Content", "Structured", "Raw"))
    async with staged(strip) as (stage, pilot):
        await pilot.click(TabStrip, offset=(12, 0))
        assert strip.current == 1
        strip.action_step(-2)
        assert strip.current == 2
        await until(lambda: sum(isinstance(one, TabStrip.Picked) for one in stage.heard) == 2, pilot)
