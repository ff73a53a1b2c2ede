from __future__ import annotations

from mcpdesk.link.values import Outcome, ServerView
from mcpdesk.tui.workbench.drafts import Drafts
from mcpdesk.tui.workbench.item_pane import ItemPane
from mcpdesk.tui.workbench.past_calls import History
from tests.support.fake_link import FakeLink, sample_catalogue
from tests.support.widgets import staged, until


async def test_boxes_stand_side_by_side_or_above_each_other() -> None:
    for width, stacked in ((120, False), (56, True)):
        pane = ItemPane(lambda draft, arguments: [])
        async with staged(pane, (width, 24)) as (_, pilot):
            await pilot.pause()
            assert pane.has_class("-stacked") is stacked
            assert (pane.arguments.region.x == pane.result.region.x) is stacked


async def test_the_title_tells_how_the_call_went() -> None:
    pane = ItemPane(lambda draft, arguments: [])
    draft = Drafts(FakeLink(), History()).of("profiles", sample_catalogue()[0])
    async with staged(pane, (120, 24)) as (stage, pilot):
        await pane.load(draft)
        await until(pilot, lambda: "ctrl+r calls the tool." in stage.shown())
        draft.outcome = Outcome({"content": []}, None, b"{}", 0.5)
        await pane.draw_result()
        await until(pilot, lambda: "Result ─ ✓ ok 500 ms 2 B" in stage.shown())


async def test_an_empty_server_is_taught_about_instead() -> None:
    pane = ItemPane(lambda draft, arguments: [])
    async with staged(pane, (120, 24)) as (stage, pilot):
        pane.teach(ServerView("s", "My server", "1", "/srv/mine", "", 1, problems=("mcp.json: [oops]",)))
        await until(pilot, lambda: "/srv/mine/tools/hello.py" in stage.shown())
        assert "✕ mcp.json: [oops]" in stage.shown()
        assert "Arguments" not in stage.shown()
