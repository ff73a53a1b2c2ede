"""Sessions of the handshake era behind a balancer without stickiness: no two connections meet one replica."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.engine import EngineServer, needs_engine, shared_engine
from tests.support.replicas import ReplicaCluster, replica_cluster
from tests.support.session_client import SessionClient, calculator, events, session_client

__all__ = ["shared_engine"]

pytestmark = [needs_engine, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(
    tmp_path_factory: pytest.TempPathFactory, shared_engine: EngineServer
) -> AsyncIterator[ReplicaCluster]:
    place = tmp_path_factory.mktemp("replicas")
    async with replica_cluster(3, [calculator(place)], shared_engine, place) as made:
        yield made


@pytest.fixture
def folder(cluster: ReplicaCluster) -> Path:
    return cluster.folders[0]


@pytest_asyncio.fixture(loop_scope="module")
async def client(cluster: ReplicaCluster) -> AsyncIterator[SessionClient]:
    async with session_client(cluster) as made:
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


async def test_a_question_is_answered_through_whichever_replica_the_answer_reaches(
    client: SessionClient,
) -> None:
    answered: list[str] = []
    for name in ("Ada", "Bo", "Cy", "Di"):
        async with client.post("tools/call", {"name": "ask-name", "arguments": {}}) as answer:
            async for _, message in events(answer):
                if message.get("method") == "elicitation/create":
                    result = {"action": "accept", "content": {"name": name}}
                    said = {"jsonrpc": "2.0", "id": message["id"], "result": result}
                    assert await client.send(said) == 202
                else:
                    assert f"'name': '{name}'" in message["result"]["content"][0]["text"]
                    answered.append(name)
                    break
    assert answered == ["Ada", "Bo", "Cy", "Di"]


async def test_a_stream_that_broke_is_resumed_at_another_replica(client: SessionClient) -> None:
    for _ in range(3):
        seen = ""
        params = {"name": "slow", "arguments": {"seconds": 0.5}, "_meta": {"progressToken": "p"}}
        async with client.post("tools/call", params) as answer:
            async for identifier, message in events(answer):
                assert message["params"]["progress"] == 1
                seen = identifier
                break
        headers = {**client.headers, "Accept": "text/event-stream", "Last-Event-ID": seen}
        async with client.http.get(client.url, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            rest = [message async for _, message in events(answer)]
        assert rest[0]["params"]["progress"] == 2
        assert rest[-1]["result"]["content"][0]["text"] == "slept"


async def test_a_call_is_cancelled_through_another_replica(client: SessionClient) -> None:
    params = {"name": "slow", "arguments": {"seconds": 30}, "_meta": {"progressToken": "p"}}
    for _ in range(3):
        async with client.post("tools/call", params) as answer:
            async for _, message in events(answer):
                assert message["method"] == "notifications/progress"
                cancel = {"requestId": client.number, "reason": "enough"}
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
        async for _, message in events(stream):
            assert message["method"] == "notifications/tools/list_changed"
            break
