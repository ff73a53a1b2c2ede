"""Capacity of one engine that replicas share: sizes and rates at the size the page on many machines names.

The engine and everything that asks it share the processors of this machine. Rates are therefore those of both
together; where the engine is the bound, its share of a processor is measured as well.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp
import psutil

from mcpdesk.features.replicas.engine.engine import Engine
from mcpdesk.features.replicas.engine.engine_database import EngineDatabase
from mcpdesk.features.replicas.engine.engine_jobs import EngineJobTable
from mcpdesk.features.replicas.engine.engine_streams import EngineStreams
from mcpdesk.features.replicas.engine.event_bus import EventBus
from mcpdesk.features.replicas.group.engine_sessions import EngineSessions
from mcpdesk.features.replicas.group.living import LiveReplicas
from mcpdesk.protocol.event_store import EventStore, SharedEventBudget
from mcpdesk.protocol.handshake import SessionState
from mcpdesk.protocol.task_shapes import TaskStatus
from mcpdesk.storage import facts
from mcpdesk.storage.job_table import JobRecord, JobRow
from mcpdesk.transports.base import SharedSession
from tests.bench.figure import Effort, Figure
from tests.bench.replicas import used
from tests.support.engine import PROGRAM, EngineServer, engine_server
from tests.support.replicas import replica_cluster
from tests.support.session_client import SessionClient, calculator

SESSIONS = 10_000
JOBS = 10_000
REPLICAS = 100
EVENTS = 300
STREAMS, STREAM_BYTES = 200, 100_000
STATE_BYTES = 100_000
AT_ONCE = 32
"""Number of concurrent requests to the engine."""
STATE = SessionState(
    {"protocolVersion": "2025-11-25", "capabilities": {}}, True, "error", ("resource://a",), "m"
)


def figures(effort: Effort) -> Iterator[Figure]:
    """Sizes in the engine and in replicas, and rates of changes in the engine."""
    if PROGRAM:
        yield from asyncio.run(_figures(effort))


async def _figures(effort: Effort) -> list[Figure]:
    found: list[Figure] = []
    for measure in (_sessions, _renewals, _leases, _streams, _jobs, _events, _state):
        with engine_server() as server:
            found += [
                Figure(f"capacity.{name}", unit, [value])
                for name, unit, value in await measure(server, effort.seconds)
            ]
    return found


Values = list[tuple[str, str, float]]


@asynccontextmanager
async def _engine(server: EngineServer) -> AsyncIterator[Engine]:
    engine = Engine(server.url, "capacity")
    await engine.start()
    try:
        yield engine
    finally:
        await engine.close()


def _busy_s(server: EngineServer) -> float:
    """Seconds of processor time that the engine has used."""
    told = server.ask("INFO", "cpu")
    return sum(
        float(told.partition(f"{name}:")[2].partition("\r")[0]) for name in ("used_cpu_sys", "used_cpu_user")
    )


async def _rate(work: Callable[[int], Awaitable[object]], seconds: float, at_once: int = AT_ONCE) -> float:
    """Return how many times a second `work` ends, with `at_once` running concurrently."""
    end, numbers, done = time.monotonic() + seconds, count(), 0

    async def repeat() -> None:
        nonlocal done
        while time.monotonic() < end:
            await work(next(numbers))
            done += 1

    began = time.monotonic()
    await asyncio.gather(*(repeat() for _ in range(at_once)))
    return done / (time.monotonic() - began)


async def _sessions(server: EngineServer, seconds: float) -> Values:
    """Open sessions at one replica, and use each at the other one."""
    del seconds
    with TemporaryDirectory() as place:
        async with replica_cluster(2, [calculator(Path(place))], server, Path(place)) as cluster:
            first, second = cluster.replicas
            process, before = psutil.Process(second.process.pid), used(server)
            numbers = iter(range(SESSIONS))
            sessions: list[SessionClient] = []

            async def open_and_use(http: aiohttp.ClientSession, url: str, has_to_open: bool) -> None:
                for number in numbers:
                    if has_to_open:
                        client = SessionClient(url, http)
                        client.headers.pop("Connection")
                        await client.open()
                        sessions.append(client)
                    else:
                        sessions[number].http, sessions[number].url = http, f"{url}/mcp/calc"
                        await sessions[number].call("add", a=1, b=1)

            async with aiohttp.ClientSession() as http:
                await asyncio.gather(*(open_and_use(http, first.url, True) for _ in range(AT_ONCE)))
                size, memory = used(server) - before, process.memory_info().rss
                numbers = iter(range(SESSIONS))
                await asyncio.gather(*(open_and_use(http, second.url, False) for _ in range(AT_ONCE)))
            grown = process.memory_info().rss - memory
    return [
        (f"engine, {SESSIONS:,} sessions", "MB", size / 1e6),
        (f"replica, copies of {SESSIONS:,} sessions", "MB", grown / 1e6),
    ]


async def _renewals(server: EngineServer, seconds: float) -> Values:
    """Write used sessions, as replicas do once a minute."""
    async with _engine(server) as engine:
        sessions = EngineSessions(engine, EventBus(engine, "one"), "one", 3600)
        new = [SharedSession(f"{at:064x}", "calc", "me", 1.0, STATE, 0) for at in range(1_000)]
        kept = [each for one in new if (each := await sessions.write(one, STATE)) is not None]

        async def renew(number: int) -> None:
            at = number % len(kept)
            written = await sessions.write(kept[at], STATE)
            assert written is not None
            kept[at] = written

        before, began = _busy_s(server), time.monotonic()
        rate = await _rate(renew, seconds)
        busy = (_busy_s(server) - before) / (time.monotonic() - began)
    return [
        ("renewals of sessions by one process", "/s", rate),
        ("renewals of sessions in a second of the engine's processor", "/CPU s", rate / busy),
    ]


async def _leases(server: EngineServer, seconds: float) -> Values:
    """Renew the leases of many replicas, each of which reads all of them."""
    async with _engine(server) as engine:
        replicas = [LiveReplicas(engine) for _ in range(REPLICAS)]
        for each in replicas:
            each.me = type(each.me)(
                each.me.id, f"web-{each.me.id}:3333", "http://10.0.0.1:3333", folders={"calc": "0" * 16}
            )
            await each.renew()
        before, began = _busy_s(server), time.monotonic()
        rate = await _rate(lambda number: replicas[number % REPLICAS].renew(), seconds)
        busy = (_busy_s(server) - before) / (time.monotonic() - began)
        assert len(replicas[0].others) == REPLICAS - 1
    return [
        (f"engine, leases of {REPLICAS} replicas, one a second each", "% CPU", 100 * REPLICAS * busy / rate)
    ]


async def _streams(server: EngineServer, seconds: float) -> Values:
    """Write streams whose clients are disconnected."""
    del seconds
    async with _engine(server) as engine:
        streams, budget = EngineStreams(engine, 3600), SharedEventBudget(1 << 30)
        before, began = used(server), time.monotonic()
        for number in range(STREAMS):
            store: EventStore[object] = EventStore(1 << 20, 1_000, budget)  # type: ignore[type-var]
            store.archive = partial(streams.write_soon, f"{number:064x}")
            stream = store.open("1")
            for _ in range(10):
                stream.put(b"x" * (STREAM_BYTES // 10))
        await streams.close()
        took, size = time.monotonic() - began, used(server) - before
    return [
        (f"engine, 1,000 streams of {STREAM_BYTES // 1000} kB", "MB", 1_000 * size / STREAMS / 1e6),
        (f"streams of {STREAM_BYTES // 1000} kB written by one process", "/s", STREAMS / took),
    ]


async def _jobs(server: EngineServer, seconds: float) -> Values:
    del seconds
    async with _engine(server) as engine:
        table = EngineJobTable(engine, "calc", "one", lambda name: True, 60.0)
        output = "x" * 200
        record = JobRecord(
            "ada", "dig", "curl", "", 1.0, 1.0, 1.0, 60.0, TaskStatus.WORKING, stdout=output, fence=1
        )
        before, began = used(server), time.monotonic()
        for start in range(0, JOBS, 1_000):
            await table.write(
                [JobRow(f"job-{at:016x}", "one", record) for at in range(start, start + 1_000)], ()
            )
        wrote, size = time.monotonic() - began, used(server) - before
        began = time.monotonic()
        rows = await table.rows("ada")
        listed = time.monotonic() - began
    return [
        (f"engine, {JOBS:,} jobs", "MB", size / 1e6),
        ("jobs written by one process", "/s", JOBS / wrote),
        (f"list of the newest {len(rows):,} jobs", "s", listed),
    ]


async def _events(server: EngineServer, seconds: float) -> Values:
    """Send events that many replicas read; here all of them are one process."""
    del seconds
    async with _engine(server) as engine:
        heard, is_over = 0, asyncio.Event()

        def hear(told: object) -> None:
            nonlocal heard
            heard += 1
            if heard == EVENTS * REPLICAS:
                is_over.set()

        buses = [EventBus(engine, f"replica-{at}") for at in range(REPLICAS)]
        for bus in buses:
            bus.listen("changed", hear)
            await bus.start()
        teller = EventBus(engine, "teller")
        await asyncio.sleep(0.5)  # until each reads
        before, began = _busy_s(server), time.monotonic()
        for number in range(EVENTS):
            teller.publish("changed", number=number)
            await asyncio.sleep(0.001)
        await is_over.wait()
        took, busy = time.monotonic() - began, _busy_s(server) - before
        await asyncio.gather(*(bus.close() for bus in (*buses, teller)))
    return [
        (f"events read by {REPLICAS} replicas in one process", "/s", EVENTS / took),
        (
            f"events read by {REPLICAS} replicas in a second of the engine's processor",
            "/CPU s",
            EVENTS / busy,
        ),
    ]


async def _state(server: EngineServer, seconds: float) -> Values:
    """Change the state of one server, by one replica and by four at a time."""
    async with _engine(server) as engine:
        states = [EngineDatabase(engine, "calc") for _ in range(4)]
        await states[0].run(lambda c: facts.set_fact(c, "plan:", "x" * STATE_BYTES))

        def change(number: int, replicas: int) -> Awaitable[None]:
            return states[number % replicas].run(lambda c: facts.set_fact(c, "count", str(number)))

        rates = [await _rate(partial(change, replicas=each), seconds, each) for each in (1, 4)]
        for state in states:
            state.close()
    size = STATE_BYTES // 1000
    return [
        (f"changes of a state of {size} kB by one replica", "/s", rates[0]),
        (f"changes of a state of {size} kB by four replicas", "/s", rates[1]),
    ]
