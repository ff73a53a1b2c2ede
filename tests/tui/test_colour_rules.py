"""Lines of the traffic have the colour of the first rule that lets them pass; wrong rules are named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from rich.color import Color
from textual.widgets import Static

from mcpdesk.tui.traffic import colour_rules
from mcpdesk.tui.traffic.colour_rules import FILE_NAME
from mcpdesk.tui.traffic.traffic_list import TrafficList
from tests.tui.test_traffic_pane import running


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MCPDESK_CONFIG_DIR", str(tmp_path))
    monkeypatch.setattr(colour_rules, "CHECK_INTERVAL_S", 0.0)
    return tmp_path / FILE_NAME


def colours(listing: TrafficList, text: str) -> set[Color | None]:
    """Colours of the cells that show `text`."""
    strips = [listing.render_line(y) for y in range(listing.size.height)]
    return {part.style.color for strip in strips for part in strip if text in part.text and part.style}


@pytest.mark.slow
async def test_the_first_rule_that_fits_colours_the_line(rules: Path) -> None:
    rules.write_text("# what I look for\n\n#ff8800 tool:user-profile\n#00ff00 method:tools/call\n")
    async with running() as (app, pilot, pane):
        pane.show_view(app.link.view())
        assert colours(pane.listing, "user-profile") == {Color.from_rgb(255, 136, 0)}
        number = next(
            line for line in pane.listing.lines if app.link.traffic.exchange(line).name == "user-profile"
        )
        pane.open_exchange(number)
        await pilot.pause()
        facts = str(pane.detail.query_one(".facts", Static).visual)
        assert "coloured by line 3 of the rules: tool:user-profile" in facts


@pytest.mark.slow
async def test_rules_are_read_again_when_they_are_saved(rules: Path) -> None:
    async with running() as (app, _, pane):
        pane.show_view(app.link.view())
        assert Color.from_rgb(1, 2, 3) not in colours(pane.listing, "user-profile")
        rules.write_text("#010203 user-profile\n")
        pane.show_view(app.link.view())
        assert colours(pane.listing, "user-profile") == {Color.from_rgb(1, 2, 3)}
        rules.unlink()
        pane.show_view(app.link.view())
        assert Color.from_rgb(1, 2, 3) not in colours(pane.listing, "user-profile")


@pytest.mark.slow
async def test_a_colour_of_the_theme_changes_with_the_theme(rules: Path) -> None:
    rules.write_text("accent tool:user-profile\n")
    async with running() as (app, pilot, pane):
        pane.show_view(app.link.view())
        before = colours(pane.listing, "user-profile")
        app.theme = "textual-light"
        await pilot.pause()
        assert len(before) == 1 and colours(pane.listing, "user-profile") != before


@pytest.mark.slow
async def test_a_wrong_rule_is_named_with_its_line_and_the_others_hold(rules: Path) -> None:
    rules.write_text("blurple tool:x\nerror\nred tool:(\n#010203 user-profile\n")
    os.utime(rules)
    async with running() as (app, pilot, pane):
        pane.show_view(app.link.view())
        await pilot.pause()
        assert colours(pane.listing, "user-profile") == {Color.from_rgb(1, 2, 3)}
        said = pane._rules.problems
        assert [problem.partition(": ")[0] for problem in said] == [
            f"{FILE_NAME}, line {n}" for n in (1, 2, 3)
        ]
        assert "error, warning" in said[0] and "needs a filter" in said[1]
