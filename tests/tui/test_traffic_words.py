"""The pane says how much there is, what is switched on, and how to get something to look at."""

from __future__ import annotations

from dataclasses import replace

from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.index.query import parse
from mcpdesk.tui.traffic.traffic_list import TrafficList
from mcpdesk.tui.traffic.traffic_pane import counts, how_to_connect, mode
from tests.support.fake_link import FakeLink
from tests.support.traffic import asking_recording
from tests.tui.test_traffic_list import running


async def test_counts_are_of_operations_and_of_what_the_filter_lets_pass() -> None:
    async with running(asking_recording()) as (app, pilot):
        app.listing.action_mark()
        assert counts(app.listing) == "4 exchanges · 1 marked"
        app.listing.filter(parse("tool:book-flight", 0))
        await app.workers.wait_for_complete()
        assert counts(app.listing).startswith("1 of 4 exchanges")
        app.listing.action_raw()
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert counts(app.listing).startswith("6 of 19 frames")


def test_following_and_pausing_are_said() -> None:
    listing = TrafficList(Recording(None).index)
    assert mode(listing) == "following"
    listing.following = False
    assert mode(listing) == "f follows"
    listing.paused = True
    assert mode(listing) == "paused · 0 waiting · p goes on"


def test_the_key_is_not_shown() -> None:
    link = FakeLink()
    link.client_config = lambda *_, **__: "curl -H 'X-API-Key: secret-key'"  # type: ignore[method-assign]
    text = " ".join(text for text, _ in how_to_connect(link, replace(link.core, api_key="secret-key"), 80))
    assert "secret-key" not in text and "X-API-Key: ••••" in text


def test_commands_are_as_wide_as_the_pane() -> None:
    link = FakeLink()
    link.client_config = lambda *_, **__: "claude mcp add --transport http profiles http://127.0.0.1:3333/mcp"  # type: ignore[method-assign]
    texts = [[text for text, _ in how_to_connect(link, link.core, width)] for width in (90, 50)]
    wide, narrow = (sum("mcp" in text for text in lines) for lines in texts)
    assert narrow == 2 * wide


def test_without_a_server_there_is_nothing_to_connect_to() -> None:
    link = FakeLink()
    assert any("curl" in text for text, _ in how_to_connect(link, link.core, 80))
    alone = how_to_connect(link, replace(link.core, servers=()), 80)
    assert [text.strip() for text, _ in alone if text] == ["No message has passed yet."]
