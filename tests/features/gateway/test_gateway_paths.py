"""`/v1/mcp` as its own clients meet it, and as clients of the standard do."""

from __future__ import annotations

from random import Random
from typing import Any

import aiohttp
import orjson
import pytest

from mcpdesk.features import VARIABLE
from mcpdesk.protocol.revisions import V2026_07_28
from mcpdesk.protocol.stateless import request_meta
from mcpdesk.transports.base import Rules
from tests.support.gateway import Gateway, gateway
from tests.support.patience import WITHIN_S, within

KEYED = Rules(api_key="open-sesame")


async def opened(gate: Gateway, path: str = "/v1/ws/mcp", **more: Any) -> Any:
    return await gate.client.ws_connect(gate.url + path, **more)


async def message_of(ws: Any) -> Any:
    came = await ws.receive(WITHIN_S)
    assert came.type is aiohttp.WSMsgType.TEXT, came
    return orjson.loads(came.data)


async def ask(ws: Any, method: str, params: Any = None, number: Any = 1) -> None:
    asked = {"jsonrpc": "2.0", "id": number, "method": method}
    await ws.send_str(orjson.dumps(asked if params is None else asked | {"params": params}).decode())


async def test_methods_go_by_both_names() -> None:
    async with gateway() as gate:
        first = (await gate.rpc("tools/list"))["result"]
        assert (
            first == (await gate.rpc("listTools"))["result"] == (await gate.rpc("tools.list", {}))["result"]
        )
        status = {"status": "ok", "name": "sample", "version": "1.0"}
        for method in ("statusReport", "status/report", "status.report"):
            assert (await gate.rpc(method))["result"] == status
        # The standard endpoint has neither.
        refused = await gate.client.post(
            f"{gate.url}/mcp/sample", json={"jsonrpc": "2.0", "id": 1, "method": "listTools"}
        )
        assert (await refused.json())["error"]["code"] == -32601


async def test_a_handshake_is_answered_with_and_without_parameters() -> None:
    async with gateway() as gate:
        for params, revision in ((None, "2025-06-18"), ({"protocolVersion": "2025-11-25"}, "2025-11-25")):
            result = (await gate.rpc("initialize", params))["result"]
            assert result["protocolVersion"] == revision and result["serverInfo"]["name"] == "sample"
            assert result["capabilities"]["tools"] == {"listChanged": True}


@pytest.mark.parametrize("params", [
    {"name": "echo", "arguments": {"text": "hi"}},
    {"name": "echo", "arguments": {"text": "hi"}, "mode": "sync"},
])  # fmt: skip
async def test_a_result_has_the_members_of_both(params: dict[str, Any]) -> None:
    async with gateway() as gate:
        expected = {
            "status": "ok", "stdout": "hi", "stderr": "", "exit_code": 0,
            "content": [{"type": "text", "text": "hi"}], "isError": False,
        }  # fmt: skip
        assert (await gate.rpc("tools/call", params))["result"] == expected
        session = (await gate.post({"jsonrpc": "2.0", "id": 0, "method": "initialize"})).headers[
            "Mcp-Session-Id"
        ]
        answer = await gate.rpc("tools/call", params, Mcp_Session_Id=session)
        assert answer["result"] == expected


async def test_a_tool_that_returns_an_object_keeps_it() -> None:
    async with gateway() as gate:
        result = (await gate.rpc("tools/call", {"name": "person"}))["result"]
        assert result["structuredContent"] == {"name": "Ada"} and result["status"] == "ok"
        assert result["stdout"] == result["content"][0]["text"] == '{"name":"Ada"}'


async def test_stage_and_command_call_the_tool() -> None:
    async with gateway() as gate:
        called = await gate.rpc("callTool", {"stage": "make", "command": "huge", "args": {"size": 3}})
        assert called["result"]["stdout"] == "xxx"
        error = (await gate.rpc("callTool", {"stage": "nowhere", "command": "huge"}))["error"]
        assert error["code"] == -32602 and "nowhere-huge" in error["message"]


async def test_a_tool_that_raises_is_an_error_without_an_exit_code() -> None:
    async with gateway() as gate:
        error = (await gate.rpc("tools/call", {"name": "boom"}))["error"]
        assert error["code"] == -32000 and "broken inside" in error["message"]
        assert error["data"] == {
            "exit_code": None, "stage": "boom", "command": "", "stderr": error["message"],
        }  # fmt: skip
        error = (await gate.rpc("tools/call", {"name": "unsendable"}))["error"]
        assert error["code"] == -32000 and error["data"]["exit_code"] is None


async def test_clients_of_the_stateless_era_are_served() -> None:
    async with gateway() as gate:
        meta = request_meta(V2026_07_28, {"name": "t", "version": "1"})
        for mode in ({}, {"mode": "sync"}, {"mode": "async"}):
            params = {"name": "echo", "arguments": {"text": "hi"}, "_meta": meta} | mode
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            answer = await gate.post(
                call, MCP_Protocol_Version=V2026_07_28.name, Mcp_Method="tools/call", Mcp_Name="echo",
                Accept="application/json, text/event-stream",
            )  # fmt: skip
            result = (await answer.json())["result"]
            assert result["resultType"] == "complete" and result["content"]
            assert result["status"] == ("accepted" if mode.get("mode") == "async" else "ok")
        found = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}}
        answer = await gate.post(found, MCP_Protocol_Version=V2026_07_28.name, Mcp_Method="server/discover")
        assert V2026_07_28.name in (await answer.json())["result"]["supportedVersions"]


async def test_a_session_has_its_standing_stream_and_its_end() -> None:
    async with gateway() as gate:
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        answer = await gate.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        session = {"Mcp-Session-Id": answer.headers["Mcp-Session-Id"], "Accept": "text/event-stream"}
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await gate.post(ready, Mcp_Session_Id=session["Mcp-Session-Id"])).status == 202
        standing = await gate.client.get(f"{gate.url}/v1/mcp", headers=session)
        assert standing.status == 200 and standing.content_type == "text/event-stream"
        server = gate.served.peer.server
        server.tools.replace(list(server.tools)[:3])
        async with within():
            while b"list_changed" not in (line := await standing.content.readline()):
                assert line
        gone = await gate.client.delete(f"{gate.url}/v1/mcp", headers=session)
        assert gone.status == 204
        await standing.content.read()
        refused = await gate.client.get(f"{gate.url}/v1/mcp", headers={"Accept": "text/event-stream"})
        assert refused.status == 405


async def test_sessions_of_the_two_ways_are_not_mixed() -> None:
    async with gateway() as gate:
        answer = await gate.post({"jsonrpc": "2.0", "id": 0, "method": "initialize"})
        session = {"Mcp-Session-Id": answer.headers["Mcp-Session-Id"]}
        call = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        refused = await gate.client.post(f"{gate.url}/mcp/sample", json=call, headers=session)
        assert refused.status == 404


async def test_the_server_is_chosen_by_name() -> None:
    async with gateway() as gate:
        assert (await gate.get("/v1/mcp?server=sample"))["name"] == "sample"
        answer = await gate.client.get(f"{gate.url}/v1/mcp?server=other")
        told = "No server 'other' here; ?server= may be: sample"
        assert answer.status == 404 and (await answer.json()) == {"error": told}
        nothing = await gate.client.get(f"{gate.url}/v2/mcp")
        assert "served: /mcp/sample, /v1/mcp, /health" in (await nothing.json())["error"]


@pytest.mark.parametrize("method", ["GET", "OPTIONS", "POST", "DELETE"])
async def test_without_the_key_nobody_is_told_anything(method: str) -> None:
    async with gateway(rules=KEYED) as gate:
        for key in ({}, {"X-API-Key": "wrong"}):
            answer = await gate.client.request(method, f"{gate.url}/v1/mcp", json={}, headers=key)
            assert answer.status == 401 and "sample" not in await answer.text()
        # Only browsers' WebSockets have to put it there.
        assert await gate.status(method, "/v1/mcp?api_key=open-sesame") == 401
        assert await gate.status("GET", "/v1/mcp", headers={"X-API-Key": "open-sesame"}) == 200


METHODS = (
    "initialize", "tools/list", "listTools", "tools/call", "callTool", "statusReport", "status/report",
    "ping", "notifications/initialized", "tasks/get", "tools.call", "", "\U0001f600",
)  # fmt: skip
NAMES = (
    "name",
    "arguments",
    "mode",
    "stage",
    "command",
    "args",
    "protocolVersion",
    "_meta",
    "capabilities",
    "cursor",
)


def anything(random: Random, depth: int = 0) -> Any:
    """Any JSON value."""
    plain = [None, True, 0, -1, 2**53, 0.5, "", "echo", "async", "sync", "make", "huge", "x" * 3000, "\u0000"]
    if depth > 2 or random.random() < 0.6:
        return random.choice(plain)
    several = [anything(random, depth + 1) for _ in range(random.randrange(4))]
    return several if random.random() < 0.4 else {random.choice(NAMES): each for each in several}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(4))
async def test_whatever_is_sent_gets_an_answer_of_the_protocol(seed: int) -> None:
    random = Random(seed)
    async with gateway() as gate:
        ws = await opened(gate)
        for number in range(150):
            message: dict[str, Any] = {"jsonrpc": "2.0", "id": number, "method": random.choice(METHODS)}
            if random.random() < 0.9:
                message["params"] = anything(random)
            if isinstance(message.get("params"), dict) and random.random() < 0.5:
                message["params"] |= {"name": random.choice(["echo", "make-huge", "deep-exit", "nowhere"])}
            if random.random() < 0.1:
                message[random.choice(["id", "jsonrpc", "method", "params"])] = anything(random)
            answer = await gate.post(message)
            body = await answer.json()
            assert body["jsonrpc"] == "2.0" and ("result" in body) != ("error" in body)
            is_invalid = "error" in body and body["error"]["code"] == -32600
            assert answer.status == (400 if is_invalid else 200), (message, body)
            await ws.send_str(orjson.dumps(message).decode())
        await ask(ws, "statusReport", number="last")
        async with within():
            while (await message_of(ws)).get("id") != "last":
                continue
        await ws.close()


async def test_a_socket_needs_no_handshake() -> None:
    async with gateway() as gate:
        ws = await opened(gate, "/v1/ws/mcp?server=sample")
        await ask(ws, "statusReport")
        assert (await message_of(ws))["result"]["status"] == "ok"
        await ask(ws, "tools/call", {"name": "echo", "arguments": {"text": "a"}}, 2)
        assert (await message_of(ws))["result"]["stdout"] == "a"
        await ws.close()
        standard = await opened(gate, "/mcp/sample/ws")
        await ask(standard, "tools/list")
        assert "error" in await message_of(standard)
        await standard.close()


async def test_a_job_outlives_the_socket_it_began_on() -> None:
    async with gateway() as gate:
        ws = await opened(gate)
        await ask(ws, "tools/call", {"name": "deep-wait", "mode": "async"})
        job = (await message_of(ws))["result"]
        await gate.gates.started.wait()
        await ws.close()
        assert (await gate.get(job["poll"]))["status"] == "running"
        gate.gates.go_on.set()
        assert (await gate.over(job))["status"] == "succeeded"


async def test_the_key_may_come_in_the_query_of_a_socket() -> None:
    async with gateway(rules=KEYED) as gate:
        ws = await opened(gate, "/v1/ws/mcp?api_key=open-sesame")
        await ask(ws, "statusReport")
        assert (await message_of(ws))["result"]["status"] == "ok"
        await ws.close()
        for path in ("/v1/ws/mcp", "/v1/ws/mcp?api_key=wrong", "/v1/ws/mcp?api_key="):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await opened(gate, path)
            assert refused.value.status == 401


async def test_a_listener_without_the_feature_has_no_paths_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "gateway")
    async with gateway() as gate:
        for path in ("/v1/mcp", "/v1/ws/mcp", "/v1/mcp?server=sample"):
            answer = await gate.client.get(gate.url + path)
            assert answer.status == 404
        assert (
            "served: /mcp/sample, /health" in (await (await gate.client.get(f"{gate.url}/x")).json())["error"]
        )
        front = await (await gate.client.get(gate.url)).text()
        assert "\nAlso: /health, " in front
    monkeypatch.delenv(VARIABLE)
    async with gateway() as gate:
        front = await (await gate.client.get(gate.url)).text()
        assert "\nAlso: /v1/mcp for gateway clients; /health, " in front
