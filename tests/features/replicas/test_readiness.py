"""Readiness includes writing: `/ready`, `/health` and `/metrics` of a replica whose engine refuses writes."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mcpdesk.features.replicas.engine.engine import EngineRefusal
from mcpdesk.features.replicas.group.living import LEASE_S
from mcpdesk.features.replicas.group.replica_group import ReplicaGroup
from tests.support.engine import engine_server, needs_engine
from tests.support.patience import WITHIN_S, until
from tests.support.ports import free_port
from tests.support.replicas import ServedReplica, replica_cluster
from tests.support.session_client import SessionClient, calculator


async def facts(http: aiohttp.ClientSession, url: str, path: str) -> tuple[int, Any]:
    async with http.get(f"{url}{path}") as answer:
        return answer.status, await answer.json()


async def metrics(http: aiohttp.ClientSession, url: str) -> dict[str, float]:
    async with http.get(f"{url}/metrics") as answer:
        lines = (await answer.text()).splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


async def until_ready(http: aiohttp.ClientSession, url: str, status: int) -> Any:
    async def reported() -> Any:
        found = await facts(http, url, "/ready")
        return found if found[0] == status else None

    return (await until(reported, within_s=WITHIN_S))[1]


@needs_engine
@pytest.mark.slow
async def test_no_replica_is_ready_while_the_engine_is_full_and_all_are_again_afterwards(
    tmp_path: Path,
) -> None:
    with engine_server() as engine:
        async with (
            replica_cluster(2, [calculator(tmp_path)], engine, tmp_path) as cluster,
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(WITHIN_S)) as http,
        ):
            url = cluster.replicas[0].url
            assert (await metrics(http, url))["mcpdesk_engine_writable"] == 1
            engine.ask("CONFIG", "SET", "maxmemory", "1")
            told = await until_ready(http, url, 503)
            reason = f"{engine.url} refuses writes: its memory is full (OOM command not allowed)"
            assert told == {"status": "not ready", "reason": reason}
            _, health = await facts(http, url, "/health")
            assert health == {"status": "ok", "ready": False, "reason": reason, "replicas": 2}
            with pytest.raises(AssertionError, match="memory is full"):
                await SessionClient(url, http).open()
            counted = await metrics(http, url)
            assert counted["mcpdesk_engine_up"] == 1 and counted["mcpdesk_engine_writable"] == 0
            assert counted['mcpdesk_engine_refused_requests_total{reason="full"}'] >= 1
            assert counted["mcpdesk_engine_request_seconds_count"] > 1
            assert abs(counted["mcpdesk_engine_clock_skew_seconds"]) < 1
            assert counted['mcpdesk_folder_mismatches{server="calc"}'] == 0
            engine.ask("CONFIG", "SET", "maxmemory", "0")
            await until_ready(http, url, 200)
            await SessionClient(url, http).open()


@needs_engine
@pytest.mark.slow
async def test_a_replica_that_was_asked_to_end_serves_new_connections_until_balancers_know(
    tmp_path: Path,
) -> None:
    with engine_server() as engine:
        replica = ServedReplica(
            [calculator(tmp_path)], engine.url, tmp_path / "state", MCPDESK_LAME_DUCK_S="600"
        )
        await asyncio.to_thread(replica.wait_until_it_serves)
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(connector=connector) as http:
            replica.send(signal.SIGTERM)
            assert "it is ending" in (await until_ready(http, replica.url, 503))["reason"]
            client = SessionClient(replica.url, http)
            await client.open()
            assert (await client.call("add", a=1, b=2))["structuredContent"] == {"result": 3}
        # A second signal ends the wait.
        assert await asyncio.to_thread(replica.end, signal.SIGINT) == 128 + signal.SIGINT


async def test_an_absent_engine_counts_when_the_lease_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    group = ReplicaGroup(f"redis://127.0.0.1:{free_port()}/0", "ready", 60.0, lambda told: None)
    assert group.unready == "" and group.away == group.outage == ""
    await group.engine.start()
    assert group.unready == "" and "is away" in group.away
    now = time.time()
    monkeypatch.setattr("mcpdesk.features.replicas.group.replica_group.time.time", lambda: now + LEASE_S + 1)
    assert group.unready == group.outage == "the engine that the replicas share is away"
    await group.engine.close()


async def test_every_reason_of_a_refusal_is_counted_from_the_start() -> None:
    group = ReplicaGroup(f"redis://127.0.0.1:{free_port()}/0", "ready", 60.0, lambda told: None)
    refused = next(each for each in group.figures if each.name == "engine_refused_requests_total")
    assert {each.labels["reason"]: each.value for each in refused.samples} == dict.fromkeys(EngineRefusal, 0)
    await group.engine.close()
