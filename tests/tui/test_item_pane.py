"""The chosen item: header, arguments and result."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mcpdesk.link.values import CallOutcome, ServerView, TokenView
from mcpdesk.tui.workbench.drafts import Drafts
from mcpdesk.tui.workbench.item_pane import ItemHeader, ItemPane
from tests.support.fake_link import FakeLink, sample_catalogue
from tests.support.patience import until
from tests.support.widgets import staged


@pytest.mark.slow
async def test_boxes_stand_side_by_side_or_above_each_other() -> None:
    for width, stacked in ((120, False), (56, True)):
        pane = ItemPane()
        async with staged(pane, (width, 24)) as (_, pilot):
            await pilot.pause()
            assert pane.has_class("-stacked") is stacked
            assert (pane.arguments.region.x == pane.result.region.x) is stacked


@pytest.mark.slow
async def test_the_title_tells_how_the_call_went() -> None:
    pane = ItemPane()
    draft = Drafts(FakeLink()).of("profiles", sample_catalogue()[0])
    async with staged(pane, (120, 24)) as (stage, pilot):
        await pane.load(draft)
        await until(lambda: "ctrl+r calls the tool." in stage.shown(), pilot)
        draft.outcome = CallOutcome({"content": []}, None, b"{}", 0.5)
        await pane.draw_result()
        await until(lambda: "Result ─ ✓ ok 500 ms 2 B" in stage.shown(), pilot)


@pytest.mark.slow
async def test_an_empty_server_is_taught_about_instead() -> None:
    pane = ItemPane()
    async with staged(pane, (120, 24)) as (stage, pilot):
        pane.show_instructions(
            ServerView("s", "My server", "1", "/srv/mine", "", 1, problems=("mcp.json: [oops]",))
        )
        await until(lambda: "/srv/mine/tools/hello.py" in stage.shown(), pilot)
        assert "✕ mcp.json: [oops]" in stage.shown()
        assert "Arguments" not in stage.shown()


ITEMS = {item.name: item for item in sample_catalogue()}


async def test_title_badges_source_and_description_are_told() -> None:
    header = ItemHeader()
    async with staged(header, (110, 10)) as (stage, pilot):
        header.show(ITEMS["place-order"])
        await pilot.pause()
        first, second = stage.shown().splitlines()[:2]
        assert "place-order · Place an order" in first
        assert first.rstrip().endswith("destructive · open world  tools/orders.py:31")
        assert "Write an order into the book." in second


async def test_a_narrow_header_keeps_the_name_and_moves_the_source() -> None:
    header = ItemHeader()
    async with staged(header, (54, 10)) as (stage, pilot):
        header.show(ITEMS["place-order"])
        await pilot.pause()
        assert stage.shown().splitlines()[0].strip().startswith("place-order")
        assert "tools/orders.py:31" in stage.shown()


async def test_a_long_description_ends_in_an_ellipsis() -> None:
    header = ItemHeader()
    async with staged(header, (54, 10)) as (stage, pilot):
        header.show(replace(ITEMS["place-order"], description="Write an order into the book. " * 20))
        await pilot.pause()
        lines = stage.shown().splitlines()
        assert lines[3].rstrip().endswith("…") and not lines[4].strip()


async def test_a_problem_says_whether_an_older_version_serves() -> None:
    header = ItemHeader()
    async with staged(header, (110, 10)) as (stage, pilot):
        header.show(ITEMS["send-mail"])
        await pilot.pause()
        assert "✕ unavailable: needs MAIL_TOKEN" in stage.shown()
        header.show(ITEMS["resource://clock"])
        await pilot.pause()
        assert "✕ stale: the previous version is served: resources/clock.py:7" in stage.shown()


async def test_a_guarded_item_says_what_token_it_needs() -> None:
    header = ItemHeader()
    guarded = replace(ITEMS["place-order"], needs_token=True, scopes=("orders:write",))
    server = ServerView("profiles", "Profiles", "1", "/srv", "", 1, checks_tokens=True)
    async with staged(header, (110, 10)) as (stage, pilot):
        header.show(guarded)
        await pilot.pause()
        assert "needs a token" not in stage.shown()
        header.update_server(server)
        await pilot.pause()
        assert "● needs a token with scope orders:write · F6 sets one" in stage.shown().splitlines()[1]
        header.update_server(replace(server, token=TokenView("ada", frozenset({"orders:write"}))))
        await pilot.pause()
        assert "✓ called as ada, with scope orders:write" in stage.shown()
        header.show(replace(guarded, definition={}))
        await pilot.pause()
        assert "needs a token" not in stage.shown()
