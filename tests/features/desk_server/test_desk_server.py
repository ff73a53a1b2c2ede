"""The desk as an MCP server: who may use it, and what its tools answer."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mcpdesk.auth.operator import OPERATOR_HEADER
from mcpdesk.client.connection import ServerConnection
from mcpdesk.client.http_transports import StreamableHttp
from mcpdesk.client.targets import CommandTarget, UrlTarget
from mcpdesk.features.desk_server import desk_tools
from mcpdesk.features.desk_server.desk_tools import DeskTools
from mcpdesk.link.values import Policy
from mcpdesk.protocol.revisions import BY_NAME
from mcpdesk.runtime.core_process import offer_link
from mcpdesk.upstream.upstream import UpstreamPlan
from tests.support.desk import RunningDesk, running_desk
from tests.support.engine import EngineServer, deployment, needs_engine, shared_engine
from tests.support.folders import write
from tests.support.http_client import http_client
from tests.support.patience import WITHIN_S, in_time, until

__all__ = ["shared_engine"]

KEY = "the-operators-own-4Z"
FILES = {
    "mcp.json": '{"name": "shop", "version": "1"}',
    "tools/shop.py": '''
        import asyncio
        from typing import Annotated

        from mcpdesk import Context, Meta

        async def echo(text: str) -> str:
            """Say it again."""
            return text

        async def fail() -> str:
            """Always fail."""
            raise ValueError("out of stock")

        async def hush(word: Annotated[str, Meta(extra_json_schema={"writeOnly": True})]) -> str:
            """Keep a secret."""
            return "kept"

        async def wait() -> str:
            await asyncio.sleep(3600)
            return "late"
        ''',
}
SHOP = """
import json, sys

schema = {"type": "object", "properties": {"total": {"type": "number"}}}
order = {"name": "order", "outputSchema": schema, "inputSchema": {"type": "object"}}
tools = [order, order | {"name": "end"}]
about = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "till", "version": "1"},
}
for line in sys.stdin:
    message = json.loads(line)
    answer = {"result": {}}
    match message["method"]:
        case "initialize":
            answer = {"result": about}
        case "tools/list":
            answer = {"result": {"tools": tools}}
        case "tools/call" if message["params"]["name"] == "end":
            sys.exit("out of stock")
        case "tools/call":
            content = [{"type": "text", "text": "19.90"}]
            answer = {"result": {"content": content, "structuredContent": {"total": "19.90"}}}
        case "server/discover":
            answer = {"error": {"code": -32601, "message": "no"}}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"]} | answer), flush=True)
"""
HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


@asynccontextmanager
async def shop(folder: Path, **more: Any) -> AsyncIterator[RunningDesk]:
    options = {"feature_options": {"desk_server": "yes"}, "operator_key": KEY, "capture": False, **more}
    async with running_desk(write(folder / "shop", FILES), http=True, **options) as desk:
        offer_link(desk.host)
        yield desk


def url(desk: RunningDesk) -> str:
    assert desk.host.http is not None
    return f"{desk.host.http.address}/desk/mcp"


@asynccontextmanager
async def agent(desk: RunningDesk, revision: str = "2026-07-28") -> AsyncIterator[ServerConnection]:
    transport = StreamableHttp(url(desk), {OPERATOR_HEADER: KEY})
    connection = ServerConnection(transport, {"name": "agent", "version": "1"}, revision=BY_NAME[revision])
    try:
        yield connection
    finally:
        await connection.close()


async def ask(connection: ServerConnection, tool: str, /, **arguments: Any) -> dict[str, Any]:
    """Result of a tool of the desk."""
    return await in_time(connection.result("tools/call", {"name": tool, "arguments": arguments}))


async def read(connection: ServerConnection, tool: str, /, **arguments: Any) -> Any:
    """Structured content of the result."""
    result = await ask(connection, tool, **arguments)
    assert not result.get("isError"), result
    return result["structuredContent"]


@pytest.mark.slow
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_an_agent_finds_the_reason_of_a_failed_call(tmp_path: Path, revision: str) -> None:
    async with shop(tmp_path) as desk, agent(desk, revision) as connection:
        (server,) = (await read(connection, "list_servers"))["servers"]
        assert (server["name"], server["state"], server["counts"]["tool"]) == ("shop", "hosted", 4)
        tools = (await read(connection, "list_tools", server="shop"))["tools"]
        assert {each["name"] for each in tools} == {"echo", "fail", "hush", "wait"}
        assert next(each for each in tools if each["name"] == "echo")["input_schema"]["required"] == ["text"]
        called = await ask(connection, "call_tool", server="shop", tool="echo", arguments={"text": "tea"})
        assert called["content"][0]["text"] == "tea"
        failed = await ask(connection, "call_tool", server="shop", tool="fail")
        assert failed["isError"] and "out of stock" in failed["content"][0]["text"]
        (row,) = (await read(connection, "search_traffic", filter="tool:fail"))["exchanges"]
        assert (row["peer"], row["status"]) == ("agent", "tool-error")
        exchange = await read(connection, "read_exchange", number=row["number"])
        assert "out of stock" in json.dumps(exchange["response"])
        assert exchange["request"]["message"]["params"]["name"] == "fail"
        rows = (await read(connection, "statistics"))["rows"]
        assert {each["name"]: each["errors"] for each in rows}["fail"] == 1
        newest = (await read(connection, "search_traffic", limit=1))["exchanges"][0]["number"]
        earlier = await read(connection, "search_traffic", before=newest)
        assert newest not in [each["number"] for each in earlier["exchanges"]] and earlier["exchanges"]


@pytest.mark.process
async def test_an_agent_sees_that_a_result_breaks_the_output_schema(tmp_path: Path) -> None:
    path = write(tmp_path, {"shop.py": SHOP}) / "shop.py"
    plan = UpstreamPlan("till", CommandTarget((sys.executable, str(path))))
    async with shop(tmp_path, upstreams=[plan]) as desk, agent(desk) as connection:
        await until(
            lambda: "till" in [each.name for each in desk.view().servers] and desk.catalogue("till").items
        )
        tool, _ = (await read(connection, "list_tools", server="till"))["tools"]
        assert tool["output_schema"]["properties"] == {"total": {"type": "number"}}
        result = await ask(connection, "call_tool", server="till", tool="order")
        fault = "structuredContent breaks the output schema: total: must be a number, not a string"
        assert result["content"][0]["text"] == "19.90" and fault in result["content"][-1]["text"]
        rows = (await read(connection, "search_traffic", filter="tool:order"))["exchanges"]
        assert [
            (await read(connection, "read_exchange", number=each["number"]))["faults"] for each in rows
        ] == [[fault]] * len(rows)
        failed = await ask(connection, "call_tool", server="till", tool="end")
        assert failed["isError"] and not failed["content"][0]["text"].endswith("(0)")


@pytest.mark.slow
async def test_secrets_are_masked_and_the_agent_is_not_recorded(tmp_path: Path) -> None:
    async with shop(tmp_path) as desk, agent(desk) as connection:
        await ask(connection, "call_tool", server="shop", tool="hush", arguments={"word": "open-sesame-7"})
        (row,) = (await read(connection, "search_traffic", filter="tool:hush"))["exchanges"]
        assert "open-sesame-7" not in json.dumps(
            await read(connection, "read_exchange", number=row["number"])
        )
        found = await read(connection, "search_traffic", filter="search_traffic")
        assert found["exchanges"] == [] and found["is_complete"]
        frames = [desk.traffic.frame_bytes(number) for number in range(desk.traffic.frame_count)]
        assert not any(KEY.encode() in each for each in frames)


@pytest.mark.slow
async def test_mistakes_are_answered_with_what_is_allowed(tmp_path: Path) -> None:
    async with shop(tmp_path) as desk, agent(desk) as connection:
        for tool, arguments, words in (
            ("list_tools", {"server": "bar"}, "Servers: shop"),
            ("call_tool", {"server": "bar", "tool": "echo"}, "Servers: shop"),
            ("call_tool", {"server": "shop", "tool": "nothing"}, "nothing"),
            ("call_tool", {"server": "shop", "tool": "wait", "timeout_s": 0.1}, "was cancelled"),
            ("search_traffic", {"filter": "status:"}, "needs a value"),
            ("search_traffic", {"limit": 1000}, "limit"),
            ("read_exchange", {"number": 10_000}, "does not exist"),
        ):
            result = await ask(connection, tool, **arguments)
            assert result["isError"] and words in result["content"][0]["text"], (tool, result)


@pytest.mark.slow
async def test_calls_of_an_agent_differ_from_those_of_the_person(tmp_path: Path) -> None:
    async with running_desk(write(tmp_path / "far", FILES), http=True) as far:
        plan = UpstreamPlan("remote", UrlTarget(far.view().servers[0].url))
        async with shop(tmp_path, upstreams=[plan]) as desk, agent(desk) as connection:
            for server in ("shop", "remote"):
                await desk.call(server, "echo", text="tea")
                called = await ask(
                    connection, "call_tool", server=server, tool="echo", arguments={"text": "chai"}
                )
                assert called["content"][0]["text"] == "chai"
            failed = await ask(connection, "call_tool", server="remote", tool="none")
            assert failed["isError"]
            waiting = {"server": "remote", "tool": "wait", "timeout_s": 0.1}
            assert (await ask(connection, "call_tool", **waiting))["isError"]

            async def peers(filter: str) -> list[tuple[str, str]]:
                found = await read(connection, "search_traffic", filter=f"method:tools/call {filter}")
                return [(each["peer"], each["status"]) for each in found["exchanges"][::-1]]

            assert await peers("server:shop tool:echo") == [("desk", "ok"), ("agent", "ok")]
            far_calls = await peers("server:remote tool:echo")
            assert sorted(far_calls) == [("agent", "ok"), ("desk", "ok"), ("desk", "ok")]
            assert [status for peer, status in await peers("tool:none") if peer == "agent"] == ["error"]
            assert [status for peer, status in await peers("tool:wait") if peer == "agent"] == ["cancelled"]


@pytest.mark.slow
async def test_connection_of_an_agent_ends_with_that_of_the_desk(tmp_path: Path) -> None:
    async with running_desk(write(tmp_path / "far", FILES), http=True) as far:
        plan = UpstreamPlan("remote", UrlTarget(far.view().servers[0].url))
        async with shop(tmp_path, upstreams=[plan]) as desk, agent(desk) as connection:

            def connections() -> list[bool]:
                """For each connection of an agent to the server, True if it has ended."""
                known = desk.traffic.connections.values()
                infos = [each for each in known if (each.server, each.peer) == ("remote", "agent")]
                return [each.closed is not None for each in sorted(infos, key=lambda each: each.number)]

            call = {"server": "remote", "tool": "echo", "arguments": {"text": "tea"}}
            await ask(connection, "call_tool", **call)
            assert connections() == [False]
            upstream = desk.host.upstreams["remote"]
            before = upstream.connection
            desk.reconnect_with_revision("remote", "2025-06-18")
            await until(lambda: upstream.connection is not before)
            assert not (await ask(connection, "call_tool", **call)).get("isError")
            await until(lambda: connections() == [True, False])


@pytest.mark.slow
async def test_policies_apply_to_an_agent(tmp_path: Path) -> None:
    async with shop(tmp_path) as desk, agent(desk) as connection:
        desk.choose_policy("shop", "echo", Policy.ASK)
        asked = asyncio.create_task(
            ask(connection, "call_tool", server="shop", tool="echo", arguments={"text": "tea"})
        )
        await until(lambda: desk.questions())
        (question,) = desk.questions()
        assert question.peer == "agent"
        await asyncio.wrap_future(desk.decline(question.id))
        assert (await asked)["isError"]
        result = await desk.call("shop", "echo", text="tea")
        assert not result.get("isError")


async def test_long_definitions_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk_tools, "MAX_TOOL_LENGTH", 30)
    async with shop(tmp_path) as desk:
        tools = (await asyncio.to_thread(DeskTools(desk).list_tools, {"server": "shop"}))["tools"]
    echo = next(each for each in tools if each["name"] == "echo")
    assert echo["description"] == "Say it again."
    assert echo["input_schema"].startswith('{"') and "more characters are not shown" in echo["input_schema"]


async def test_an_exchange_is_found_while_another_thread_pairs_messages(tmp_path: Path) -> None:
    async with shop(tmp_path) as desk:
        await desk.call("shop", "echo", text="tea")
        pairing = desk.traffic._lock
        assert pairing.acquire()
        threading.Timer(0.1, pairing.release).start()
        tools = DeskTools(desk)
        found = await in_time(asyncio.to_thread(tools.search_traffic, {"filter": "tool:echo"}))
        assert found["is_complete"] and found["exchanges"][0]["name"] == "echo"
        await desk.call("shop", "echo", text="tea")
        assert pairing.acquire()
        threading.Timer(0.1, pairing.release).start()
        newer = await in_time(
            asyncio.to_thread(tools.read_exchange, {"number": found["exchanges"][0]["number"] + 1})
        )
        assert newer["exchange"]["name"] == "echo"
        assert (await asyncio.to_thread(tools.statistics, {}))["is_complete"]


async def test_repeated_headers_are_all_shown(tmp_path: Path) -> None:
    async with shop(tmp_path) as desk, http_client() as client:
        repeated = [*HEADERS.items(), ("X-Forwarded-Host", "a.example"), ("X-Forwarded-Host", "b.example")]
        answer = await client.post(desk.view().servers[0].url, json=LIST, headers=repeated)
        await answer.read()
        tools = DeskTools(desk)
        found = await in_time(asyncio.to_thread(tools.search_traffic, {"filter": "method:tools/list"}))
        number = found["exchanges"][0]["number"]
        exchange = await in_time(asyncio.to_thread(tools.read_exchange, {"number": number}))
        headers = exchange["request"]["http"]["headers"]
        assert [value for name, value in headers if name == "X-Forwarded-Host"] == ["a.example", "b.example"]


@pytest.mark.slow
async def test_only_the_operators_key_opens_the_endpoint(tmp_path: Path) -> None:
    async with shop(tmp_path, api_key="callers") as desk, http_client() as client:

        async def status(**headers: str) -> tuple[int, str]:
            named = HEADERS | {name.replace("_", "-"): value for name, value in headers.items()}
            answer: aiohttp.ClientResponse = await client.post(url(desk), json=LIST, headers=named)
            return answer.status, await answer.text()

        missing = await status()
        assert missing[0] == 403 and "missing operator's key" in missing[1]
        assert (await status(X_API_Key="callers"))[0] == 403
        assert "wrong operator's key" in (await status(X_Operator_Key="callers"))[1]
        allowed = await status(X_Operator_Key=KEY)
        assert allowed[0] == 200 and "read_exchange" in allowed[1]
        page = await status(X_Operator_Key=KEY, Origin="http://127.0.0.1:1")
        assert page[0] == 403
        put = await client.put(url(desk), headers=HEADERS | {OPERATOR_HEADER: KEY})
        assert put.status == 405


@pytest.mark.slow
async def test_without_the_option_the_endpoint_does_not_exist(tmp_path: Path) -> None:
    async with shop(tmp_path, feature_options={}) as desk, http_client() as client:
        answer = await client.post(url(desk), json=LIST, headers=HEADERS | {OPERATOR_HEADER: KEY})
        assert answer.status == 404


@pytest.mark.process
@pytest.mark.slow
def test_serve_prints_the_address(tmp_path: Path) -> None:
    folder = write(tmp_path / "shop", FILES)
    serving = subprocess.Popen(
        [sys.executable, "-m", "mcpdesk", "serve", str(folder), "--desk", "--port", "0"],
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert serving.stderr is not None
        line = next(each for each in serving.stderr if "/desk/mcp" in each)
        assert "agents debug these servers at http://127.0.0.1:" in line and OPERATOR_HEADER in line
    finally:
        serving.terminate()
        serving.wait(WITHIN_S)
        assert serving.stderr is not None
        serving.stderr.close()


@needs_engine
@pytest.mark.process
async def test_a_replica_offers_its_own_servers(tmp_path: Path, shared_engine: EngineServer) -> None:
    sharing = {"shared": shared_engine.url, "shared_name": deployment(tmp_path)}
    async with shop(tmp_path, **sharing) as desk, agent(desk) as connection:
        (server,) = (await read(connection, "list_servers"))["servers"]
        assert server["name"] == "shop"
        called = await ask(connection, "call_tool", server="shop", tool="echo", arguments={"text": "tea"})
        assert called["content"][0]["text"] == "tea"
