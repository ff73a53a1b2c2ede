"""Jobs of replicas that are killed, stopped for a while or cut off from the engine."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeVar

import aiohttp
import pytest

from mcpdesk.protocol.marked_ids import process_mark
from mcpdesk.protocol.request_state import round_of
from tests.features.replicas.test_shared_jobs import SLEEP, Caller, make_folder
from tests.support.engine import EngineServer, engine_server, needs_engine, shared_engine
from tests.support.features import needs_feature
from tests.support.patience import WITHIN_S, until
from tests.support.replicas import ReplicaCluster, ServedReplica, replica_cluster

__all__ = ["shared_engine"]

pytestmark = [needs_engine, needs_feature("gateway"), needs_feature("program_tools"), pytest.mark.slow]

T = TypeVar("T")
INTERRUPTED_S = 10.0
"""Longest time that a job of a dead replica may be shown as running."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path)


@pytest.fixture
async def cluster(folder: Path, tmp_path: Path, shared_engine: EngineServer) -> AsyncIterator[ReplicaCluster]:
    async with replica_cluster(3, [folder], shared_engine, tmp_path, MCPDESK_NO_AUTH="true") as made:
        yield made
        for replica in made.replicas:
            replica.end(signal.SIGKILL)  # nothing is waited for that still runs


@pytest.fixture
async def caller(cluster: ReplicaCluster) -> AsyncIterator[Caller]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as http:
        yield Caller(cluster, http)


def kill(cluster: ReplicaCluster, victim: ServedReplica) -> None:
    victim.end(signal.SIGKILL)
    cluster.replicas.remove(victim)


def runs(folder: Path, mark: str) -> list[str]:
    """Notes of the tool about its runs: `began` or `ended` and the process."""
    lines = (folder / "runs").read_text().splitlines() if (folder / "runs").exists() else []
    return [line.removeprefix(f"{mark} ") for line in lines if line.startswith(f"{mark} ")]


async def wait_for_runs(folder: Path, mark: str, count: int) -> list[str]:
    await until(lambda: len(runs(folder, mark)) >= count)
    return runs(folder, mark)


async def test_a_killed_replica_leaves_ends_as_they_were_and_the_rest_interrupted(
    caller: Caller, cluster: ReplicaCluster, shared_engine: EngineServer
) -> None:
    running = await caller.begin("slow", {"seconds": 300})
    victim = cluster.of_job(running, shared_engine)
    done = made = ""
    while not (done and made):
        for name, arguments in (("slow", {"seconds": 0}), ("make", {"name": "a.txt"})):
            job = await caller.begin(name, arguments)
            if cluster.of_job(job, shared_engine) is victim:
                await caller.over(job)
                done, made = (job, made) if name == "slow" else (done, job)
    task = ""
    while not task:
        begun = (await caller.stateless("tools/call", name="slow", arguments={"seconds": 300}))["result"]
        if cluster.of_job(begun["taskId"], shared_engine) is victim:
            task = begun["taskId"]
    kill(cluster, victim)
    died = time.monotonic()
    assert (await caller.get(f"/jobs/{done}"))["stdout"] == "slept"
    async with caller.http.get(f"{caller.url}/jobs/{made}/download") as answer:
        assert (answer.status, await answer.read()) == (200, b"the content")
    facts = await caller.over(running, INTERRUPTED_S)
    assert facts["status"] == "failed" and "interrupted" in facts["error"]["message"]
    found = await caller.task(task, lambda each: each["status"] == "failed", INTERRUPTED_S)
    assert "interrupted" in found["error"]["message"]
    assert time.monotonic() - died < INTERRUPTED_S
    for _ in range(3):
        assert (await caller.get(f"/jobs/{running}")) == facts
    async with caller.http.delete(f"{caller.url}/jobs/{running}") as answer:
        assert answer.status == 409


async def test_a_repeatable_job_is_taken_over_once(
    caller: Caller, cluster: ReplicaCluster, folder: Path, shared_engine: EngineServer
) -> None:
    marks = ("a", "b", "c", "d")
    jobs = {mark: await caller.begin("again", {"seconds": 1.5, "mark": mark}) for mark in marks}
    arguments = {"seconds": 1.5, "mark": "task"}
    made = (await caller.stateless("tools/call", name="again", arguments=arguments))["result"]
    jobs["task"] = made["taskId"]
    command = await caller.begin("long-run", {"s": 1.5})
    jobs["command"] = command
    victim = cluster.of_job(jobs["a"], shared_engine)
    lost = {mark for mark, job in jobs.items() if cluster.of_job(job, shared_engine) is victim}
    kill(cluster, victim)
    for mark in marks:
        assert (await caller.over(jobs[mark], 2 * WITHIN_S))["status"] == "succeeded"
    assert (await caller.over(command, 2 * WITHIN_S))["status"] == "succeeded"
    found = await caller.task(jobs["task"], lambda each: each["status"] == "completed", 2 * WITHIN_S)
    assert found["result"]["content"][0]["text"].startswith("done by ")
    for mark in (*marks, "task"):
        said = runs(folder, mark)
        assert [line.split()[0] for line in said] == ["began"] * (2 if mark in lost else 1) + ["ended"]


async def test_a_replica_that_wakes_up_late_cannot_end_its_job_a_second_time(
    caller: Caller, cluster: ReplicaCluster, folder: Path, shared_engine: EngineServer
) -> None:
    job = await caller.begin("again", {"seconds": 8, "mark": "a"})
    await wait_for_runs(folder, "a", 1)
    victim = cluster.of_job(job, shared_engine)
    victim.send(signal.SIGSTOP)
    cluster.replicas.remove(victim)
    try:
        said = await wait_for_runs(folder, "a", 2)
        assert [line.split()[0] for line in said] == ["began", "began"]
        victim.send(signal.SIGCONT)
        cluster.replicas.append(victim)
        facts = await caller.over(job, 2 * WITHIN_S)
        assert facts["status"] == "succeeded" and facts["stdout"] == f"done by {said[1].split()[1]}"
        await asyncio.sleep(1)
        for _ in range(3):
            assert await caller.get(f"/jobs/{job}") == facts
        assert [line.split()[0] for line in runs(folder, "a")] == ["began", "began", "ended"]
    finally:
        if victim not in cluster.replicas:
            cluster.replicas.append(victim)


async def test_a_round_of_a_killed_replica_runs_again_once(caller: Caller, cluster: ReplicaCluster) -> None:
    asked = (await caller.plainly("ask-twice"))["result"]
    mark = process_mark(round_of(asked["requestState"]))
    for victim in list(cluster.replicas):
        async with caller.http.get(f"{victim.url}/status") as answer:
            if (await answer.json())["replicas"][0]["id"] == mark:
                kill(cluster, victim)
    assert len(cluster.replicas) == 2
    (key,) = asked["inputRequests"]
    answers = {key: {"action": "accept", "content": {"name": "Ada"}}}
    more = {"inputResponses": answers, "requestState": asked["requestState"]}
    found = [(await caller.plainly("ask-twice", **more))["result"] for _ in range(4)]
    assert found == [found[0]] * 4 and list(found[0]["inputRequests"]) != [key]


async def test_programs_of_a_job_that_was_taken_over_are_ended(
    caller: Caller, cluster: ReplicaCluster, shared_engine: EngineServer
) -> None:
    job = await caller.begin("long-run", {"s": 200})
    victim = cluster.of_job(job, shared_engine)
    children = await until(lambda: sleepers(victim.process.pid))
    victim.send(signal.SIGSTOP)
    cluster.replicas.remove(victim)
    try:
        await until(lambda: any(sleepers(each.process.pid) for each in cluster.replicas))
    finally:
        victim.send(signal.SIGCONT)
        cluster.replicas.append(victim)
    await until(lambda: not any(os.path.exists(f"/proc/{each}") for each in children))
    for _ in range(3):
        assert (await caller.get(f"/jobs/{job}"))["status"] == "running"
        async with caller.http.ws_connect(f"{caller.url}/ws/jobs/{job}") as socket:
            assert "status" in await socket.receive_json()
    async with caller.http.delete(f"{caller.url}/jobs/{job}") as answer:
        assert answer.status == 200


async def test_a_replica_that_ends_hands_repeatable_jobs_over(
    folder: Path, tmp_path: Path, shared_engine: EngineServer
) -> None:
    options = {"MCPDESK_NO_AUTH": "true", "MCPDESK_DRAIN_TIMEOUT_S": "1"}
    async with (
        replica_cluster(2, [folder], shared_engine, tmp_path, (), (), False, **options) as cluster,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as http,
    ):
        caller = Caller(cluster, http)
        job = await caller.begin("again", {"seconds": 6, "mark": "a"})
        await wait_for_runs(folder, "a", 1)
        victim = cluster.of_job(job, shared_engine)
        cluster.replicas.remove(victim)
        assert await asyncio.to_thread(victim.end) == 0
        assert (await caller.over(job, 2 * WITHIN_S))["status"] == "succeeded"
        assert [line.split()[0] for line in runs(folder, "a")] == ["began", "began", "ended"]


async def test_files_of_a_dead_replica_that_are_not_shared_are_refused_in_so_many_words(
    tmp_path: Path, shared_engine: EngineServer
) -> None:
    write_x = "import sys; open(sys.argv[1], 'w').write('x')"
    command = {"stage": "make", "command": "it", "produces": ["{output_dir}/x.txt"]}
    command["run"] = ["{python}", "-c", write_x, "{output_dir}/x.txt"]
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "mcp.json").write_text(json.dumps({"name": "work", "commands": [command]}))
    options = {"MCPDESK_NO_AUTH": "true", "MCPDESK_OUTPUT_DIRS": str(tmp_path / "none")}
    async with (
        replica_cluster(2, [folder], shared_engine, tmp_path, (), (), False, **options) as cluster,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as http,
    ):
        caller = Caller(cluster, http)
        job = await caller.begin("make-it", {})
        await caller.over(job)
        kill(cluster, cluster.of_job(job, shared_engine))
        refused = await caller.get(f"/jobs/{job}/download", 410)
        assert "this one does not share the folder of its files" in refused["error"]
        assert (await caller.get(f"/jobs/{job}"))["status"] == "succeeded"


def sleepers(process: int) -> set[int]:
    """The programs of the test's command that a process has begun, by their ids."""
    import psutil

    found = psutil.Process(process).children(recursive=True)
    lines = ((each.pid, each.cmdline()) for each in found)
    return {number for number, line in lines if SLEEP in line and "-I" not in line}


async def test_without_the_engine_running_jobs_go_on_and_what_needs_it_is_refused_at_once(
    folder: Path, tmp_path: Path
) -> None:
    with engine_server() as engine:
        async with (
            replica_cluster(2, [folder], engine, tmp_path, MCPDESK_NO_AUTH="true") as cluster,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as http,
        ):
            caller = Caller(cluster, http)
            long = [await caller.begin("slow", {"seconds": 300}) for _ in range(2)]
            for job in long * 2:
                await caller.get(f"/jobs/{job}")  # until each replica knows the other
            short = await caller.begin("slow", {"seconds": 2})
            engine.kill()
            await asyncio.sleep(1)  # until both know
            began = time.monotonic()
            params = {"name": "slow", "arguments": {"seconds": 0}, "mode": "async"}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            _, body, headers = await caller.post("/v1/mcp", message)
            assert body["error"]["code"] == -32603 and headers["Retry-After"] == "1", body
            answer = await caller.stateless("tools/call", name="slow", arguments={"seconds": 0})
            assert answer["error"]["code"] == -32603, answer
            async with http.get(f"{caller.url}/jobs/unknown") as refused:
                assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
            for job in long:
                async with http.delete(f"{caller.url}/jobs/{job}") as refused:
                    assert refused.status == 503
            plain = {"name": "slow", "arguments": {"seconds": 0}}
            _, body, _ = await caller.post("/v1/mcp", message | {"params": plain})
            assert body["result"]["stdout"] == "slept"
            assert time.monotonic() - began < 10
            await asyncio.sleep(1.5)
            assert (await caller.get(f"/jobs/{short}"))["status"] == "running"
            engine.start()
            assert (await caller.over(short))["status"] == "succeeded"
            for _ in range(2):
                for job in long:
                    assert (await caller.get(f"/jobs/{job}"))["status"] == "running"
            await asyncio.sleep(2.5)  # until they have written again what the engine lost
            victim = cluster.of_job(long[0], engine)
            kill(cluster, victim)
            facts = await caller.over(long[0], INTERRUPTED_S)
            assert "interrupted" in facts["error"]["message"]
            for replica in cluster.replicas:
                replica.end(signal.SIGKILL)
