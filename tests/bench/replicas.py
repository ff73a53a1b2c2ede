"""Replicas that share an engine, beside one server alone and beside as many that share nothing.

All run on one machine together with their loads, so the rate of all is bound by its processors. What one
on a machine of its own would reach shows in how many calls it answers in a second of processor time. For that
each gets as many connections as the one alone, from a load of its own. Split among them, those of the one are
fewer for each, and any server needs more time a call then, as it is woken up for less at once. The cost of
sharing is the difference to as many servers without an engine, under the same load on the same processors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp

from tests.bench.figure import OURS, Effort, Figure, Goal, beside
from tests.bench.folder import echo_folder
from tests.bench.load import Job, measured_by
from tests.support.engine import PROGRAM, EngineServer, engine_server
from tests.support.replicas import ServedReplica, replica_cluster
from tests.support.session_client import SessionClient, calculator

COUNTS = (1, 2, 4)
CONNECTIONS = 16
ALONE, WITHOUT = "alone", "no engine"
STATELESS, SPLIT, HANDSHAKE = "stateless", "stateless, split", "handshake"
GOALS = {STATELESS: {ALONE: Goal(0.7)}, HANDSHAKE: {ALONE: Goal(0.5)}}
SLICES = 4
"""Loads a round: short, alternating ones are equally affected by other programs."""
SESSIONS = 10_000
OPENERS = 32
Rates = tuple[float, float]
"""Calls in a second of processor time, and in a second of elapsed time."""


def figures(effort: Effort) -> Iterator[Figure]:
    """Calls a second, beside one server alone and as many without an engine; MiB of the engine."""
    if not PROGRAM:
        return
    short = Effort(effort.rounds * SLICES, effort.seconds / SLICES)
    for count in COUNTS:
        with _groups(count) as groups:
            for case in (STATELESS, SPLIT, HANDSHAKE) if count > 1 else (STATELESS, HANDSHAKE):
                loads = {who: partial(_loaded, group, case, short.seconds) for who, group in groups.items()}
                if case == HANDSHAKE:
                    loads.pop(WITHOUT, None)  # none of them knows the sessions of another
                yield from _told(f"replicas.{count} {case}", short.interleaved(loads), GOALS.get(case, {}))
    yield Figure("replicas.engine of 10,000 sessions", "MiB", [asyncio.run(_memory())])


def _told(name: str, samples: Mapping[str, Sequence[Rates]], goals: Mapping[str, Goal]) -> Iterator[Figure]:
    of_processor, of_clock = (
        {who: [rates[at] for rates in values] for who, values in samples.items()} for at in (0, 1)
    )
    yield from beside(name, "/CPU s", of_processor, goals)
    if WITHOUT in of_processor:
        theirs = of_processor[ALONE]
        yield Figure(f"{name}, {WITHOUT}", "/CPU s", of_processor[WITHOUT], ALONE, theirs)
    yield Figure(f"{name}, rate of all", "/s", of_clock[OURS], ALONE, of_clock[ALONE])


@contextmanager
def _groups(count: int) -> Iterator[Mapping[str, Sequence[ServedReplica]]]:
    """One server alone, `count` that share an engine, and `count` without one."""
    with TemporaryDirectory() as place, echo_folder() as folder, ExitStack() as stack:
        engine = stack.enter_context(engine_server())
        kinds = {OURS: (count, engine.url), ALONE: (1, "")}
        if count > 1:
            kinds[WITHOUT] = (count, "")
        groups: dict[str, list[ServedReplica]] = {}
        for who, (number, shared) in kinds.items():
            for at in range(number):
                server = ServedReplica([folder], shared, Path(place) / f"{who}-{at}")
                stack.callback(server.end)
                groups.setdefault(who, []).append(server)
        for each in groups.values():
            for server in each:
                server.wait_until_it_serves()
        yield groups


def _loaded(group: Sequence[ServedReplica], case: str, seconds: float) -> Rates:
    """Load all servers of a group at once. A session is opened at one of them and used at the next."""
    connections = CONNECTIONS // (len(group) if case == SPLIT else 1)
    era = HANDSHAKE if case == HANDSHAKE else STATELESS
    loads = [
        Job(
            server.port,
            "/mcp/echo",
            era,
            seconds,
            connections,
            pid=server.process.pid,
            opened_at=group[at - 1].port,
        ).start()
        for at, server in enumerate(group)
    ]
    found = [measured_by(load) for load in loads]
    rate = sum(each.rate for each in found)
    return 1e6 * rate / sum(each.rate * each.cpu_us for each in found), rate


async def _memory() -> float:
    """MiB by which the engine grew for 10,000 sessions."""
    with TemporaryDirectory() as place, engine_server() as engine:
        async with replica_cluster(max(COUNTS), [calculator(Path(place))], engine, Path(place)) as cluster:
            before = used(engine)

            async def open_some(count: int) -> None:
                async with aiohttp.ClientSession() as http:
                    for _ in range(count):
                        client = SessionClient(cluster.url, http)
                        client.headers.pop("Connection")
                        await client.open()

            await asyncio.gather(*(open_some(SESSIONS // OPENERS) for _ in range(OPENERS)))
            return (used(engine) - before) / (1 << 20) * SESSIONS / (SESSIONS // OPENERS * OPENERS)


def used(engine: EngineServer) -> int:
    """Bytes in use by the engine."""
    told = engine.ask("INFO", "memory")
    return int(told.partition("used_memory:")[2].partition("\r")[0])
