"""Silent calls get an event id while they run, and their streams show life."""

from __future__ import annotations

import asyncio

import pytest

from mcpdesk.transports.http import pulse
from tests.support.site import serving
from tests.transports.http.test_resumption import WITHIN_S, Workshop, event, message, rest


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "SWEEP_S", 0.02)
    monkeypatch.setattr(pulse, "PROMPT_S", 0.05)
    monkeypatch.setattr(pulse, "KEEP_ALIVE_S", 0.05)


@pytest.mark.requirement("4.10")
async def test_a_call_that_says_nothing_can_be_resumed_too() -> None:
    async with serving() as served:
        shop = Workshop(served)
        headers = await served.session()
        answer = await served.post(call("quiet"), **headers)
        primed = await event(answer)
        assert primed == {"id": "1:0", "data": ""}
        answer.close()
        shop.may_end.set()
        came = await rest(await shop.resume(headers, primed["id"]))
        assert message(came[-1])["result"]["content"][0]["text"] == "at last"


async def test_an_older_client_gets_no_event_it_does_not_know() -> None:
    async with serving() as served:
        shop = Workshop(served)
        headers = await served.session("2025-06-18")
        asked = asyncio.create_task(served.post(call("quiet"), **headers))
        await asyncio.wait({asked}, timeout=0.3)
        shop.may_end.set()
        came = await rest(await asked)
        assert [each["id"] for each in came] == ["1:1"]


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", ""])
@pytest.mark.parametrize("accept", ["text/event-stream", "application/json, text/event-stream"])
async def test_a_silent_call_over_a_stream_sends_its_head_before_it_ends(
    revision: str, accept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    assert 2 * pulse.SWEEP_S + pulse.PROMPT_S <= 1
    async with serving() as served:
        shop = Workshop(served)
        if revision == "2026-07-28":
            answer = await served.modern("tools/call", {"name": "quiet"}, Accept=accept)
        else:
            headers = await served.session(revision) if revision else {}
            answer = await served.post(call("quiet"), **headers, Accept=accept)
        assert answer.status == 200 and answer.content_type == "text/event-stream"
        assert not shop.may_end.is_set()
        shop.may_end.set()
        assert b"at last" in await answer.read()


async def test_a_silent_call_of_a_client_that_names_no_stream_is_answered_by_plain_json(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pulse, "KEEP_ALIVE_S", WITHIN_S)
    async with serving() as served:
        shop = Workshop(served)
        asked = asyncio.create_task(served.post(call("quiet"), Accept="*/*"))
        spoken = await served.post(call("quiet"), Accept="text/event-stream")
        assert spoken.content_type == "text/event-stream" and not asked.done()
        shop.may_end.set()
        assert (await asked).content_type == "application/json"


async def test_a_quick_call_is_answered_by_plain_json() -> None:
    async with serving() as served:
        headers = await served.session()
        answer = await served.post(
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {"name": "echo", "arguments": {"text": "a"}},
            },
            **headers,
        )
        assert answer.headers["Content-Type"].startswith("application/json")


async def test_a_listener_is_shown_life() -> None:
    async with serving() as served:
        answer = await served.modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        async with asyncio.timeout(WITHIN_S):
            while not (await answer.content.readline()).startswith(b":"):
                pass
        answer.close()


def call(name: str) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name}}
