"""`Mcp-Param-*`: checked for annotated tools, in the stateless era, over HTTP, in the order of the ladder."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import ClientResponse
from multidict import CIMultiDict

from mcpdesk.protocol.headers import mirrored_arguments
from mcpdesk.protocol.stateless import CAPABILITIES_KEY
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.tool import Tool
from tests.support.served import Peer, make_server
from tests.support.site import Served, serving

SCHEMA = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "size": {"type": "integer", "x-mcp-header": "Size"},
    },
}


async def _region(arguments: dict[str, Any], context: Context) -> str:
    return f"region={arguments.get('region')}"


TOOL = Tool("where", _region, SCHEMA, mirrored=mirrored_arguments(SCHEMA))


def annotate(served: Served) -> None:
    registry = served.peer.server.tools
    registry.replace([*registry, TOOL])


async def call(served: Served, arguments: Any, name: str = "where", **headers: str) -> ClientResponse:
    return await served.modern("tools/call", {"name": name, "arguments": arguments}, **headers)


@pytest.mark.requirement("5.7")
@pytest.mark.parametrize(
    ("arguments", "headers", "status"),
    [
        ({"region": "eu"}, {"Mcp_Param_Region": "eu"}, 200),
        ({"region": "eu"}, {"mcp_param_region": "  eu  "}, 200),
        ({"region": "Hello"}, {"Mcp_Param_Region": "=?base64?SGVsbG8=?="}, 200),
        ({"size": 42}, {"Mcp_Param_Size": "42.0"}, 200),
        ({}, {}, 200),
        ({"region": None}, {}, 200),
        ({}, {"Mcp_Param_Unheard_Of": "x"}, 200),
        ({"region": "eu"}, {}, 400),
        ({"region": "eu"}, {"Mcp_Param_Region": "us"}, 400),
        ({}, {"Mcp_Param_Region": "eu"}, 400),
        ({"region": "Hello"}, {"Mcp_Param_Region": "=?base64?SGVsbG8?="}, 400),
    ],
)
async def test_headers_and_arguments_agree_or_nothing_runs(
    arguments: dict[str, Any], headers: dict[str, str], status: int
) -> None:
    async with serving() as served:
        annotate(served)
        answer = await call(served, arguments, **headers)
        body = await answer.json()
    assert answer.status == status
    assert ("result" in body) if status == 200 else (body["error"]["code"], body["id"]) == (-32020, 1)


async def test_a_parameter_given_twice_is_refused() -> None:
    async with serving() as served:
        annotate(served)
        twice: Any = CIMultiDict([("Mcp-Param-Region", "eu"), ("Mcp-Param-Region", "eu")])
        served.client.headers.extend(twice)
        answer = await call(served, {"region": "eu"})
        assert (answer.status, (await answer.json())["error"]["code"]) == (400, -32020)


@pytest.mark.parametrize(
    ("name", "arguments", "code"), [("unheard-of", {"region": "eu"}, -32602), ("where", ["eu"], -32602)]
)
async def test_params_are_judged_before_their_headers(name: str, arguments: Any, code: int) -> None:
    async with serving() as served:
        annotate(served)
        answer = await call(served, arguments, name, Mcp_Param_Region="us")
        assert (await answer.json())["error"]["code"] == code


async def test_a_later_round_repeats_the_headers_as_well() -> None:
    async def ask(arguments: dict[str, Any], context: Context) -> Any:
        return (await context.elicit("Sure?", {"type": "object", "properties": {}})).action

    async with serving() as served:
        served.peer.server.tools.replace([Tool("sure", ask, SCHEMA, mirrored=mirrored_arguments(SCHEMA))])
        params: dict[str, Any] = {"name": "sure", "arguments": {"region": "eu"}}
        params["_meta"] = {CAPABILITIES_KEY: {"elicitation": {}}}
        asked = await (await served.modern("tools/call", params, Mcp_Param_Region="eu")).json()
        answered = params | {"requestState": asked["result"]["requestState"]}
        (question,) = asked["result"]["inputRequests"]
        answered["inputResponses"] = {question: {"action": "accept", "content": {}}}
        wrong = await served.modern("tools/call", answered, Mcp_Param_Region="us")
        assert (wrong.status, (await wrong.json())["error"]["code"]) == (400, -32020)
        right = await (await served.modern("tools/call", answered, Mcp_Param_Region="eu")).json()
        assert right["result"]["content"][0]["text"] == "accept"


async def test_sessions_and_pipes_know_no_such_headers() -> None:
    async with serving() as served:
        annotate(served)
        headers = await served.session()
        params = {"name": "where", "arguments": {"region": "eu"}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        assert "result" in await (await served.post(message, **headers)).json()
    server = make_server()
    server.tools.replace([TOOL])
    peer = Peer(server)
    peer.modern(1, "tools/call", params)
    assert "result" in await peer.response(1)


@pytest.mark.parametrize("name", ["Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name"])
async def test_a_routing_header_given_twice_is_refused_before_anything_is_read_of_the_body(name: str) -> None:
    async with serving() as served:
        routing: Any = CIMultiDict([("Accept", "application/json, text/event-stream")])
        routing.extend({"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo"})
        routing.add(name, routing[name])
        message = {"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": {"_meta": {}}}
        answer = await served.client.post(f"{served.url}/mcp/sample", json=message, headers=routing)
        body = await answer.json()
    assert (answer.status, body["id"], body["error"]["code"]) == (400, "a", -32020)
