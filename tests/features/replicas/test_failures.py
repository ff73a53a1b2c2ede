"""Replicas and engines that end, hang and come back, while clients continue."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from mcpdesk.protocol.revisions import V2026_07_28
from mcpdesk.protocol.stateless import request_meta
from tests.load import faults
from tests.support.engine import EngineServer, engine_server, needs_engine
from tests.support.patience import WITHIN_S, until, within
from tests.support.replicas import ReplicaCluster, replica_cluster
from tests.support.session_client import SessionClient, calculator, events, session_client

pytestmark = [needs_engine, pytest.mark.slow]


@pytest.fixture
async def engine() -> AsyncIterator[EngineServer]:
    with engine_server() as made:
        yield made


@pytest.fixture
async def cluster(tmp_path: Path, engine: EngineServer) -> AsyncIterator[ReplicaCluster]:
    async with replica_cluster(3, [calculator(tmp_path)], engine, tmp_path) as made:
        yield made


@pytest.fixture
async def client(cluster: ReplicaCluster) -> AsyncIterator[SessionClient]:
    async with session_client(cluster) as made:
        yield made


async def test_a_session_goes_on_when_the_replica_that_began_it_is_killed(
    cluster: ReplicaCluster, client: SessionClient
) -> None:
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
    params = {"name": "slow", "arguments": {"seconds": 60}, "_meta": {"progressToken": "p"}}
    seen = ""
    with pytest.raises(aiohttp.ClientError):
        async with client.post("tools/call", params) as answer:
            async for identifier, _ in events(answer):
                seen = identifier
                await asyncio.sleep(0.5)  # until it is noted which call the stream answers
                running = [each for each in cluster.replicas if await _runs_a_call(each.url)]
                (victim,) = running
                victim.end(signal.SIGKILL)
                cluster.replicas.remove(victim)
    headers = {**client.headers, "Accept": "text/event-stream", "Last-Event-ID": seen}
    async with within():
        while True:
            async with client.http.get(client.url, headers=headers) as answer:
                if answer.status != 200:
                    continue
                async for _, message in events(answer):
                    assert message["error"]["code"] == -32603
                    assert "may or may not have run" in message["error"]["message"]
                    return


async def _runs_a_call(url: str) -> bool:
    async with aiohttp.ClientSession() as http, http.get(f"{url}/metrics") as answer:
        text = await answer.text()
    found = [line for line in text.splitlines() if "in_flight" in line and not line.startswith("#")]
    return any(float(line.rpartition(" ")[2]) > 0 for line in found)


async def test_replicas_are_replaced_one_by_one_without_one_failed_call(
    cluster: ReplicaCluster, client: SessionClient
) -> None:
    """Some clients keep their connections, some open one for each call, some have sessions and some none."""
    failures: list[str] = []
    done = asyncio.Event()
    calls = 0

    async def load(keeps: bool, has_session: bool) -> None:
        nonlocal calls
        connector = aiohttp.TCPConnector(force_close=not keeps)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(30)) as http:
            mine = SessionClient(cluster.url, http)
            mine.headers.pop("Connection")
            if has_session:
                mine.headers |= client.headers
                mine.headers.pop("Connection", None)
                mine.number = 1000 * id(mine) % 1_000_003
            while not done.is_set():
                try:
                    result = await mine.call("add", a=1, b=2)
                    assert result["structuredContent"] == {"result": 3}, result
                    calls += 1
                except (aiohttp.ClientError, AssertionError, KeyError, TimeoutError) as error:
                    failures.append(f"{keeps} {has_session} {error!r}")
                await asyncio.sleep(0.05)

    workers = [asyncio.create_task(load(keeps, has)) for keeps in (True, False) for has in (True, False)]
    for old in cluster.replicas[:2]:
        fresh = cluster.add()
        cluster.replicas.remove(fresh)
        await asyncio.to_thread(fresh.wait_until_it_serves)
        cluster.replicas.append(fresh)
        old.send(signal.SIGTERM)
        assert await asyncio.to_thread(old.end) == 0
        cluster.replicas.remove(old)
    done.set()
    await asyncio.gather(*workers)
    assert failures == []
    assert calls > 50
    assert (await client.call("add", a=2, b=2))["structuredContent"] == {"result": 4}


async def test_a_replica_that_ends_waits_for_nobody_who_only_listens(
    tmp_path: Path, engine: EngineServer
) -> None:
    """A proxy may reopen a stream on a connection that it keeps to the ending replica."""
    async with (
        replica_cluster(
            2,
            [calculator(tmp_path)],
            engine,
            tmp_path,
            MCPDESK_DRAIN_TIMEOUT_S="600",  # longer than this test may take
        ) as cluster,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(WITHIN_S)) as http,
    ):
        ending = cluster.replicas[0]
        client = SessionClient(ending.url, http)
        client.headers.pop("Connection")
        await client.open()
        listening = {**client.headers, "Accept": "text/event-stream"}
        meta = request_meta(V2026_07_28, {"name": "tester", "version": "1"})
        wanted = {"notifications": {"toolsListChanged": True}, "_meta": meta}
        listener = SessionClient(ending.url, http)
        listener.headers |= {
            "MCP-Protocol-Version": V2026_07_28.name,
            "Mcp-Method": "subscriptions/listen",
        }
        async with (
            http.get(client.url, headers=listening) as stream,
            listener.post("subscriptions/listen", wanted) as subscribed,
            http.ws_connect(f"{ending.url}/mcp/calc/ws"),
        ):
            assert stream.status == subscribed.status == 200
            await client.call("add", a=1, b=1)  # leaves a connection open
            ending.send(signal.SIGTERM)
            await stream.read()
            async with http.get(client.url, headers=listening) as again:
                assert again.status == 200
                await again.read()
            await subscribed.read()
            assert await asyncio.to_thread(ending.end) == 0


async def test_while_the_engine_is_away_calls_go_on_and_the_rest_is_refused_at_once(
    cluster: ReplicaCluster, client: SessionClient, engine: EngineServer
) -> None:
    for _ in range(6):  # every replica has met the session
        await client.call("add", a=1, b=1)
    engine.kill()
    loop = asyncio.get_running_loop()
    for number in range(6):
        assert (await client.call("add", a=number, b=1))["structuredContent"] == {"result": number + 1}

    async def refused(method: str, params: dict[str, Any], headers: dict[str, str]) -> None:
        began = loop.time()
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        async with client.http.post(client.url, data=orjson.dumps(message), headers=headers) as answer:
            body = orjson.loads(await answer.read())
            assert answer.status == 503 and answer.headers["Retry-After"], body
            assert body["error"]["code"] == -32603 and "cannot be used" in body["error"]["message"]
        assert loop.time() - began < 5

    fresh = {name: value for name, value in client.headers.items() if not name.lower().startswith("mcp-")}
    info = {"name": "tester", "version": "1"}
    opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
    await refused("initialize", opening, fresh)
    await refused("logging/setLevel", {"level": "error"}, client.headers)
    await refused("tools/list", {}, client.headers | {"Mcp-Session-Id": "ab" * 24})
    made = await client.call("TaskManager", action="create", query="tea")
    assert made["isError"] and "cannot be used" in made["content"][0]["text"]
    listed = await client.call("ListBgTasks")
    assert not listed.get("isError") and listed["structuredContent"] == {"tasks": []}
    assert "tasks of other machines are not available now" in listed["content"][0]["text"]

    async def health(url: str) -> Any:
        async with client.http.get(f"{url}/health") as answer:
            return orjson.loads(await answer.read())

    told = await health(cluster.replicas[0].url)
    assert told["status"] == "ok" and not told["ready"] and "is away" in told["reason"]
    engine.start()
    async with within():
        while not all([(await health(each.url))["ready"] for each in cluster.replicas]):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    said = [line.partition(" info jobs: ")[2] for line in cluster.replicas[0].said if " info jobs: " in line]
    assert len(said) == len(set(said)), "each trouble is logged once"
    await client.ask("logging/setLevel", level="error")  # creates it again: the engine had lost the session
    for _ in range(6):
        assert not (await client.call("TaskManager", action="create", query="tea")).get("isError")


async def test_a_callback_fires_once_though_its_replica_was_killed(
    cluster: ReplicaCluster, client: SessionClient
) -> None:
    heard: list[Any] = []

    async def listen() -> None:
        headers = {**client.headers, "Accept": "text/event-stream"}
        while True:
            try:
                timeout = aiohttp.ClientTimeout(None)
                async with client.http.get(client.url, headers=headers, timeout=timeout) as stream:
                    async for _, message in events(stream):
                        if message.get("method") == "notifications/message":
                            heard.append(message["params"]["data"])
            except aiohttp.ClientError:
                await asyncio.sleep(0.1)

    listener = asyncio.create_task(listen())
    set_ = await client.call("SetCallback", action="set", message="tea", delay_seconds=3)
    assert not set_.get("isError"), set_
    victim = cluster.replicas.pop(0)
    victim.end(signal.SIGKILL)
    await until(lambda: heard)
    await asyncio.sleep(3)
    assert {each["callback_id"] for each in heard} == {1}
    assert {each["fired"] for each in heard} == {1}
    listener.cancel()


@pytest.mark.parametrize("seed", [3])
async def test_faults_one_after_the_other_cost_no_promise(tmp_path: Path, seed: int) -> None:
    """`python -m tests.load.faults 200` is the same at length."""
    found = await faults.run(8, seed, tmp_path, workers=2)
    assert found.is_clean, str(found)
    assert found.ended["add ok"] > 20, str(found)
