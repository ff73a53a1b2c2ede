"""Sessions of the handshake era behind a balancer without stickiness: no two connections meet one replica."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from tests.support.engine import EngineServer, needs_engine, shared_engine
from tests.support.patience import WITHIN_S
from tests.support.replicas import ReplicaCluster, replica_cluster

__all__ = ["shared_engine"]

pytestmark = [needs_engine, pytest.mark.slow]

TOOLS = '''
import asyncio
from mcpdesk import Context, tool

async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b

async def slow(seconds: float, ctx: Context) -> str:
    """Report progress, and take its time."""
    await ctx.progress(1, 2, "begun")
    await asyncio.sleep(seconds)
    await ctx.progress(2, 2, "done")
    return "slept"

async def ask_name(ctx: Context) -> str:
    """Ask the client."""
    given = await ctx.elicit("Who?", {"type": "object", "properties": {"name": {"type": "string"}}})
    return f"{given.action} {given.content}"
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "calc"
    (made / "tools").mkdir(parents=True)
    (made / "mcp.json").write_text('{"name": "calc", "builtins": ["PlanMode", "TaskManager"]}')
    (made / "tools" / "calc.py").write_text(TOOLS)
    return made


@pytest.fixture
async def cluster(folder: Path, tmp_path: Path, shared_engine: EngineServer) -> AsyncIterator[ReplicaCluster]:
    async with replica_cluster(3, [folder], shared_engine, tmp_path) as made:
        yield made


class SessionClient:
    """A client of the handshake era that opens a connection for each request."""

    def __init__(self, url: str, http: aiohttp.ClientSession) -> None:
        self.url = f"{url}/mcp/calc"
        self.http = http
        self.headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Connection": "close",
        }
        self._number = 0

    async def open(self) -> None:
        capabilities: dict[str, Any] = {"elicitation": {}}
        info = {"name": "tester", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info}
        async with self.post("initialize", params) as answer:
            assert answer.status == 200, await answer.text()
            self.headers["Mcp-Session-Id"] = answer.headers["Mcp-Session-Id"]
            self.headers["MCP-Protocol-Version"] = "2025-11-25"
        assert await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"}) == 202

    def post(self, method: str, params: dict[str, Any]) -> Any:
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        return self.http.post(self.url, data=orjson.dumps(message), headers=self.headers)

    async def send(self, message: dict[str, Any]) -> int:
        async with self.http.post(self.url, data=orjson.dumps(message), headers=self.headers) as answer:
            return int(answer.status)

    async def ask(self, method: str, **params: Any) -> Any:
        async with self.post(method, params) as answer:
            body = await answer.read()
            assert answer.status == 200, body
            if answer.content_type == "text/event-stream":
                events = [line for line in body.split(b"\n") if line.startswith(b"data: {")]
                body = events[-1][6:]
            return orjson.loads(body)

    async def call(self, name: str, **arguments: Any) -> Any:
        answer = await self.ask("tools/call", name=name, arguments=arguments)
        return answer["result"]


@pytest.fixture
async def client(cluster: ReplicaCluster) -> AsyncIterator[SessionClient]:
    timeout = aiohttp.ClientTimeout(total=WITHIN_S)
    async with aiohttp.ClientSession(
        timeout=timeout, connector=aiohttp.TCPConnector(force_close=True)
    ) as http:
        made = SessionClient(cluster.url, http)
        await made.open()
        yield made


async def test_every_replica_serves_a_session_and_its_end_counts_everywhere(client: SessionClient) -> None:
    for number in range(12):
        result = await client.call("add", a=number, b=1)
        assert result["structuredContent"] == {"result": number + 1}
    async with client.http.delete(client.url, headers=client.headers) as answer:
        assert answer.status == 204
    await asyncio.sleep(0.2)
    for _ in range(6):
        async with client.post("tools/list", {}) as answer:
            assert answer.status == 404


async def test_a_level_and_subscriptions_chosen_at_one_replica_count_at_the_others(
    cluster: ReplicaCluster, client: SessionClient, folder: Path
) -> None:
    for _ in range(3):
        await client.ask("tools/list")
    await client.ask("logging/setLevel", level="error")
    plan = await client.call("PlanMode", action="enter", goal="think")
    assert not plan.get("isError"), plan
    await asyncio.sleep(1)
    for _ in range(6):
        refused = await client.call("add", a=1, b=1)
        assert refused.get("isError"), refused
        assert "plan mode is on" in refused["content"][0]["text"]
    await client.call("PlanMode", action="exit")
    await asyncio.sleep(1)
    for _ in range(6):
        assert not (await client.call("add", a=1, b=1)).get("isError")
    made = await client.call("TaskManager", action="create", query="tea")
    assert not made.get("isError"), made
    for _ in range(6):
        listed = await client.call("TaskManager", action="list", query="")
        assert "tea" in listed["content"][0]["text"]
    del cluster, folder


async def _events(answer: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, Any]]:
    """Ids and messages of an event stream."""
    identifier = ""
    async for line in answer.content:
        if line.startswith(b"id: "):
            identifier = line[4:].strip().decode()
        elif line.startswith(b"data: {"):
            yield identifier, orjson.loads(line[6:])


async def test_a_question_is_answered_through_whichever_replica_the_answer_reaches(
    client: SessionClient,
) -> None:
    for name in ("Ada", "Bo", "Cy", "Di"):
        async with client.post("tools/call", {"name": "ask_name", "arguments": {}}) as answer:
            async for _, message in _events(answer):
                if message.get("method") == "elicitation/create":
                    result = {"action": "accept", "content": {"name": name}}
                    said = {"jsonrpc": "2.0", "id": message["id"], "result": result}
                    assert await client.send(said) == 202
                else:
                    assert f"'name': '{name}'" in message["result"]["content"][0]["text"]
                    break


async def test_a_stream_that_broke_is_resumed_at_another_replica(client: SessionClient) -> None:
    for _ in range(3):
        seen = ""
        params = {"name": "slow", "arguments": {"seconds": 0.5}, "_meta": {"progressToken": "p"}}
        async with client.post("tools/call", params) as answer:
            async for identifier, message in _events(answer):
                assert message["params"]["progress"] == 1
                seen = identifier
                break
        headers = {**client.headers, "Accept": "text/event-stream", "Last-Event-ID": seen}
        async with client.http.get(client.url, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            rest = [message async for _, message in _events(answer)]
        assert rest[0]["params"]["progress"] == 2
        assert rest[-1]["result"]["content"][0]["text"] == "slept"


async def test_a_call_is_cancelled_through_another_replica(client: SessionClient) -> None:
    params = {"name": "slow", "arguments": {"seconds": 30}, "_meta": {"progressToken": "p"}}
    for _ in range(3):
        async with client.post("tools/call", params) as answer:
            async for _, message in _events(answer):
                assert message["method"] == "notifications/progress"
                cancel = {"requestId": client._number, "reason": "enough"}
                told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel}
                assert await client.send(told) == 202
            # The stream has ended without an answer, as a cancelled call's does.


async def test_a_list_change_reaches_the_client_wherever_its_stream_is(
    client: SessionClient, folder: Path
) -> None:
    headers = {**client.headers, "Accept": "text/event-stream"}
    async with client.http.get(client.url, headers=headers) as stream:
        assert stream.status == 200
        (folder / "tools" / "more.py").write_text(
            'async def more() -> str:\n    """More."""\n    return "x"\n'
        )
        async for _, message in _events(stream):
            assert message["method"] == "notifications/tools/list_changed"
            break


async def test_a_session_goes_on_when_the_replica_that_began_it_is_killed(
    cluster: ReplicaCluster, client: SessionClient
) -> None:
    import signal

    await client.call("add", a=1, b=1)
    for victim in list(cluster.replicas[:2]):
        victim.end(signal.SIGKILL)
        for number in range(4):
            result = await client.call("add", a=number, b=1)
            assert result["structuredContent"] == {"result": number + 1}
    cluster.replicas[:] = cluster.replicas[2:]


async def test_a_stream_of_a_killed_replica_ends_with_an_error_for_its_call(
    cluster: ReplicaCluster, client: SessionClient
) -> None:
    import signal

    params = {"name": "slow", "arguments": {"seconds": 60}, "_meta": {"progressToken": "p"}}
    seen = ""
    with pytest.raises(aiohttp.ClientError):
        async with client.post("tools/call", params) as answer:
            async for identifier, _ in _events(answer):
                seen = identifier
                await asyncio.sleep(0.5)  # until it is noted which call the stream answers
                running = [each for each in cluster.replicas if await _runs_a_call(each.url)]
                (victim,) = running
                victim.end(signal.SIGKILL)
                cluster.replicas.remove(victim)
    headers = {**client.headers, "Accept": "text/event-stream", "Last-Event-ID": seen}
    async with asyncio.timeout(WITHIN_S):
        while True:
            async with client.http.get(client.url, headers=headers) as answer:
                if answer.status != 200:
                    continue
                async for _, message in _events(answer):
                    assert message["error"]["code"] == -32603
                    assert "may or may not have run" in message["error"]["message"]
                    return


async def _runs_a_call(url: str) -> bool:
    async with aiohttp.ClientSession() as http, http.get(f"{url}/metrics") as answer:
        text = await answer.text()
    found = [line for line in text.splitlines() if "in_flight" in line and not line.startswith("#")]
    return any(float(line.rpartition(" ")[2]) > 0 for line in found)
