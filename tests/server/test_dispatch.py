"""Requests reach their handlers, or are refused before any code runs."""

from __future__ import annotations

from functools import partial
from typing import Any

import orjson
import pytest

from mcpdesk.protocol.methods import MAX_URI_LENGTH
from mcpdesk.protocol.stateless import CAPABILITIES_KEY
from mcpdesk.server.offer.authoring import refuse
from mcpdesk.server.offer.prompts import Prompt
from mcpdesk.server.offer.resources import Resource, ResourceTemplate
from mcpdesk.server.offer.tool import Tool
from tests.support.served import Peer


async def _item(uri: str, variables: dict[str, str], context: Any) -> str:
    return uri


async def _ids(typed: str, given: dict[str, str], context: Any) -> list[str]:
    return []


@pytest.mark.requirement("6.8")
async def test_progress_increases_and_needs_a_token() -> None:
    peer = Peer()
    peer.modern(1, "tools/call", {"name": "steps"}, progressToken="t")
    await peer.response(1)
    sent = [m["params"] for m in peer.received if m.get("method") == "notifications/progress"]
    assert [each["progress"] for each in sent] == [1, 2, 3]
    assert sent[0] == {"progressToken": "t", "progress": 1, "total": 3, "message": "step 1"}


@pytest.mark.requirement("6.3")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "nope"}),
        ("tools/call", {"name": 5}),
        ("tools/call", {"name": "echo", "arguments": [1]}),
        ("prompts/get", {"name": "nope"}),
        ("prompts/get", {"name": "summarize"}),
        ("prompts/get", {"name": "summarize", "arguments": {"topic": 5}}),
        ("prompts/get", {"name": "summarize", "arguments": []}),
        ("tools/list", {"cursor": "forged"}),
        ("tools/list", {"cursor": 5}),
    ],
)
async def test_misshapen_params_are_invalid_params(method: str, params: dict[str, Any]) -> None:
    peer = Peer()
    peer.modern(1, method, params)
    assert (await peer.response(1))["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("revision", "method", "params", "where"),
    [
        ("2026-07-28", "resources/read", {"uri": "{}"}, "params.uri"),
        ("2025-11-25", "resources/read", {"uri": "{}"}, "params.uri"),
        ("2025-11-25", "resources/subscribe", {"uri": "{}"}, "params.uri"),
        ("2025-11-25", "resources/unsubscribe", {"uri": "{}"}, "params.uri"),
        (
            "2026-07-28",
            "subscriptions/listen",
            {"notifications": {"resourceSubscriptions": ["item://1", "{}"]}},
            "notifications.resourceSubscriptions",
        ),
        (
            "2026-07-28",
            "completion/complete",
            {"ref": {"type": "ref/resource", "uri": "{}"}, "argument": {"name": "id", "value": ""}},
            "ref.uri",
        ),
    ],
)
async def test_a_uri_nobody_means_is_refused_with_what_is_allowed(
    revision: str, method: str, params: dict[str, Any], where: str
) -> None:
    peer = Peer()
    if method == "completion/complete":
        template = ResourceTemplate("item://{id}", "item", _item, completers={"id": _ids})
        peer.server.templates.replace([template])
    is_modern = revision == "2026-07-28"
    if not is_modern:
        await peer.shake_hands(revision)
    for number, size in ((1, MAX_URI_LENGTH), (2, MAX_URI_LENGTH + 1)):
        uri = "item://".ljust(size, "x")
        sent = orjson.loads(orjson.dumps(params).replace(b"{}", uri.encode()))
        (peer.modern if is_modern else peer.request)(number, method, sent)
    error = (await peer.response(2))["error"]
    told = f"{where}: a URI of {MAX_URI_LENGTH + 1} characters is too long; the limit is {MAX_URI_LENGTH}"
    assert (error["code"], error["message"]) == (-32602, told)
    if method == "subscriptions/listen":
        await peer.message(lambda each: each.get("method") == "notifications/subscriptions/acknowledged")
    else:
        assert "result" in await peer.response(1)
    peer.channel.close()


@pytest.mark.requirement("6.1")
async def test_pages_follow_each_other_to_the_end() -> None:
    peer = Peer()
    peer.server.limits = type(peer.server.limits)(page_size=4)
    names: list[str] = []
    params: dict[str, Any] = {}
    for number in range(3):
        peer.modern(number, "tools/list", params)
        result = (await peer.response(number))["result"]
        names += [tool["name"] for tool in result["tools"]]
        params = {"cursor": result["nextCursor"]} if "nextCursor" in result else {}
    assert names == [tool.name for tool in peer.server.tools]
    assert params == {}


async def test_switched_off_tools_are_neither_advertised_nor_callable() -> None:
    peer = Peer()
    peer.server.tools_enabled = False
    peer.modern(1, "server/discover")
    assert "tools" not in (await peer.response(1))["result"]["capabilities"]
    peer.modern(2, "tools/call", {"name": "echo", "arguments": {"text": "x"}})
    assert (await peer.response(2))["error"]["code"] == -32601


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_no_error_of_hosted_code_leaves_a_request_unanswered(revision: str) -> None:
    async def call(arguments: dict[str, Any], context: Any) -> Any:
        refuse("not today", 7, {"why": object()})

    async def read(uri: str, variables: dict[str, str], context: Any) -> Any:
        raise FileNotFoundError("no file 'caf\udce9'")

    async def render(arguments: dict[str, str], context: Any) -> Any:
        refuse("no \udce9", 8)

    peer = Peer()
    peer.server.tools.replace([Tool("call", call, {"type": "object"})])
    peer.server.resources.replace([Resource("odd://it", "it", read)])
    peer.server.prompts.replace([Prompt("render", render)])
    if revision == "2025-11-25":
        await peer.shake_hands(revision)
        send = peer.request
    else:
        meta: dict[str, Any] = {CAPABILITIES_KEY: {"elicitation": {}}}
        send = partial(peer.modern, **meta)
    send(1, "tools/call", {"name": "call", "arguments": {}})
    send(2, "tools/call", {"name": "call"})
    send(3, "resources/read", {"uri": "odd://it"})
    send(4, "prompts/get", {"name": "render"})
    errors = [(await peer.response(number))["error"] for number in range(1, 5)]
    assert [error["code"] for error in errors] == [7, 7, -32603, 8]
    assert errors[0]["message"].startswith("not today (its data is left out")
    assert "no file 'caf?'" in errors[2]["message"] and errors[3]["message"] == "no ?"
