"""A server that can ask only in an older revision: the call is repeated there after the person agrees."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mcpdesk.link.values import UpstreamView
from mcpdesk.tui.results.older_revision import OlderRevision, older_revision_offer
from mcpdesk.tui.widgets.choice_box import Chip
from tests.support.fake_link import FakeLink
from tests.support.frame import toasts
from tests.support.workbench import Bench, bench

FASTMCP = "Elicitation: server-initiated requests are unavailable on 2026-07-28 connections."


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (FASTMCP, 1),
        ("Cannot send 'elicitation/create': this transport context has no back-channel.", 1),
        ("unknown city", 0),
    ],
)
def test_the_offer_is_made_for_the_words_of_both_libraries(text: str, count: int) -> None:
    assert len(list(older_revision_offer(text))) == count


def speaking(link: FakeLink, revision: str, state: str = "ready") -> None:
    """Let the server be a remote one in this revision."""
    server = replace(link.core.servers[0], upstream=UpstreamView("a-server", state, revision=revision))
    link.core = replace(link.core, servers=(server, *link.core.servers[1:]))


async def refused(it: Bench) -> None:
    """Make a call that the server cannot ask in, and press the button."""
    await it.open("slow-report")
    await it.pilot.press("ctrl+r")
    await it.until(lambda: "running" in it.title)
    it.link.calls[-1].finish({"isError": True, "content": [{"type": "text", "text": FASTMCP}]})
    await it.until(lambda: bool(it.app.screen.query(OlderRevision)) and "call again in" in it.shown())
    assert len(it.link.calls) == 1 and it.link.spoken == [], "nothing is repeated by itself"
    it.app.screen.query_one(OlderRevision).query_one(Chip).focus()
    await it.pilot.press("enter")
    await it.until(lambda: len(it.link.spoken) == 1)


@pytest.mark.slow
async def test_the_call_is_made_again_once_the_server_is_ready_in_the_older_revision() -> None:
    link = FakeLink()
    speaking(link, "2026-07-28")
    async with bench(link) as it:
        await refused(it)
        assert it.link.spoken == [(link.core.servers[0].name, "2025-11-25")]
        speaking(link, "2026-07-28", "connecting")
        speaking(link, "2025-11-25")
        await it.until(lambda: len(it.link.calls) == 2)
        assert it.link.calls[1].params == it.link.calls[0].params
        it.link.calls[-1].finish({"content": []})
        await it.until(lambda: "✓ ok" in it.title)


@pytest.mark.slow
async def test_nothing_is_called_if_the_server_does_not_come_back() -> None:
    link = FakeLink()
    speaking(link, "2026-07-28")
    async with bench(link) as it:
        await refused(it)
        speaking(link, "", "failed")
        await it.until(lambda: "the call was not made" in toasts(it.app)[-1])
        assert len(it.link.calls) == 1
