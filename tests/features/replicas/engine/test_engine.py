"""The engine: bounded waits, plain errors, events that arrive once it is back."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.errors import DeskUserError, StorageError
from mcpdesk.features.replicas.engine import engine as engines
from mcpdesk.features.replicas.engine.engine import (
    CHECK_PERIOD_S,
    COMMAND_TIMEOUT_S,
    DURATION_BOUNDS_S,
    Engine,
    EngineFigures,
    EngineRefusal,
    EngineUnavailable,
    connect,
    without_login,
)
from mcpdesk.features.replicas.engine.engine_database import EngineDatabase
from mcpdesk.features.replicas.engine.engine_jobs import EngineJobTable
from mcpdesk.features.replicas.engine.event_bus import EventBus
from mcpdesk.features.replicas.group.engine_questions import Ending, EngineQuestions
from mcpdesk.features.replicas.group.engine_sessions import EngineSessions
from mcpdesk.features.replicas.group.living import LiveReplicas, former_replica, living_replicas
from mcpdesk.inbox.question import Page, Question
from mcpdesk.protocol.handshake import SessionState
from mcpdesk.protocol.task_shapes import TaskStatus
from mcpdesk.storage import facts
from mcpdesk.storage.job_table import JobRecord, JobRow
from mcpdesk.transports.base import SharedSession
from tests.support.engine import EngineServer, deployment, engine_server, needs_engine
from tests.support.patience import WITHIN_S, until, within
from tests.support.ports import free_port

pytestmark = needs_engine


@pytest.fixture
def server() -> Iterator[EngineServer]:
    with engine_server() as made:
        yield made


@pytest.fixture
async def engine(server: EngineServer, tmp_path: Path) -> AsyncIterator[Engine]:
    made = Engine(server.url, deployment(tmp_path))
    await made.start()
    yield made
    await made.close()


@pytest.mark.process
async def test_an_engine_that_ended_is_an_error_at_once_and_used_again_when_it_is_back(
    server: EngineServer, engine: Engine
) -> None:
    back = asyncio.Event()
    engine.on_available.append(back.set)
    await engine.run(lambda client: client.set("a", "b"))
    server.kill()
    with pytest.raises(EngineUnavailable, match=rf"redis://127.0.0.1:{server.port}/0 cannot be used"):
        await engine.run(lambda client: client.get("a"))
    assert not engine.status.is_up and engine.status.reason
    server.start()
    async with within():
        await back.wait()
    assert await engine.run(lambda client: client.get("a")) is None
    assert engine.status.is_up


@pytest.mark.process
async def test_an_engine_that_hangs_is_waited_for_once_only(server: EngineServer, engine: Engine) -> None:
    server.send(signal.SIGSTOP)
    try:
        with pytest.raises(EngineUnavailable, match=f"did not answer within {COMMAND_TIMEOUT_S:g} s"):
            await engine.run(lambda client: client.get("a"))
        began = time.monotonic()
        with pytest.raises(EngineUnavailable):
            await engine.run(lambda client: client.get("a"))
        assert time.monotonic() - began < COMMAND_TIMEOUT_S / 2
    finally:
        server.send(signal.SIGCONT)
    await until(lambda: engine.status.is_up)


@pytest.mark.process
async def test_a_script_waits_for_an_engine_that_is_away_for_a_moment(
    server: EngineServer, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "OUTAGE_WAIT_S", WITHIN_S)
    server.kill()
    asked = [
        asyncio.create_task(engine.script("return redis.call('INCR', KEYS[1])", ["n"])) for _ in range(3)
    ]
    await until(lambda: not engine.status.is_up)
    server.start()
    assert sorted(await asyncio.gather(*asked)) == [1, 2, 3]
    server.kill()
    engine.is_patient = False  # its process ends: what cannot be written now is given up
    with pytest.raises(EngineUnavailable):
        await engine.script("return 1", [])


@pytest.mark.process
async def test_full_memory_is_told_and_what_reads_goes_on(server: EngineServer, engine: Engine) -> None:
    await engine.run(lambda client: client.set("a", "b"))
    server.ask("CONFIG", "SET", "maxmemory", "1mb")
    with pytest.raises(EngineUnavailable, match="command not allowed"):
        await engine.run(lambda client: client.set("big", b"x" * (2 << 20)))
    assert await engine.run(lambda client: client.get("a")) == b"b"
    assert engine.status.is_up


class Probed:
    """An engine that checks whether writes are accepted, and its reports."""

    def __init__(self, server: EngineServer, name: str) -> None:
        self.told: list[str] = []
        self.backs = 0
        self.engine = Engine(server.url, name, self.told.append, probes=True)
        self.engine.on_available.append(self._count)

    def _count(self) -> None:
        self.backs += 1


@pytest.fixture
async def probed(server: EngineServer, tmp_path: Path) -> AsyncIterator[Probed]:
    made = Probed(server, deployment(tmp_path))
    await made.engine.start()
    yield made
    await made.engine.close()


@pytest.mark.process
@pytest.mark.parametrize(
    ("breaking", "repairing", "refusal", "reason"),
    [
        (("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0"), "full", "memory is full"),
        (("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE"), "read_only", "read only replica"),
        (
            ("CONFIG", "SET", "min-replicas-to-write", "1"),
            ("CONFIG", "SET", "min-replicas-to-write", "0"),
            "other",
            "Not enough good replicas to write",
        ),
    ],
)
async def test_an_engine_that_takes_no_writes_is_up_and_not_writable(
    server: EngineServer,
    probed: Probed,
    breaking: Sequence[str],
    repairing: Sequence[str],
    refusal: str,
    reason: str,
) -> None:
    engine = probed.engine
    server.ask(*breaking)
    await until(lambda: not engine.status.is_writable)
    assert engine.status.is_up and engine.status.refusal == refusal and reason in engine.status.reason
    with pytest.raises(EngineUnavailable, match=reason):
        await engine.run(lambda client: client.set("a", "b"))
    assert engine.figures.refused == {refusal: 1}
    assert await engine.run(lambda client: client.get("a")) is None
    server.ask(*repairing)
    await until(lambda: engine.status.is_writable)
    assert probed.backs == 1
    assert probed.told == [
        f"{engine.display_url} refuses writes: {engine_reason(probed)}",
        f"{engine.display_url} accepts writes again",
    ]


def engine_reason(probed: Probed) -> str:
    return probed.told[0].partition(" refuses writes: ")[2]


@pytest.mark.process
async def test_the_reason_for_refused_writes_is_the_latest_one(server: EngineServer, probed: Probed) -> None:
    engine = probed.engine
    server.ask("CONFIG", "SET", "maxmemory", "1")
    await until(lambda: engine.status.refusal == "full")
    since = engine.status.since
    server.ask("REPLICAOF", "127.0.0.1", "1")  # a replica takes no writes, whatever its memory
    await until(lambda: engine.status.refusal == "read_only")
    assert "read only replica" in engine.status.reason and engine.status.since == since
    assert len(probed.told) == 1
    server.ask("REPLICAOF", "NO", "ONE")
    server.ask("CONFIG", "SET", "maxmemory", "0")
    await until(lambda: engine.status.is_writable)
    assert probed.backs == 1


@pytest.mark.process
async def test_an_engine_that_holds_back_writes_is_away_until_it_takes_them(
    server: EngineServer, probed: Probed
) -> None:
    """It answers all other commands, which must not count as recovery."""
    server.ask("CLIENT", "PAUSE", "60000", "WRITE")
    await until(lambda: not probed.engine.status.is_up)
    for _ in range(3):
        with pytest.raises(EngineUnavailable, match="did not answer"):
            await probed.engine.run(lambda client: client.get("a"))
        await asyncio.sleep(CHECK_PERIOD_S)
    server.ask("CLIENT", "UNPAUSE")
    await until(lambda: probed.engine.status.is_writable)
    assert [each.rpartition("/0 ")[2] for each in probed.told] == [
        f"is away: it did not answer within {COMMAND_TIMEOUT_S:g} s",
        "answers again",
    ]
    assert probed.engine.figures.refused[EngineRefusal.TIMEOUT] == 3
    assert sum(probed.engine.figures.counts) == 0, "requests that are not sent take no time"


@pytest.mark.process
async def test_a_lease_is_renewed_in_a_full_engine(server: EngineServer, engine: Engine) -> None:
    living = LiveReplicas(engine)
    await living.renew()
    leases = engine.key("leases")
    before = await engine.run(lambda client: client.zscore(leases, living.me.id))
    server.ask("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(EngineUnavailable):
        await engine.run(lambda client: client.set("a", "b"))
    await living.renew()
    assert await engine.run(lambda client: client.zscore(leases, living.me.id)) > before
    server.ask("CONFIG", "SET", "maxmemory", "0")


@pytest.mark.process
async def test_a_replica_that_left_is_remembered_though_others_renew_their_leases(engine: Engine) -> None:
    left, stays = LiveReplicas(engine), LiveReplicas(engine)
    await stays.renew()
    await left.update(is_ending=True)
    await left.close()
    await stays.renew()
    assert [each.id for each in await living_replicas(engine)] == [stays.me.id]
    said = await former_replica(engine, left.me.id)
    assert said is not None and said.is_ending


@pytest.mark.process
async def test_a_password_is_needed_and_never_shown(server: EngineServer, tmp_path: Path) -> None:
    server.ask("CONFIG", "SET", "requirepass", "swordfish")
    stranger = Engine(server.url.replace("//", "//:guess@"), deployment(tmp_path))
    with pytest.raises(EngineUnavailable) as told:
        await stranger.run(lambda client: client.get("a"))
    assert "guess" not in str(told.value) and "swordfish" not in str(told.value)
    await stranger.close()
    known = Engine(server.url.replace("//", "//:swordfish@"), deployment(tmp_path))
    assert await known.run(lambda client: client.get("a")) is None
    await known.close()


@pytest.mark.process
async def test_its_clock_is_that_of_the_engine(engine: Engine) -> None:
    seconds, _ = await engine.run(lambda client: client.time())
    assert abs(engine.clock() - seconds) < 2


@pytest.mark.process
async def test_events_reach_the_others_in_order_and_not_their_sender(engine: Engine) -> None:
    one, two = EventBus(engine, "one"), EventBus(engine, "two")
    heard: list[tuple[str, Any]] = []
    for bus, name in ((one, "one"), (two, "two")):
        bus.listen("changed", lambda facts, name=name: heard.append((name, facts["number"])))  # type: ignore[misc]
        await bus.start()
    for number in range(100):
        one.publish("changed", number=number)
    one.publish("unknown", number=0)
    two.publish("changed", number=-1)
    await until(lambda: {("two", 99), ("one", -1)} <= set(heard))
    # Events that were sent while the engine was slow may be sent, and received, once more.
    distinct = list(dict.fromkeys(heard))
    assert [number for name, number in distinct if name == "two"] == list(range(100))
    assert [number for name, number in distinct if name == "one"] == [-1]
    await one.close()
    await two.close()


@pytest.mark.process
async def test_an_event_that_cannot_be_handled_keeps_no_other_from_being_heard(engine: Engine) -> None:
    one, two = EventBus(engine, "one"), EventBus(engine, "two")
    heard: list[int] = []

    def hear(facts: Any) -> None:
        heard.append(facts["number"])
        if len(heard) == 1:
            raise StorageError("it cannot be written")

    two.listen("changed", hear)
    await two.start()
    one.publish("changed", number=1)
    one.publish("changed", number=2)
    await until(lambda: list(dict.fromkeys(heard)) == [1, 2])
    await one.close()
    await two.close()


@pytest.mark.process
async def test_a_reader_ends_in_whatever_moment_it_is_closed(engine: Engine) -> None:
    for turns in range(40):
        bus = EventBus(engine, "one")
        await bus.start()
        for _ in range(turns):
            await asyncio.sleep(0)
        async with within():
            await bus.close()


@pytest.mark.process
async def test_events_told_while_the_engine_is_away_are_heard_when_it_is_back(
    server: EngineServer, engine: Engine
) -> None:
    one, two = EventBus(engine, "one"), EventBus(engine, "two")
    heard: list[int] = []
    two.listen("changed", lambda facts: heard.append(facts["number"]))
    await one.start()
    await two.start()
    server.kill()
    await until(lambda: not engine.status.is_up)
    one.publish("changed", number=1)
    server.start()
    one.publish("changed", number=2)
    await until(lambda: list(dict.fromkeys(heard)) == [1, 2])
    await one.close()
    await two.close()


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("redis://user:secret@host:6379/2?x=1", "redis://host:6379/2"),
        ("rediss://host", "rediss://host"),
        ("unix:///run/valkey.sock", "unix:///run/valkey.sock"),
        ("redis+sentinel://:pw@a:1,b:2/main/3", "redis+sentinel://a:1,b:2/main/3"),
    ],
)
def test_urls_are_shown_without_their_secrets(url: str, seen: str) -> None:
    assert without_login(url) == seen


@pytest.mark.parametrize("url", ["http://host", "redis://host:port", "redis+sentinel://host:26379"])
def test_urls_that_cannot_be_used_are_refused(url: str) -> None:
    with pytest.raises(DeskUserError, match="cannot be used"):
        connect(url, 1.0)


@pytest.mark.process
async def test_sentinels_are_asked_for_the_master(server: EngineServer, tmp_path: Path) -> None:
    config = tmp_path / "sentinel.conf"
    config.write_text(f"sentinel monitor main 127.0.0.1 {server.port} 1\n")
    with engine_server([str(config), "--sentinel"]) as sentinel:
        engine = Engine(f"redis+sentinel://127.0.0.1:{sentinel.port}/main/1", deployment(tmp_path))
        await engine.run(lambda client: client.set("a", "b"))
        await engine.close()
    assert "keys=1" in server.ask("INFO", "keyspace")


@pytest.mark.process
async def test_a_cluster_keeps_what_one_server_keeps(tmp_path: Path) -> None:
    options = ["--cluster-enabled", "yes", "--cluster-port", str(free_port()), "--dir", str(tmp_path)]
    with engine_server(options) as server:
        server.ask("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
        await until(lambda: "cluster_state:ok" in server.ask("CLUSTER", "INFO"))
        engine = Engine(server.url.replace("redis://", "redis+cluster://").removesuffix("/0"), "clustered")
        await engine.start()
        state = EngineDatabase(engine, "mine")
        await state.run(lambda c: facts.set_fact(c, "plan:", "tea"))
        assert await state.run(lambda c: facts.fact(c, "plan:")) == "tea"
        state.close()
        one, two = EventBus(engine, "one"), EventBus(engine, "two")
        heard: list[int] = []
        two.listen("changed", lambda told: heard.append(told["number"]))
        await two.start()
        one.publish("changed", number=1)
        await until(lambda: heard == [1])
        await one.close()
        await two.close()
        sessions = EngineSessions(engine, one, "one", 60)
        new = SharedSession("ab", "calc", "me", 1.0, SessionState({"protocolVersion": "2025-11-25"}), 0)
        assert (await sessions.write(new, new.state)) is not None
        joined = await sessions.join("ab", "calc", ["me"])
        assert joined is not None and joined.block == 1
        await sessions.end("ab")
        assert await sessions.read("ab") is None
        await engine.run(lambda client: client.zadd(engine.key("leases"), {"one": time.time() + 60}))
        jobs = EngineJobTable(engine, "calc", "one", lambda name: name == "two", 60.0)
        record = JobRecord("ada", "dig", "curl", "", 1.0, 1.0, 1.0, 60.0, TaskStatus.WORKING, fence=1)
        assert await jobs.write([JobRow(f"j{at}", "one", record) for at in range(120)], ()) == set()
        assert len(await jobs.rows("ada")) == 120
        await engine.run(lambda client: client.zadd(engine.key("leases"), {"one": 0}))
        heir = EngineJobTable(engine, "calc", "two", lambda name: name == "two", 60.0)
        assert len(await heir.claim()) == 120
        questions = EngineQuestions(engine, one)
        asked = Question(3, "calc", "ada", "dig", (Page("Deeper?"),), 1.0, 2.0)
        await questions.write(asked, "one", 3, 60.0)
        assert await questions.waiting_of("one") == {3: asked}
        assert await questions.end("one", 3, Ending.OWN, "a", asked, asked)
        assert not await questions.end("one", 3, Ending.OWN, "b", asked, asked)
        assert await questions.waiting_of("one") == {}
        await engine.close()


def test_each_request_is_counted_once_in_the_range_of_its_time() -> None:
    figures = EngineFigures()
    for seconds in (0.0, DURATION_BOUNDS_S[0], 0.02, 60.0):
        figures.add(seconds)
    assert figures.counts == [2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]
    assert figures.total_s == pytest.approx(60.02 + DURATION_BOUNDS_S[0])
