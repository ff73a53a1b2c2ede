"""Requests that run hosted code or take their time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.resources import ResourceTemplate
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


@pytest.mark.parametrize("uri", ["resource://note", "resources/note.md"])
async def test_a_resource_is_read_by_uri_and_by_path(uri: str) -> None:
    peer = Peer()
    peer.modern(1, "resources/read", {"uri": uri})
    contents = (await peer.response(1))["result"]["contents"]
    assert contents == [{"uri": "resource://note", "text": "resource://note {}"}]


async def test_a_template_is_matched_and_its_variables_handed_over() -> None:
    peer = Peer()
    peer.modern(1, "resources/read", {"uri": "item://42"})
    contents = (await peer.response(1))["result"]["contents"]
    assert contents == [{"uri": "item://42", "mimeType": "text/plain", "text": "item://42 {'id': '42'}"}]


@pytest.mark.requirement("2.8", "6.5")
@pytest.mark.parametrize(("revision", "code"), [("2025-06-18", -32002), ("2026-07-28", -32602)])
async def test_a_missing_resource_has_the_code_of_the_revision(revision: str, code: int) -> None:
    peer = Peer()
    if revision == "2026-07-28":
        peer.modern(1, "resources/read", {"uri": "x://y"})
    else:
        await peer.shake_hands(revision)
        peer.request(1, "resources/read", {"uri": "x://y"})
    error = (await peer.response(1))["error"]
    assert (error["code"], error["data"]) == (code, {"uri": "x://y"})


@pytest.mark.requirement("6.5")
@pytest.mark.parametrize(("revision", "code"), [("2025-11-25", -32002), ("2026-07-28", -32602)])
async def test_a_reader_that_finds_nothing_returns_nothing(revision: str, code: int) -> None:
    async def read(uri: str, variables: dict[str, str], context: Context) -> Any:
        return [] if variables["id"] == "empty" else None

    peer = Peer()
    peer.server.templates.replace([ResourceTemplate("item://{id}", "item", read)])
    send: Callable[..., None] = peer.modern
    if revision != "2026-07-28":
        await peer.shake_hands(revision)
        send = peer.request
    send(1, "resources/read", {"uri": "item://7"})
    error = (await peer.response(1))["error"]
    assert (error["code"], error["data"]) == (code, {"uri": "item://7"})
    send(2, "resources/read", {"uri": "item://empty"})
    assert (await peer.response(2))["result"]["contents"][0]["text"] == "[]"


async def test_contents_that_clients_refuse_are_an_error_that_names_the_entry() -> None:
    async def read(uri: str, variables: dict[str, str], context: Context) -> Any:
        return [{"uri": uri, "text": "fine"}, {"uri": uri, "blob": b"bytes"}]

    peer = Peer()
    peer.server.templates.replace([ResourceTemplate("item://{id}", "item", read)])
    peer.modern(1, "resources/read", {"uri": "item://7"})
    error = (await peer.response(1))["error"]
    told = "Reading item://7 gave what are no contents: entry 2: blob is a text, not b'bytes'"
    assert (error["code"], error["message"]) == (-32603, told)
