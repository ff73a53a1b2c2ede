"""Registry of the replicas that run.

Each replica renews a lease of five seconds in the engine every second, and at the same time reads the data of
all other replicas.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mcpdesk.auth.http_origin import is_loopback
from mcpdesk.features.replicas.engine.engine import Engine, EngineUnavailable
from mcpdesk.version import __version__

HOST_NAME = socket.gethostname()
LEASE_S = 5.0
"""Seconds for which a lease is valid. A replica without a valid lease counts as dead."""
RENEW_PERIOD_S = 1.0
OUTAGE_GRACE_S = 3.0
"""Seconds after an outage of the engine during which no replica counts as dead, because renewals may be
late."""
ENDED_REPLICA_TTL_S = 3600.0
"""Seconds for which the registry keeps data of a replica that has ended."""
REPLICA_CHANGED = "said"
"""Kind of event that reports new data of a replica."""
MAX_KNOWN_REPLICAS = 1_000
"""Maximum number of replicas that are remembered."""
MAX_FILES = 2_000
"""Maximum number of files of a server folder that its digest covers."""
MAX_FILE_BYTES = 1 << 20
"""Number of bytes at the start of each file that the digest covers."""
CODE_SUFFIXES = frozenset({".py", ".json", ".md", ".txt", ".toml", ".yaml", ".yml"})
"""Suffixes of the files that the digest of a server folder covers."""

RENEW = """#!lua flags=allow-oom
local now = redis.call('TIME')
now = now[1] + now[2] / 1000000
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], now + ARGV[3], ARGV[1])
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now - ARGV[4])) do
  redis.call('HDEL', KEYS[1], id)
  redis.call('ZREM', KEYS[2], id)
end
local living = redis.call('ZRANGEBYSCORE', KEYS[2], now, '+inf')
if #living == 0 then return {} end
return redis.call('HMGET', KEYS[1], unpack(living))
"""
"""Script that renews a lease and returns the data of all living replicas.

It works even if the memory is full.
"""

LIVING = """
local now = redis.call('TIME')
local living = redis.call('ZRANGEBYSCORE', KEYS[2], now[1] + now[2] / 1000000, '+inf')
if #living == 0 then return {} end
return redis.call('HMGET', KEYS[1], unpack(living))
"""
"""Script that returns the data of all living replicas."""

log = logging.getLogger(__name__)


class ReplicaInfo(Struct, frozen=True):
    """Data that a replica publishes about itself."""

    id: str
    name: str
    """Machine and port, such as `web-1:3333`."""
    url: str = ""
    """URL for the other replicas, or "" while the replica does not listen."""
    version: str = __version__
    pid: int = 0
    began: float = 0.0
    """Unix time in seconds when the replica started."""
    folders: Mapping[str, str] = {}
    """Digests of the server folders, by name of the server."""
    is_ending: bool = False
    """True if the replica accepts no new clients because it is about to stop."""
    people: int = 0
    """Number of front ends at which a person can answer questions."""


class LiveReplicas:
    """Lease of this replica, and data of the others. `others` may be read on any thread."""

    def __init__(self, engine: Engine) -> None:
        self.others: Mapping[str, ReplicaInfo] = {}
        """The other living replicas, by id."""
        self._known_replicas: dict[str, ReplicaInfo] = {}
        """The last `MAX_KNOWN_REPLICAS` replicas that were seen, including dead ones, by id."""
        self.on_change: list[Callable[[], object]] = []
        """Functions that are called after a change of `others`."""
        self.me = ReplicaInfo(os.urandom(4).hex(), HOST_NAME, pid=os.getpid(), began=engine.clock())
        self._engine = engine
        self._keys = _keys(engine)
        self._renew_task: asyncio.Task[None] | None = None
        self._has_failed_renewal = False
        """True if the last renewal failed."""
        self._lenient_until = 0.0
        """Loop time until which no replica counts as dead."""

    async def start(self) -> None:
        """Take the lease, and keep renewing it."""
        await self.renew()
        self._renew_task = asyncio.create_task(self._keep_renewing())

    async def update(self, **facts: object) -> None:
        """Change data of this replica, and publish it at once."""
        self.me = replace(self.me, **facts)
        await self.renew()

    async def find(self, replica: str) -> ReplicaInfo | None:
        """Return the data of a living or dead replica, or None if the replica is unknown.

        Raises: EngineUnavailable.
        """
        info = self.others.get(replica) or self._known_replicas.get(replica)
        if replica and (info is None or not info.url):  # the replica may have started to listen
            encoded = await self._engine.run(lambda client: client.hget(self._keys[0], replica))
            info = _decoded(encoded)
            if info is not None:
                self._known_replicas[replica] = info
        return info

    async def close(self) -> None:
        """End the lease."""
        if self._renew_task is not None:
            self._renew_task.cancel()
            await asyncio.gather(self._renew_task, return_exceptions=True)
        # The lease ends in the past. A time of 0 would remove the replica's data from the registry.
        lease_end = self._engine.clock() - LEASE_S
        try:
            await self._engine.run(lambda client: client.zadd(self._keys[1], {self.me.id: lease_end}))
        except EngineUnavailable as error:
            log.info("the lease of this replica cannot be released and will expire: %s", error)

    async def _keep_renewing(self) -> None:
        while True:
            await asyncio.sleep(RENEW_PERIOD_S)
            await self.renew()

    async def renew(self) -> None:
        """Renew the lease now, and read the data of the other replicas."""
        encoded = msgspec.json.encode(self.me)
        try:
            replicas = await self._engine.script(
                RENEW, self._keys, [self.me.id, encoded, LEASE_S, ENDED_REPLICA_TTL_S]
            )
        except EngineUnavailable:
            self._has_failed_renewal = True
            return  # without the engine, the last known replicas remain
        now = asyncio.get_running_loop().time()
        if self._has_failed_renewal:
            self._has_failed_renewal = False
            self._lenient_until = now + OUTAGE_GRACE_S
        others = dict(self.others) if now < self._lenient_until else {}
        for info in map(_decoded, replicas):
            if info is not None and info.id != self.me.id:
                others[info.id] = info
        self._known_replicas |= others
        for replica in list(self._known_replicas)[:-MAX_KNOWN_REPLICAS]:
            del self._known_replicas[replica]
        if others != self.others:
            self._log_change(others)
            self.others = others
            for listener in list(self.on_change):
                listener()

    def _log_change(self, others: Mapping[str, ReplicaInfo]) -> None:
        """Log the replicas that joined and left. A replica counts as joined when it begins to listen."""
        listening_ids = {replica for replica, info in self.others.items() if info.url}
        for replica, info in others.items():
            if info.url and replica not in listening_ids:
                log.info("%s joined; live replicas: %d", info.name, len(others) + 1)
                is_on_other_machine = not info.name.startswith(f"{HOST_NAME}:")
                if is_on_other_machine and is_loopback(urlsplit(info.url).hostname or ""):
                    log.warning(
                        "%s listens at %s, where only its own machine can connect: "
                        "its sessions and jobs cannot be reached from here. "
                        "hint: set host or replica_url there",
                        info.name,
                        info.url,
                    )
        for replica in listening_ids - others.keys():
            former = self.others[replica]
            reason = "has ended" if former.is_ending else "is considered dead, because its lease expired"
            log.info("%s %s; live replicas: %d", former.name, reason, len(others) + 1)


def _decoded(encoded: bytes | None) -> ReplicaInfo | None:
    try:
        return msgspec.json.decode(encoded or b"", type=ReplicaInfo)
    except msgspec.MsgspecError:
        return None  # an incompatible version wrote the data


async def living_replicas(engine: Engine) -> list[ReplicaInfo]:
    """Return the living replicas, for a process that is not a replica itself. Raises: EngineUnavailable."""
    replicas = map(_decoded, await engine.script(LIVING, _keys(engine)))
    return [info for info in replicas if info is not None]


async def former_replica(engine: Engine, replica: str) -> ReplicaInfo | None:
    """Return the last data of a replica, up to an hour after its end, or None if the replica is unknown.

    Raises: EngineUnavailable.
    """
    return _decoded(await engine.run(lambda client: client.hget(_keys(engine)[0], replica)))


def _keys(engine: Engine) -> list[str]:
    return [engine.key("replicas"), engine.key("leases")]


def folder_digest(folder: Path) -> str:
    """Return a digest of the files in a server folder that `CODE_SUFFIXES` and the limits select."""
    digest = hashlib.sha256()
    paths = sorted(path for path in folder.rglob("*") if path.suffix in CODE_SUFFIXES)
    for path in paths[:MAX_FILES]:
        relative_path = path.relative_to(folder)
        if any(part.startswith((".", "__pycache__")) for part in relative_path.parts) or not path.is_file():
            continue
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES)
        digest.update(f"{relative_path}\0{len(content)}\0".encode("utf-8", "surrogateescape") + content)
    return digest.hexdigest()[:16]
