"""Connections of a desk to replicas through the engine.

The engine is the Redis-compatible store that all replicas share.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import msgspec

from mcpdesk.errors import StorageError
from mcpdesk.features.replicas.desk.engine_streams import (
    AGAIN,
    DESK,
    MAX_UNREAD_ENTRIES,
    MESSAGES,
    NUMBER,
    STREAM_TTL_S,
    WELCOME,
    requests_key,
    separate,
    updates_key,
)
from mcpdesk.features.replicas.desk.replica_source import FoundReplica
from mcpdesk.features.replicas.engine.engine import Engine, EngineUnavailable, without_login
from mcpdesk.features.replicas.group.living import ReplicaInfo, former_replica, living_replicas
from mcpdesk.link.attach_messages import Welcome
from mcpdesk.link.core_copy import LOST, Wire, join_message
from mcpdesk.link.remote import join
from mcpdesk.version import __version__

WELCOME_TIMEOUT_S = 5.0
"""Seconds within which a replica must send its `Welcome`."""
PAUSE_S = 0.25
"""Seconds between two attempts while the engine is unreachable."""
MIN_REJOIN_PERIOD_S = 1.0
"""Minimum number of seconds between two requests to join the same replica."""
_decode_welcome = msgspec.msgpack.Decoder(Welcome)


class EngineWire:
    """Connection to one replica through its streams (implements `Wire`)."""

    def __init__(self, engine: Engine, replica: str, desk: str) -> None:
        self._engine = engine
        self._requests_key = requests_key(engine, replica)
        self._updates_key = updates_key(engine, replica)
        self._desk = desk.encode()
        self._last = "0-0"
        """Id of the last entry that was read."""
        self._expected_number: int | None = None
        """Number of the entry that is expected next, or None before the first entry."""
        self._received: deque[bytes] = deque()
        """Received messages that `receive` has not returned yet."""
        self._welcome: Welcome | None = None
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._joined_at = float("-inf")
        """Loop time in seconds of the last request to join."""
        self._must_join = True
        """True if a request to join must be sent."""
        self._send_task: asyncio.Task[None] | None = None

    async def join(self) -> Welcome:
        """Join the replica. Raises: OSError if it does not reply."""
        try:
            newest = await self._engine.run(lambda client: client.xrevrange(self._updates_key, count=1))
            self._last = newest[0][0].decode() if newest else "0-0"
            async with asyncio.timeout(WELCOME_TIMEOUT_S):
                while self._welcome is None:
                    self._must_join = True
                    await self._read()
        except (StorageError, TimeoutError) as error:
            self.close()
            raise OSError(
                str(error) or f"the replica did not reply within {WELCOME_TIMEOUT_S:.0f} s"
            ) from error
        return self._welcome

    async def receive(self) -> bytes:
        """Return the next message. Wait while there is no message, or while the engine is unreachable."""
        while not self._received:
            try:
                await self._read()
            except EngineUnavailable:
                await asyncio.sleep(PAUSE_S)
        return self._received.popleft()

    def send(self, message: bytes) -> None:
        """Queue a message. Queued messages are sent together."""
        self._unsent.append(message)
        self._unsent_bytes += len(message)
        if self._send_task is None:
            self._send_task = asyncio.get_running_loop().create_task(self._send())

    @property
    def unread(self) -> int:
        """Number of bytes that are not written to the engine yet (implements `Wire.unread`)."""
        return self._unsent_bytes

    def close(self) -> None:
        """Stop sending. The replica then removes this desk, because no more messages arrive."""
        if self._send_task is not None:
            self._send_task.cancel()

    async def _read(self) -> None:
        """Read new entries. Wait up to a second for the first one. Raises: EngineUnavailable."""
        now = asyncio.get_running_loop().time()
        if self._must_join and now - self._joined_at >= MIN_REJOIN_PERIOD_S:
            self._joined_at, self._must_join = now, False
            self.send(join_message())
        for identifier, fields in await self._engine.read_stream(self._updates_key, self._last):
            self._last = identifier
            number = int(fields[NUMBER])
            if self._expected_number is not None and number != self._expected_number:
                # Join again, because state and replies may be among the missing entries. Frame numbers show
                # how many frames are missing.
                self._must_join = True
                self._received.append(LOST)
            self._expected_number = number + 1
            if fields.get(DESK, self._desk) != self._desk:
                continue
            if AGAIN in fields:
                self._must_join = True
            elif WELCOME in fields:
                self._welcome = _decode_welcome.decode(fields[WELCOME])
            elif self._welcome is not None:
                self._received.extend(separate(fields[MESSAGES]))

    async def _send(self) -> None:
        try:
            while self._unsent:
                messages = b"".join(self._unsent)
                self._unsent, self._unsent_bytes = [], 0
                with suppress(EngineUnavailable):  # without replies, the replica is then shown as silent
                    await self._engine.run(partial(self._add, messages))
        finally:
            self._send_task = None

    async def _add(self, messages: bytes, client: object) -> None:
        pipeline = client.pipeline(transaction=False)  # type: ignore[attr-defined]
        entry = {DESK: self._desk, MESSAGES: messages}
        pipeline.xadd(self._requests_key, entry, maxlen=MAX_UNREAD_ENTRIES, approximate=True)
        pipeline.expire(self._requests_key, STREAM_TTL_S)
        await pipeline.execute()


class EngineReplicas:
    """Finds all replicas that have a lease in the engine (implements `ReplicaSource`)."""

    shares_state = True
    reports_ended_replicas = True

    def __init__(self, url: str, name: str) -> None:
        """Find the replicas with the engine at `url` and the deployment `name`.

        Raises: DeskUserError for an invalid URL.
        """
        self.title = without_login(url)
        self._url, self._name = url, name
        self._desk = os.urandom(6).hex()
        self._engine: Engine | None = None
        self._shared_hosts = frozenset[str]()
        """Names of machines that have had several replicas at the same time.

        The display names of their replicas include the port.
        """

    async def look(self) -> list[FoundReplica]:
        """Return the living replicas. Raises: OSError if the engine is unreachable."""
        if self._engine is None:
            self._engine = Engine(self._url, self._name)
            await self._engine.start()
        try:
            # A replica without a listener has no URL.
            living = [each for each in await living_replicas(self._engine) if each.url]
        except StorageError as error:
            raise OSError(str(error).removeprefix(f"{self.title} cannot be used: ")) from error
        full_names = [each.name for each in living]
        hosts = [each.partition(":")[0] for each in full_names]
        self._shared_hosts |= {host for host in hosts if hosts.count(host) > 1}
        names = short_names(full_names, [each.id for each in living], self._shared_hosts)
        return [
            self._found_replica(self._engine, each, name) for each, name in zip(living, names, strict=True)
        ]

    async def has_left(self, key: str) -> bool:
        """Return True if a replica announced its end. False if the engine cannot be reached."""
        if self._engine is None:
            return False
        with suppress(StorageError):
            info = await former_replica(self._engine, key)
            return info is not None and info.is_ending
        return False

    async def close(self) -> None:
        """Close the connections to the engine."""
        if self._engine is not None:
            await self._engine.close()

    def _found_replica(self, engine: Engine, replica: ReplicaInfo, name: str) -> FoundReplica:
        core = Welcome(
            mcpdesk=replica.version,
            pid=replica.pid,
            kind="serve",
            names=tuple(replica.folders),
            since=replica.began,
            address=replica.url,
        )
        return FoundReplica(replica.id, name, core, self._join_function(engine, replica.id), replica.folders)

    def _join_function(self, engine: Engine, replica: str) -> Callable[[], Awaitable[tuple[Welcome, Wire]]]:
        async def join_through_engine() -> tuple[Welcome, Wire]:
            wire = EngineWire(engine, replica, self._desk)
            return await wire.join(), wire

        return join_through_engine


def short_names(names: Sequence[str], ids: Sequence[str], shared_hosts: Collection[str]) -> list[str]:
    """Shorten names of the form `HOST:PORT` to `HOST`, except for the hosts in `shared_hosts`.

    If several of the shortened names are equal, append the first four digits of the replica's id to each.
    """
    hosts = [name.partition(":")[0] for name in names]
    shorter = [name if host in shared_hosts else host for host, name in zip(hosts, names, strict=True)]
    return [
        name if shorter.count(name) == 1 else f"{name}#{id[:4]}"
        for name, id in zip(shorter, ids, strict=True)
    ]


class AllReplicas:
    """Finds this replica and the others, for the dashboard of a replica (implements `ReplicaSource`)."""

    shares_state = True
    reports_ended_replicas = True

    def __init__(self, others: EngineReplicas, own_id: str, socket_path: Callable[[], str]) -> None:
        """`own_id` is the id of this replica. `socket_path` returns the path of its attach socket."""
        self.title = others.title
        self._others, self._own_id, self._socket_path = others, own_id, socket_path
        self._last_found: list[FoundReplica] = []
        """Replicas found by the last successful search."""

    async def look(self) -> list[FoundReplica]:
        """Return this replica and the others.

        If the engine is unreachable, the other replicas are those found last.
        """
        with suppress(OSError):
            self._last_found = await self._others.look()
        replicas = [
            replace(each, join=self._join) if each.key == self._own_id else each for each in self._last_found
        ]
        if not any(each.key == self._own_id for each in replicas):
            own_core = Welcome(mcpdesk=__version__, pid=os.getpid(), kind="serve")
            replicas.insert(0, FoundReplica(self._own_id, "here", own_core, self._join))
        return replicas

    async def has_left(self, key: str) -> bool:
        """Return True if a replica shut down normally."""
        return await self._others.has_left(key)

    async def close(self) -> None:
        """Close the connections to the engine."""
        await self._others.close()

    async def _join(self) -> tuple[Welcome, Wire]:
        return await join(self._socket_path())
