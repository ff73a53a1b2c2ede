"""Several `mcpdesk serve` that share an engine, and a proxy that gives each connection to the next one."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from mcpdesk.protocol.marked_ids import process_mark
from tests.support.engine import EngineServer
from tests.support.patience import WITHIN_S

ROOT = Path(__file__).parents[2]


class ServedReplica:
    """One `mcpdesk serve`. `url` is its own address, without a path."""

    def __init__(
        self,
        folders: Sequence[Path],
        shared: str,
        state: Path,
        options: Sequence[str] = (),
        **environment: str,
    ) -> None:
        self.url = ""
        self.said: list[str] = []
        self._ready = threading.Event()
        state.mkdir(parents=True, exist_ok=True)
        variables = {
            "MCPDESK_STATE_DIR": str(state),
            "MCPDESK_SHARED": shared,
            "MCPDESK_LAME_DUCK_S": "0",  # no balancer has to notice that a replica ends
        } | environment
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mcpdesk", "serve", *map(str, folders), "--port", "0", *options],
            cwd=ROOT, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **variables},
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def port(self) -> int:
        """Port it listens on."""
        return int(self.url.rpartition(":")[2])

    def wait_until_it_serves(self) -> None:
        """Wait until it serves. Raises: AssertionError with its output if it does not."""
        assert self._ready.wait(WITHIN_S) and self.url, "".join(self.said)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it with a signal and return its exit code."""
        if self.process.poll() is None:
            self.send(signal.SIGCONT)
            self.send(number)
        code = self.process.wait(2 * WITHIN_S)
        self._reader.join()
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            if match := re.search(r"serving \S+ at (http://[^/]+)", line):
                self.url = match[1]
                self._ready.set()
        self._ready.set()


class ReplicaCluster:
    """Replicas behind a proxy at `url`, which skips those that refuse.

    With `each_alone`, replicas close each connection after one answer, so consecutive requests of a client
        reach different replicas.
    """

    options: Sequence[str] = ()
    """Flags of `mcpdesk serve`."""
    each_alone = False

    def __init__(
        self, folders: Sequence[Path], shared: Sequence[str], folder: Path, **environment: str
    ) -> None:
        """`shared` are URLs of the engine, for the replicas in turn."""
        self.replicas: list[ServedReplica] = []
        self.url = ""
        self.name = environment.get("MCPDESK_SHARED_NAME", "mcpdesk")
        """Name of the deployment."""
        self._made = 0
        self._turn = 0
        self.carriers: dict[int, int] = {}
        """Index of the replica that received a client's connection, by the client's port."""
        self.folders, self._shared, self._place = list(folders), shared, folder
        self._environment = environment

    def of_job(self, identifier: str, engine: EngineServer) -> ServedReplica:
        """Replica whose mark is in the id of a job."""
        key = f"{{{self._environment['MCPDESK_SHARED_NAME']}}}:replicas"
        location = engine.ask("HGET", key, process_mark(identifier))
        match = re.search(r'"url":"([^"]+)"', location)
        assert match is not None, location
        return next(each for each in self.replicas if each.url == match[1])

    def add(self) -> ServedReplica:
        """Start another replica; the caller waits until it serves."""
        replica = self._start(self._made)
        self.replicas.append(replica)
        return replica

    def again(self, index: int) -> ServedReplica:
        """Replace an ended replica; the caller waits until it serves."""
        self.replicas[index] = fresh = self._start(index)
        return fresh

    def _start(self, index: int) -> ServedReplica:
        self._made += 1
        url = self._shared[index % len(self._shared)]
        state = self._place / f"state-{self._made}"
        return ServedReplica(self.folders, url, state, self.options, **self._environment)

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection to the next replica that accepts it."""
        for _ in range(2 * len(self.replicas)):
            self._turn += 1
            replica = self.replicas[self._turn % len(self.replicas)]
            with suppress(OSError, ValueError):
                there = await asyncio.open_connection("127.0.0.1", replica.port)
                self.carriers[writer.get_extra_info("peername")[1]] = self.replicas.index(replica)
                break
        else:
            writer.close()
            return
        try:
            if self.each_alone:
                there[1].write(_closing(await reader.read(1 << 16)))
            await asyncio.gather(_copy(reader, there[1]), _copy(there[0], writer))
        finally:
            there[1].close()


def _closing(head: bytes) -> bytes:
    """Head of a request with `Connection: close`."""
    if re.search(rb"(?i)\r\nupgrade:", head):
        return head
    head = re.sub(rb"(?i)\r\nconnection:[^\r]*", b"", head, count=1)
    return head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.transport.abort()


@asynccontextmanager
async def replica_cluster(
    count: int,
    folders: Sequence[Path],
    engine: EngineServer,
    folder: Path,
    urls: Sequence[str] = (),
    options: Sequence[str] = (),
    each_alone: bool = False,
    **environment: str,
) -> AsyncIterator[ReplicaCluster]:
    """Run replicas during the block; `urls` are their URLs of the engine, if they differ."""
    name = f"cluster-{folder.parent.name}-{folder.name}"
    cluster = ReplicaCluster(folders, urls or [engine.url], folder, MCPDESK_SHARED_NAME=name, **environment)
    cluster.options, cluster.each_alone = options, each_alone
    connections: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        try:
            await cluster.pass_on(reader, writer)
        except asyncio.CancelledError:
            pass  # the block is over
        finally:
            connections.discard(task)
            writer.close()

    try:
        for replica in [cluster.add() for _ in range(count)]:
            await asyncio.to_thread(replica.wait_until_it_serves)
        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        cluster.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            yield cluster
            for task in list(connections):
                task.cancel()
            await asyncio.gather(*connections, return_exceptions=True)
    finally:
        for replica in cluster.replicas:
            await asyncio.to_thread(replica.end)


@contextmanager
def cluster_on_a_thread(
    count: int, folders: Sequence[Path], engine: EngineServer, folder: Path, **environment: str
) -> Iterator[ReplicaCluster]:
    """Run replicas during the block, for tests with separate event loops or none."""
    begun: Future[tuple[ReplicaCluster, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def run() -> None:
        over = asyncio.Event()
        async with replica_cluster(count, folders, engine, folder, (), (), False, **environment) as cluster:
            begun.set_result((cluster, asyncio.get_running_loop(), over))
            await over.wait()

    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(asyncio.run, run())
        running.add_done_callback(lambda done: begun.cancel() or done.exception())
        cluster, loop, over = begun.result()
        try:
            yield cluster
        finally:
            loop.call_soon_threadsafe(over.set)
            running.result()
