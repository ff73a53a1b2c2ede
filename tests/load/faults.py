"""Break replicas and their engine again and again under clients, and check what the clients received.

    python -m tests.load.faults 200 --seed 7

In the manner of Jepsen: clients call, answer, write, start jobs and listen over three replicas behind a
proxy without stickiness, while replicas are killed, paused and restarted in order, the engine is killed,
paused, full and read-only, and the lines between them are cut, silent and slow. Then everything is repaired,
and confirmed work is compared with the final state.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp

import aiohttp

from mcpdesk.features.replicas.engine.engine import Engine
from mcpdesk.features.replicas.engine.engine_database import EngineDatabase
from tests.support.engine import EngineServer, engine_server
from tests.support.patience import until
from tests.support.ports import free_port
from tests.support.replicas import ReplicaCluster, ServedReplica, replica_cluster
from tests.support.session_client import SessionClient, calculator, events

CALL_LIMIT_S = 30.0
"""Seconds after which a call without an answer or error counts as hanging."""
HEAL_S = 60.0
AT_ONCE = 16
"""Number of jobs whose end is read concurrently."""
SLOWEST_LOOKS = 50
"""Ends of jobs that can be read in a second on a slow machine."""
MARKS = "marks.txt"
"""File in which each job leaves a line."""
COUNTED = 12
"""Events of a call whose client loses its connection repeatedly."""
WORKERS = 4
"""Clients of each kind."""


@dataclass
class Findings:
    """Outcomes for the clients. The four lists hold `faults` that count; all are empty if all is well."""

    ended: Counter[str] = field(default_factory=Counter)
    """Operations by kind and outcome."""
    hung: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Answers that belong to another call."""
    lost: list[str] = field(default_factory=list)
    """Confirmed work that is missing."""
    twice: list[str] = field(default_factory=list)
    """Work that was done more than once."""
    confirmed: set[str] = field(default_factory=set)
    """Names of tasks whose creation was confirmed."""
    injected: Counter[str] = field(default_factory=Counter)
    timeline: list[tuple[float, float, str]] = field(default_factory=list)
    """Begin, seconds and kind of every fault; begins are of the monotonic clock."""
    jobs: dict[str, str] = field(default_factory=dict)
    """Marks that accepted jobs must leave, by job id."""

    def faults_since(self, begin: float) -> list[str]:
        """Faults that began after a time, each with the seconds from then to its begin."""
        return [
            f"{at - begin - 5:.1f}:{kind}({seconds:.1f})"
            for at, seconds, kind in self.timeline
            if at >= begin
        ]

    @property
    def is_clean(self) -> bool:
        """True if every promise was kept."""
        return not (self.hung or self.wrong or self.lost or self.twice)

    def __str__(self) -> str:
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(self.ended.items()))
        faults = ", ".join(f"{number} {kind}" for kind, number in sorted(self.injected.items()))
        lines = [f"operations: {kinds}", f"faults: {faults}", f"confirmed writes: {len(self.confirmed)}"]
        lines.append(f"accepted jobs: {len(self.jobs)}")
        for name in ("hung", "wrong", "lost", "twice"):
            found = getattr(self, name)
            lines.append(f"{name}: {len(found)} {'; '.join(found[:5])}".rstrip())
        return "\n".join(lines)


class EngineLine:
    """Connection of one replica to the engine, which can be cut, silent for a while, or slow."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._is_cut = False
        self._is_heard = asyncio.Event()
        self._is_heard.set()
        self.delay_s = 0.0
        """Delay in seconds of all data."""
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._carrying: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        """Listen; returns the port."""
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    def cut(self) -> None:
        """Close every connection, and accept none."""
        self._is_cut = True
        for writer in list(self._open):
            writer.transport.abort()

    def turn_to(self, port: int) -> None:
        """Close every connection, and direct new ones to another engine."""
        self._port = port
        self.cut()
        self.mend()

    def silence(self) -> None:
        """Keep every connection, but forward nothing until `mend`."""
        self._is_heard.clear()

    def mend(self) -> None:
        """Accept connections again, and forward everything at once."""
        self._is_cut, self.delay_s = False, 0.0
        self._is_heard.set()

    async def close(self) -> None:
        """End everything."""
        self.mend()
        self.cut()
        assert self._server is not None
        self._server.close()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._carrying.add(task)
        self._open.add(writer)
        there = None
        try:
            if self._is_cut:
                return
            await self._is_heard.wait()
            there = await asyncio.open_connection("127.0.0.1", self._port)
            self._open.add(there[1])
            await asyncio.gather(self._copy(reader, there[1]), self._copy(there[0], writer))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for each in (writer, *(() if there is None else (there[1],))):
                self._open.discard(each)
                each.transport.abort()
            self._carrying.discard(task)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                await self._is_heard.wait()
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                writer.write(data)
                await writer.drain()
        writer.transport.abort()


class Clients:
    """Clients of every kind, until `done`."""

    def __init__(self, cluster: ReplicaCluster, found: Findings, workers: int) -> None:
        """`workers` is the number of clients of each kind."""
        self.done = asyncio.Event()
        self.is_checked = asyncio.Event()
        """Set once the listeners can be closed."""
        self.sessions: list[SessionClient] = []
        self.states = [""] * workers
        """State of each listener's stream."""
        self.heard = [0] * workers
        """Changes of the tool list that each listener was notified of."""
        self._cluster, self._found, self._workers = cluster, found, workers
        self._numbers = iter(range(1, 1 << 40))
        self._steps: dict[SessionClient, list[str]] = {}
        """Steps of returning clients during their last call, each with the seconds since it began."""

    async def run(self) -> None:
        """Run until `done` is set."""
        kinds = (self._add, self._ask, self._write, self._start_job, self._come_back)
        listeners = [asyncio.create_task(self._listen(number)) for number in range(self._workers)]
        try:
            await asyncio.gather(*(self._work(kind) for kind in kinds for _ in range(self._workers)))
            await self.is_checked.wait()
        finally:
            for listener in listeners:
                listener.cancel()
            await asyncio.gather(*listeners, return_exceptions=True)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[SessionClient]:
        """Open a session, as soon as a replica accepts one."""
        connector, limit = aiohttp.TCPConnector(force_close=True), aiohttp.ClientTimeout(CALL_LIMIT_S)
        async with aiohttp.ClientSession(connector=connector, timeout=limit) as http:
            while True:
                client = SessionClient(self._cluster.url, http)
                with suppress(aiohttp.ClientError, AssertionError, TimeoutError):
                    await client.open()
                    break
                await asyncio.sleep(0.2)
            yield client

    async def _work(self, operation: Callable[[SessionClient], Awaitable[None]]) -> None:
        kind = operation.__name__.strip("_")
        async with self.session() as client:
            self.sessions.append(client)
            while not self.done.is_set():
                try:
                    async with asyncio.timeout(CALL_LIMIT_S):
                        await operation(client)
                except TimeoutError:
                    steps = " ".join(self._steps.pop(client, ())[-12:])
                    faults = " ".join(self._found.faults_since(time.monotonic() - CALL_LIMIT_S - 5))
                    self._found.hung.append(f"{kind}: {steps} while {faults}")
                except (aiohttp.ClientError, AssertionError, KeyError, ConnectionError):
                    self._found.ended[f"{kind} failed"] += 1
                    await asyncio.sleep(0.05)
                else:
                    self._found.ended[f"{kind} ok"] += 1
            # The session was never ended: it has to be there still, see `check_sessions`.

    async def _listen(self, number: int) -> None:
        """Keep the stream of a session open, at any replica."""
        async with self.session() as client:
            headers = {**client.headers, "Accept": "text/event-stream"}
            while True:
                with suppress(aiohttp.ClientError, TimeoutError):
                    limit = aiohttp.ClientTimeout(None, sock_read=CALL_LIMIT_S)
                    async with client.http.get(client.url, headers=headers, timeout=limit) as stream:
                        self.states[number] = f"status {stream.status}"
                        if stream.status == 200:
                            async for identifier, message in events(stream):
                                headers["Last-Event-ID"] = identifier
                                self.heard[number] += message.get("method", "").endswith("list_changed")
                        self.states[number] = "ended"
                await asyncio.sleep(0.2)

    async def _add(self, client: SessionClient) -> None:
        number = next(self._numbers)
        result = await client.call("add", a=number, b=1)
        if result.get("structuredContent") != {"result": number + 1}:
            self._found.wrong.append(f"add {number}: {result}"[:200])

    async def _ask(self, client: SessionClient) -> None:
        name = f"name-{next(self._numbers)}"
        async with client.post("tools/call", {"name": "ask-name", "arguments": {}}) as answer:
            assert answer.status == 200
            async for _, message in events(answer):
                if message.get("method") == "elicitation/create":
                    content = {"action": "accept", "content": {"name": name}}
                    said = {"jsonrpc": "2.0", "id": message["id"], "result": content}
                    assert await client.send(said) == 202
                elif "result" in message:
                    if not message["result"].get("isError") and name not in str(message["result"]):
                        self._found.wrong.append(f"ask {name}: {message}"[:200])
                    return
        raise ConnectionError("the stream ended without an answer")

    async def _come_back(self, client: SessionClient) -> None:
        """Lose the connection of a call after each third event, and reconnect to any replica."""
        seen: list[int] = []
        steps, began = self._steps.setdefault(client, []), time.monotonic()
        steps.clear()

        def note(step: str) -> None:
            steps.append(f"{time.monotonic() - began:.1f}:{step}")

        arguments = {"name": "count", "arguments": {"to": COUNTED}, "_meta": {"progressToken": "p"}}
        async with client.post("tools/call", arguments) as answer:
            assert answer.status == 200
            note("begun")
            last, message = await anext(events(answer))
            note(f"id {last}")
            seen.append(message["params"]["progress"])
        while "method" in message:
            await asyncio.sleep(0.05)
            headers = {**client.headers, "Accept": "text/event-stream", "Last-Event-ID": last}
            with suppress(aiohttp.ClientError):
                async with client.http.get(client.url, headers=headers) as answer:
                    note(f"{answer.status} of {self._carrier(answer)} after {last}")
                    if answer.status == 404:
                        raise ConnectionError("the engine has lost the session")
                    async for identifier, message in events(answer):
                        last = identifier
                        if "method" not in message:
                            break
                        seen.append(message["params"]["progress"])
                        if len(seen) % 3 == 0:
                            break
        is_lost = message.get("error", {}).get("code") == -32603
        if seen != list(range(1, len(seen) + 1)) or (len(seen) != COUNTED and not is_lost):
            self._found.wrong.append(f"came back to {seen}: {message}"[:200])
        assert not is_lost

    def _carrier(self, answer: aiohttp.ClientResponse) -> str:
        """Index of the replica that answers, or "?"."""
        if answer.connection is None or answer.connection.transport is None:
            return "?"
        port = answer.connection.transport.get_extra_info("sockname")[1]
        return str(self._cluster.carriers.get(port, "?"))

    async def _start_job(self, client: SessionClient) -> None:
        name = f"job-{next(self._numbers)}"
        arguments = {"name": name, "place": str(self._cluster.folders[0].parent / MARKS)}
        params = {"name": "leave-mark", "arguments": arguments, "mode": "async"}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        async with client.http.post(f"{self._cluster.url}/v1/mcp", json=message) as answer:
            assert answer.status == 200
            job: str = (await answer.json())["result"]["job_id"]
        self._found.jobs[job] = name
        await asyncio.sleep(0.1)

    async def _write(self, client: SessionClient) -> None:
        name = f"task-{next(self._numbers)}-end"
        result = await client.call("TaskManager", action="create", query=name)
        assert not result.get("isError")
        self._found.confirmed.add(name)


class Nemesis:
    """Injects faults one after the other, and repairs each after a while."""

    def __init__(
        self,
        cluster: ReplicaCluster,
        engine: EngineServer,
        lines: list[EngineLine],
        found: Findings,
        seed: int,
    ) -> None:
        self._cluster, self._engine, self._lines, self._found = cluster, engine, lines, found
        self._random = random.Random(seed)
        self._mending: list[asyncio.Task[None]] = []
        self._engine_is_broken = asyncio.Lock()
        """Held while the engine is unavailable or refuses writes."""

    async def run(self, count: int) -> None:
        """Inject `count` faults, then repair everything."""
        kinds = {
            self._kill: 4, self._pause: 4, self._roll: 3, self._cut: 3, self._silence: 3, self._slow: 2,
            self._restart_engine: 1, self._pause_engine: 1, self._fill_engine: 1, self._block_writes: 1,
            self._make_read_only: 1, self._flush_scripts: 1, self._kill_connections: 1,
        }  # fmt: skip
        for _ in range(count):
            kind = self._random.choices(list(kinds), list(kinds.values()))[0]
            self._found.injected[kind.__name__.strip("_").replace("_", " ")] += 1
            self._mending.append(asyncio.create_task(kind(self._random.uniform(0.3, 4.0))))
            await asyncio.sleep(self._random.uniform(0.3, 1.2))
            self._mending = [each for each in self._mending if not each.done()]
            while len(self._mending) > 2:  # one replica at least is left alone
                await asyncio.wait(self._mending, return_when=asyncio.FIRST_COMPLETED)
                self._mending = [each for each in self._mending if not each.done()]
        await asyncio.gather(*self._mending)

    async def _kill(self, seconds: float) -> None:
        victim = self._victim("kill", seconds)
        await asyncio.to_thread(victim.end, signal.SIGKILL)
        await asyncio.sleep(seconds / 4)
        await self._start_instead_of(victim)

    def _victim(self, kind: str, seconds: float) -> ServedReplica:
        index = self._random.randrange(len(self._cluster.replicas))
        self._note(f"{kind} {index}", seconds)
        return self._cluster.replicas[index]

    def _line(self, kind: str, seconds: float) -> EngineLine:
        index = self._random.randrange(len(self._lines))
        self._note(f"{kind} {index}", seconds)
        return self._lines[index]

    def _note(self, kind: str, seconds: float) -> None:
        self._found.timeline.append((time.monotonic(), seconds, kind))

    async def _start_instead_of(self, victim: ServedReplica) -> None:
        """Start an ended replica again, unless another fault has done so."""
        if victim in self._cluster.replicas:
            fresh = self._cluster.again(self._cluster.replicas.index(victim))
            with suppress(AssertionError):  # it may be killed while it starts
                await asyncio.to_thread(fresh.wait_until_it_serves)

    async def _pause(self, seconds: float) -> None:
        victim = self._victim("pause", 2 * seconds)
        with suppress(ProcessLookupError):
            victim.send(signal.SIGSTOP)
            await asyncio.sleep(2 * seconds)
            victim.send(signal.SIGCONT)

    async def _roll(self, seconds: float) -> None:
        """Restart a replica with SIGTERM."""
        victim = self._victim("roll", seconds)
        code = await asyncio.to_thread(victim.end)
        if code not in (0, -signal.SIGKILL, -signal.SIGTERM):  # another fault, or before it could handle it
            self._found.wrong.append(f"a replica ended with {code}")
        await self._start_instead_of(victim)

    async def _cut(self, seconds: float) -> None:
        line = self._line("cut", seconds)
        line.cut()
        await asyncio.sleep(seconds)
        line.mend()

    async def _silence(self, seconds: float) -> None:
        line = self._line("silence", 2 * seconds)
        line.silence()
        await asyncio.sleep(2 * seconds)
        line.mend()

    async def _slow(self, seconds: float) -> None:
        line = self._line("slow", seconds)
        line.delay_s = 0.1 * seconds
        await asyncio.sleep(seconds)
        line.mend()

    async def _restart_engine(self, seconds: float) -> None:
        async with self._engine_is_broken:
            self._note("engine killed", seconds / 4)
            await asyncio.to_thread(self._engine.kill)
            await asyncio.sleep(seconds / 4)
            await asyncio.to_thread(self._engine.start)

    async def _pause_engine(self, seconds: float) -> None:
        async with self._engine_is_broken:
            self._note("engine paused", seconds)
            self._engine.send(signal.SIGSTOP)
            await asyncio.sleep(seconds)
            self._engine.send(signal.SIGCONT)

    async def _fill_engine(self, seconds: float) -> None:
        await self._broken_by(
            ("CONFIG", "SET", "maxmemory", "1mb"), seconds, ("CONFIG", "SET", "maxmemory", "0")
        )

    async def _make_read_only(self, seconds: float) -> None:
        nobody = ("REPLICAOF", "127.0.0.1", str(free_port()))
        await self._broken_by(nobody, seconds, ("REPLICAOF", "NO", "ONE"))

    async def _block_writes(self, seconds: float) -> None:
        await self._broken_by(("CLIENT", "PAUSE", "60000", "WRITE"), seconds, ("CLIENT", "UNPAUSE"))

    async def _flush_scripts(self, seconds: float) -> None:
        await self._broken_by(("SCRIPT", "FLUSH"), 0.0)

    async def _kill_connections(self, seconds: float) -> None:
        await self._broken_by(("CLIENT", "KILL", "TYPE", "normal"), 0.0)

    async def _broken_by(self, command: Sequence[str], seconds: float, repair: Sequence[str] = ()) -> None:
        async with self._engine_is_broken:
            self._note(" ".join(command[:2]), seconds)
            await asyncio.to_thread(self._engine.ask, *command)
            await asyncio.sleep(seconds)
            if repair:
                await asyncio.to_thread(self._engine.ask, *repair)


async def check_all(cluster: ReplicaCluster, clients: Clients, found: Findings, engine: Engine) -> None:
    """Check after the repair that sessions continue and that all confirmed work is there exactly once."""
    for client in clients.sessions:
        await _healed(client, cluster.url, found)
    before = list(clients.heard)
    for index in range(len(cluster.replicas)):  # a stream may be between two replicas at one change
        code = f'async def more_{index}() -> str:\n    """More."""\n    return ""\n'
        (cluster.folders[0] / "tools" / f"more_{index}.py").write_text(code)
        await asyncio.sleep(2)
    with suppress(TimeoutError):
        await until(lambda: all(now > then for now, then in zip(clients.heard, before, strict=True)), HEAL_S)
    heard = zip(clients.heard, before, strict=True)
    found.lost += [
        f"changes sent to listener {number}, {clients.states[number]}"
        for number, (now, then) in enumerate(heard)
        if now == then
    ]
    await check_jobs(cluster, found)
    state = EngineDatabase(engine, "calc")
    names = Counter(name for (name,) in await state.run(lambda c: list(c.execute("SELECT name FROM tasks"))))
    state.close()
    found.lost += sorted(found.confirmed - set(names))
    found.twice += [name for name, number in names.items() if number > 1]


async def check_jobs(cluster: ReplicaCluster, found: Findings) -> None:
    """Every accepted job has ended, ran at most once, and did its work if it reports success."""
    limit = aiohttp.ClientTimeout(10)
    ends: dict[str, str] = {}
    few = asyncio.Semaphore(AT_ONCE)

    async def look(job: str) -> None:
        with suppress(aiohttp.ClientError, TimeoutError, ValueError):
            async with few, http.get(f"{cluster.url}/jobs/{job}") as answer:
                status = (await answer.json()).get("status") if answer.status == 200 else ""
            if status in ("succeeded", "failed", "canceled"):
                ends[job] = status

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True), timeout=limit) as http:
        deadline = time.monotonic() + len(found.jobs) / SLOWEST_LOOKS + HEAL_S
        while time.monotonic() < deadline and (left := [job for job in found.jobs if job not in ends]):
            await asyncio.gather(*map(look, left))
            await asyncio.sleep(0.5)
    found.lost += [f"the end of {job} ({name})" for job, name in found.jobs.items() if job not in ends]
    marks = cluster.folders[0].parent / MARKS
    counted = Counter(marks.read_text().split() if marks.exists() else ())
    found.twice += [name for name, number in counted.items() if number > 1]
    done = [found.jobs[job] for job, end in ends.items() if end == "succeeded"]
    found.lost += [f"the mark of {name}" for name in done if not counted[name]]
    found.ended["job succeeded"] += len(done)
    found.ended["job interrupted"] += len(ends) - len(done)


async def _healed(client: SessionClient, url: str, found: Findings) -> None:
    """True if a session that was not ended still serves its client."""
    deadline = time.monotonic() + HEAL_S
    connector, limit = aiohttp.TCPConnector(force_close=True), aiohttp.ClientTimeout(10)
    async with aiohttp.ClientSession(connector=connector, timeout=limit) as http:
        mine = SessionClient(url, http)
        mine.headers = client.headers
        mine.number = 1 << 20
        while True:
            try:
                await mine.call("add", a=1, b=1)
                return
            except (aiohttp.ClientError, AssertionError, TimeoutError) as error:
                if time.monotonic() > deadline:
                    found.lost.append(f"a session: {error}"[:300])
                    return
            await asyncio.sleep(0.5)


@contextmanager
def lasting_engine() -> Iterator[EngineServer]:
    """An engine that keeps confirmed data when it is killed."""
    place = mkdtemp()
    try:
        with engine_server(["--appendonly", "yes", "--appendfsync", "always", "--dir", place]) as server:
            yield server
    finally:
        shutil.rmtree(place, ignore_errors=True)


async def run(count: int, seed: int, place: Path, workers: int = WORKERS) -> Findings:
    """Inject `count` faults and return the findings."""
    found = Findings()
    with lasting_engine() as engine:
        lines = [EngineLine(engine.port) for _ in range(3)]
        ports = [await line.start() for line in lines]
        urls = [f"redis://127.0.0.1:{port}/0" for port in ports]
        cluster_of_three = replica_cluster(
            3, [calculator(place)], engine, place, urls=urls,
            MCPDESK_MAX_TASKS="100000",  # the end of every job is read at the end
        )  # fmt: skip
        async with cluster_of_three as cluster:
            clients = Clients(cluster, found, workers)
            load = asyncio.create_task(clients.run())
            try:
                await Nemesis(cluster, engine, lines, found, seed).run(count)
                await asyncio.sleep(1)
                clients.done.set()
                shared = Engine(engine.url, cluster.name)
                await check_all(cluster, clients, found, shared)
                await shared.close()
                clients.is_checked.set()
                await load
            finally:
                load.cancel()
                await asyncio.gather(load, return_exceptions=True)
        for line in lines:
            await line.close()
    return found


def main() -> int:
    """Run from the command line; return 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    place = Path(mkdtemp())
    try:
        found = asyncio.run(run(given.count, given.seed, place))
    finally:
        shutil.rmtree(place, ignore_errors=True)
    print(found)
    return 0 if found.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
