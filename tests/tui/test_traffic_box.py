"""Layout of the workbench: the room of the result, and the traffic below or beside the item."""

from __future__ import annotations

import pytest
from textual.widgets import Input

from mcpdesk.link.values import CatalogueItem, ItemKind
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.index.view import View
from mcpdesk.tui.screens.workbench import WorkbenchPane
from mcpdesk.tui.widgets.beside import MIN_WIDTH_BESIDE
from mcpdesk.tui.workbench.item_traffic import requests_for
from tests.support.fake_link import FakeLink, text_result
from tests.support.traffic import IN, OUT, call, connection, request, settle, text
from tests.support.workbench import Bench, bench, link_with, tool

SCHEMA = {
    "type": "object",
    "properties": {"topic": {"type": "string"}, "length": {"type": "integer"}},
    "required": ["topic"],
}


def essay_link(calls: int = 0, name: str = "essay") -> FakeLink:
    """A server with the tools `name` and `quick`, and some calls of both by a client."""
    essay = tool(name, SCHEMA, description="Write an essay.")
    link = link_with(essay, tool("quick", {"type": "object"}))
    recording = Recording(None)
    recording.connect(connection(1))
    for number in range(calls):
        called = (name, "quick")[number % 2]
        recording.frame(1, IN, call(number, called, {"topic": f"topic-{number}"}))
        recording.frame(1, OUT, text(number, f"answer-{number}"))
    settle(recording)
    link.recording, link.traffic = recording, recording.index
    return link


def parts(pane: WorkbenchPane) -> list[tuple[int, int]]:
    """First column and width of the catalogue, the item and the traffic."""
    regions = [each.region for each in (pane.catalogue, pane.item_pane, pane.traffic_box)]
    return [(region.x, region.width) for region in regions]


@pytest.mark.slow
@pytest.mark.parametrize("width", [MIN_WIDTH_BESIDE - 1, MIN_WIDTH_BESIDE, 200, 260])
async def test_a_wide_workbench_has_three_columns(width: int) -> None:
    async with bench(essay_link(4), (width, 45)) as it:
        await it.until(lambda: it.pane.traffic_box.listing is not None)
        (_, catalogue), (item_x, item), (traffic_x, traffic) = parts(it.pane)
        assert item_x == catalogue
        if width < MIN_WIDTH_BESIDE:
            assert (traffic_x, traffic) == (0, width) and catalogue + item == width
            await it.until(lambda: "topic-0" in it.shown() and "topic-1" in it.shown())
        else:
            assert traffic_x == catalogue + item and catalogue + item + traffic == width
            await it.until(lambda: "topic-2" in it.shown() and "topic-1" not in it.shown())
            assert "Traffic of essay" in it.shown()
            await it.pilot.press("down")
            await it.until(lambda: "topic-3" in it.shown() and "topic-2" not in it.shown())
            assert "Traffic of quick" in it.shown()


@pytest.mark.slow
async def test_typed_text_focus_and_the_selected_message_survive_a_resize_across_the_limit() -> None:
    async with bench(essay_link(6), (MIN_WIDTH_BESIDE - 40, 45)) as it:
        listing = it.pane.traffic_box.listing
        assert listing is not None
        await it.open("essay")
        await it.pilot.press(*"sea")
        await it.until(lambda: len(listing.lines) == 6)
        listing.select(2)
        for width, lines in ((MIN_WIDTH_BESIDE, 3), (MIN_WIDTH_BESIDE - 1, 6), (MIN_WIDTH_BESIDE + 40, 3)):
            await it.pilot.resize_terminal(width, 45)
            await it.until(lambda lines=lines: len(listing.lines) == lines)  # type: ignore[misc]
            await it.until(lambda width=width: it.pane.has_class("-broad") is (width >= MIN_WIDTH_BESIDE))  # type: ignore[misc]
            field = it.app.focused
            assert isinstance(field, Input) and field.value == "sea"
            assert listing.selected == 2
            assert not listing.following
        await it.pilot.press("x")
        assert isinstance(it.app.focused, Input) and it.app.focused.value == "seax"


def visible_text(it: Bench) -> str:
    """Characters of the content of the result that are on the screen."""
    content = it.pane.item_pane.result.content.content_region
    lines = it.shown().splitlines()[content.y : content.bottom]
    return "".join(line[content.x : content.right].strip() for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize(("calls", "least"), [(1, 1_700), (40, 1_500)])
async def test_a_long_result_shows_1500_characters_at_120_columns_and_40_rows(calls: int, least: int) -> None:
    # The sample desk does not answer calls of `slow-report`: the test does.
    async with bench(essay_link(calls, "slow-report"), (120, 40)) as it:
        await it.open("slow-report")
        await it.pilot.press(*"sea", "ctrl+r")
        await it.until(lambda: len(it.sent) == 1)
        it.link.calls[-1].finish(text_result("lorem ipsum dolor sit amet " * 400))
        await it.until(lambda: "✓ ok" in it.title and "lorem" in it.shown())
        await it.until(lambda: len(visible_text(it)) >= least)
        assert "topic *" in it.shown() and "length" in it.shown()


def test_requests_for_a_template_are_reads_of_its_uris() -> None:
    recording = Recording(None)
    recording.connect(connection(1))
    for number, uri in enumerate(("file:///a.txt", "note://a", "file:///b.txt")):
        recording.frame(1, IN, request(number, "resources/read", {"uri": uri}))
    settle(recording)

    def found(kind: ItemKind, name: str) -> list[int]:
        view = View(recording.index, requests_for("profiles", CatalogueItem(kind, name, name)))
        view.advance(5)
        return list(view.lines)

    assert found(ItemKind.TEMPLATE, "file:///{name}") == [0, 2]
    assert found(ItemKind.RESOURCE, "note://a") == [1]
    assert found(ItemKind.TEMPLATE, "broken://{") == []
    assert found(ItemKind.PROMPT, "note://a") == []
