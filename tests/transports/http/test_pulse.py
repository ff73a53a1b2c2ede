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
    monkeypatch.setattr(pulse, "PRIME_AFTER_S", 0.05)
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
