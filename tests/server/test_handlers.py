"""Requests that run hosted code or take their time."""

from __future__ import annotations

import pytest

from tests.support.served import Peer


async def test_a_prompt_becomes_a_user_message() -> None:
    peer = Peer()
    peer.modern(1, "prompts/get", {"name": "summarize", "arguments": {"topic": "bees"}})
    messages = (await peer.response(1))["result"]["messages"]
    assert messages == [{"role": "user", "content": {"type": "text", "text": "Summarize bees"}}]


@pytest.mark.parametrize("uris", [True, 5, "note://1", {"a": 1}, [1], [["note://1"]]])
async def test_subscriptions_that_are_no_list_of_uris_are_refused(uris: object) -> None:
    peer = Peer()
    peer.modern(1, "subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}})
    error = (await peer.response(1))["error"]
    assert error["code"] == -32602 and "resourceSubscriptions" in error["message"]
