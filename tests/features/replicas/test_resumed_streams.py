"""A client loses its connection while the replica that runs its call ends; it resumes at another replica."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.engine import EngineServer, needs_engine, shared_engine
from tests.support.patience import until
from tests.support.replicas import ReplicaCluster, ServedReplica, replica_cluster
from tests.support.session_client import SessionClient, events, session_client

__all__ = ["shared_engine"]

pytestmark = [needs_engine, pytest.mark.slow]

TOOLS = '''
import asyncio
from pathlib import Path
from mcpdesk import Context

async def count(gate: Path, ctx: Context) -> str:
    """Count to five, as far as the gate is open."""
    for number in range(1, 6):
        while gate.stat().st_size < number:
            await asyncio.sleep(0.01)
        await ctx.progress(number, 5)
    return "counted"
'''


class Gate:
    """Limit up to which the tool may count."""

    def __init__(self, place: Path) -> None:
        self.path = place / f"gate-{os.urandom(4).hex()}"
        self.path.write_bytes(b"")

    def open(self, number: int) -> None:
        """Let it count so far; 5: to its end."""
        self.path.write_bytes(b"x" * number)


@pytest.fixture
async def cluster(tmp_path: Path, shared_engine: EngineServer) -> AsyncIterator[ReplicaCluster]:
    folder = tmp_path / "calc"
    (folder / "tools").mkdir(parents=True)
    (folder / "mcp.json").write_text('{"name": "calc", "builtins": ["SetCallback"]}')
    (folder / "tools" / "count.py").write_text(TOOLS)
    async with replica_cluster(2, [folder], shared_engine, tmp_path) as made:
        yield made


@pytest.fixture
async def client(cluster: ReplicaCluster) -> AsyncIterator[SessionClient]:
    async with session_client(cluster) as made:
        yield made


class Streams:
    """Events that a client receives for one call, over all its reconnections."""

    def __init__(self, client: SessionClient, place: Path) -> None:
        self.gate = Gate(place)
        self.progress: list[int] = []
        self.end: dict[str, Any] = {}
        self.last = ""
        self.number = 0
        self._client = client
        self._headers = {**client.headers, "Accept": "text/event-stream"}

    async def call(self, replica: ServedReplica, until_seen: int = 6) -> None:
        """Call the tool and close the connection after so many events."""
        self._client.url = f"{replica.url}/mcp/calc"
        arguments = {"gate": str(self.gate.path)}
        params = {"name": "count", "arguments": arguments, "_meta": {"progressToken": "p"}}
        answering = self._client.post("tools/call", params)
        self.number = self._client.number
        async with answering as answer:
            await self._hear(answer, until_seen)

    async def resume(self, replica: ServedReplica, until_seen: int = 6) -> None:
        """Resume at a replica, and close the connection again after so many events in all."""
        headers = self._headers | {"Last-Event-ID": self.last}
        url = f"{replica.url}/mcp/calc"
        async with self._client.http.get(url, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            await self._hear(answer, until_seen)

    async def _hear(self, answer: aiohttp.ClientResponse, until_seen: int) -> None:
        async for self.last, message in events(answer):
            if "method" in message:
                self.progress.append(message["params"]["progress"])
            else:
                assert message["id"] == self.number
                self.end = message
            if len(self.progress) >= until_seen:
                return
        assert self.end, "the stream ended without an answer"


def streams_of(engine: EngineServer, cluster: ReplicaCluster) -> str:
    """Keys of a deployment's streams in the engine."""
    return engine.ask("KEYS", f"{{{cluster.name}}}:stream:*")


async def written(engine: EngineServer, cluster: ReplicaCluster, events_in_it: int) -> None:
    """Wait until the only stream has so many entries in the engine."""
    await until(lambda: "stream" in streams_of(engine, cluster))
    key = streams_of(engine, cluster).split("\r\n")[2]
    await until(lambda: int(engine.ask("XLEN", key).strip(":\r\n")) >= events_in_it)


async def test_what_a_killed_replica_left_comes_once_and_the_call_ends_with_an_error(
    cluster: ReplicaCluster, client: SessionClient, shared_engine: EngineServer, tmp_path: Path
) -> None:
    owner, other = cluster.replicas
    interrupted, cut_off = Streams(client, tmp_path), Streams(client, tmp_path)
    interrupted.gate.open(2)
    await interrupted.call(owner, until_seen=1)
    interrupted.gate.open(4)
    await written(shared_engine, cluster, 4)
    cut_off.gate.open(1)
    calling = asyncio.create_task(cut_off.call(owner))
    await until(lambda: cut_off.progress or calling.done())
    await asyncio.to_thread(owner.end, signal.SIGKILL)
    with pytest.raises(aiohttp.ClientError):
        await calling
    await interrupted.resume(other, until_seen=3)
    await asyncio.gather(interrupted.resume(other), cut_off.resume(other))
    assert (interrupted.progress, cut_off.progress) == ([1, 2, 3, 4], [1])
    for each in (interrupted, cut_off):
        assert each.end["error"]["code"] == -32603
        assert "may or may not have run" in each.end["error"]["message"]


async def test_what_a_replica_left_that_was_ended_is_complete(
    cluster: ReplicaCluster, client: SessionClient, shared_engine: EngineServer, tmp_path: Path
) -> None:
    owner, other = cluster.replicas
    whole, again = Streams(client, tmp_path), Streams(client, tmp_path)
    whole.gate.open(5)
    await whole.call(owner)
    assert whole.progress == [1, 2, 3, 4, 5] and "result" in whole.end
    assert "stream" not in streams_of(shared_engine, cluster)  # who loses nothing costs the engine nothing
    running = Streams(client, tmp_path)
    running.gate.open(2)
    await running.call(owner, until_seen=1)
    owner.send(signal.SIGTERM)
    await until(lambda: any("finishing running calls" in line for line in owner.said))
    await running.resume(other, until_seen=2)
    running.gate.open(5)
    assert await asyncio.to_thread(owner.end) == 0
    await running.resume(other)
    assert running.progress == [1, 2, 3, 4, 5]
    assert running.end["result"]["content"][0]["text"] == "counted"
    again.last, again.number = whole.last.replace(":6:", ":2:", 1), whole.number
    await again.resume(other)
    assert again.progress == [3, 4, 5] and again.end == whole.end


async def test_a_call_goes_on_wherever_its_client_comes_back_and_nothing_stays_of_a_session_that_ended(
    cluster: ReplicaCluster, client: SessionClient, shared_engine: EngineServer, tmp_path: Path
) -> None:
    owner, other = cluster.replicas
    streams = Streams(client, tmp_path)
    streams.gate.open(2)
    await streams.call(owner, until_seen=1)
    await streams.resume(other, until_seen=2)
    streams.gate.open(3)
    await streams.resume(owner, until_seen=3)
    following = asyncio.create_task(streams.resume(other))
    streams.gate.open(5)
    await following
    assert streams.progress == [1, 2, 3, 4, 5]
    assert streams.end["result"]["content"][0]["text"] == "counted"
    assert "stream" in streams_of(shared_engine, cluster)
    async with client.http.delete(f"{other.url}/mcp/calc", headers=client.headers) as answer:
        assert answer.status == 204
    await until(lambda: "stream" not in streams_of(shared_engine, cluster))


async def test_notifications_come_once_though_the_replica_that_sent_them_was_killed(
    cluster: ReplicaCluster, client: SessionClient
) -> None:
    owner, other = cluster.replicas
    heard, last = list[int](), ""

    async def listen(replica: ServedReplica, wanted: int) -> None:
        nonlocal last
        headers = {**client.headers, "Accept": "text/event-stream"} | (
            {"Last-Event-ID": last} if last else {}
        )
        async with client.http.get(f"{replica.url}/mcp/calc", headers=headers) as stream:
            async for identifier, message in events(stream):
                last = identifier
                if message["method"] == "notifications/message":
                    heard.append(message["params"]["data"]["callback_id"])
                if wanted in heard:
                    await asyncio.to_thread(replica.end, signal.SIGKILL)

    for number in (1, 2, 3):
        result = await client.call("SetCallback", action="set", message="tea", delay_seconds=number)
        assert not result.get("isError"), result
    with pytest.raises(aiohttp.ClientError):
        await listen(owner, 3)
    assert heard == [1, 2, 3]
    client.url = f"{other.url}/mcp/calc"
    result = await client.call("SetCallback", action="set", message="tea", delay_seconds=1)
    assert not result.get("isError"), result
    with pytest.raises(aiohttp.ClientError):
        await listen(other, 4)
    assert heard == [1, 2, 3, 4]
