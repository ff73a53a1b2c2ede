"""Job records in the engine.

Each replica renews a lease. When the lease of a replica has expired, other replicas take over its unfinished
jobs. Only one replica takes over each job.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from mcpdesk.features.replicas.engine.engine import Engine
from mcpdesk.storage.job_table import JobRow, decoded, encoded

MAX_AGE_S = 7 * 24 * 3600
"""Maximum number of seconds between the last write of a record and its deletion."""
MAX_BATCH_RECORDS = 50
"""Maximum number of records written by one script."""
MAX_CLAIMED_JOBS = 200
"""Maximum number of jobs of one replica that are taken over at a time."""
MAX_LISTED_RECORDS = 2_000
"""Maximum number of records of one owner that are listed, newest first."""

WRITE = """
local now = redis.call('TIME')
redis.call('ZADD', KEYS[1], 'GT', now[1] + now[2] / 1000000 + ARGV[2], ARGV[1])
local refused = {}
for i = 4, #KEYS, 2 do
  local key, first = KEYS[i], 4 + (i - 4) * 3
  local id, fence, over = ARGV[first], ARGV[first + 1], ARGV[first + 2]
  local holder, stored_fence, was_over = unpack(redis.call('HMGET', key, 'holder', 'fence', 'over'))
  if stored_fence and (tonumber(stored_fence) > tonumber(fence)
                       or (stored_fence == fence and holder ~= ARGV[1])) then
    table.insert(refused, id)
  elseif not (stored_fence == fence and was_over == '1' and over == '0') then
    redis.call('HSET', key, 'server', ARGV[3], 'holder', ARGV[1], 'fence', fence, 'over', over,
               'record', ARGV[first + 5])
    redis.call('EXPIRE', key, ARGV[first + 3])
    if over == '1' then redis.call('SREM', KEYS[3], id)
    else
      redis.call('SADD', KEYS[3], id)
      redis.call('SADD', KEYS[2], ARGV[1])
    end
    redis.call('ZADD', KEYS[i + 1], ARGV[first + 4], id)
    redis.call('EXPIRE', KEYS[i + 1], ARGV[4 + (#KEYS - 3) * 3])
  end
end
return refused
"""
"""Script that writes records of jobs, and renews the writer's lease.

Jobs that another replica has taken over are skipped.

KEYS: leases, holders, unfinished jobs of the writer, and for each record the keys of the job and of its
owner's list. ARGV: replica, seconds of the lease, server, the six `_record_arguments` of each record, and
seconds until an owner's list expires. The script returns the ids of the skipped jobs.
"""
REMOVE = """
for i = 2, #KEYS do
  if redis.call('HGET', KEYS[i], 'holder') == ARGV[1] then redis.call('DEL', KEYS[i]) end
  redis.call('SREM', KEYS[1], ARGV[i])
end
"""
"""Script that deletes the records of jobs, except those that another replica has taken over."""
CLAIM = """
local holder, fence, over, record, claim =
  unpack(redis.call('HMGET', KEYS[1], 'holder', 'fence', 'over', 'record', 'claim'))
if claim == ARGV[4] then return {fence, record} end
if holder ~= ARGV[1] or over == '1' then
  redis.call('SREM', KEYS[3], ARGV[3])
  return false
end
if holder ~= ARGV[2] then
  local now, lease = redis.call('TIME'), redis.call('ZSCORE', KEYS[2], holder)
  if lease and tonumber(lease) > now[1] + now[2] / 1000000 then return false end
end
redis.call('HSET', KEYS[1], 'holder', ARGV[2], 'fence', fence + 1, 'claim', ARGV[4])
redis.call('SREM', KEYS[3], ARGV[3])
redis.call('SADD', KEYS[4], ARGV[3])
redis.call('SADD', KEYS[5], ARGV[2])
return {tostring(fence + 1), record}
"""
"""Script that takes over one job of a replica whose lease has expired.

It also reclaims a job of the calling replica. KEYS: job, leases, unfinished jobs of the earlier holder and of
the calling replica, holders. ARGV: earlier holder, calling replica, job id, and an id of the claim, because a
repeated script must return the same result.
"""
LIVING_HOLDER = """
local holder, now = redis.call('HGET', KEYS[1], 'holder'), redis.call('TIME')
local lease = holder and redis.call('ZSCORE', KEYS[2], holder)
if lease and tonumber(lease) > now[1] + now[2] / 1000000 then return holder end
return false
"""
"""Script that returns the replica that holds a job, or nothing if the lease of the replica has expired."""
FORGET_HOLDER = """
if redis.call('SCARD', KEYS[1]) == 0 then redis.call('SREM', KEYS[2], ARGV[1]) end
"""
"""Script that removes a replica without unfinished jobs from the replicas that hold jobs of the server."""


async def living_holder(engine: Engine, identifier: str) -> str:
    """Return the id of the replica that holds a job, or "" if its lease has expired or the job is unknown.

    Raises: EngineUnavailable.
    """
    keys = [engine.key("job", identifier), engine.key("leases")]
    holder: bytes | None = await engine.script(LIVING_HOLDER, keys)
    return (holder or b"").decode()


class EngineJobTable:
    """Job records of one server, for use by one replica."""

    def __init__(
        self,
        engine: Engine,
        server: str,
        replica: str,
        is_alive: Callable[[str], bool],
        lease_s: float,
    ) -> None:
        """Create a table.

        `is_alive` returns True if this replica considers another replica alive. Jobs are taken over only if
        `is_alive` returns False and the lease of the other replica has expired.
        """
        self._engine, self._server, self._replica = engine, server, replica
        self._is_alive, self._lease_s = is_alive, lease_s
        self._leases = engine.key("leases")
        self._holders = engine.key("job-holders", server)

    async def write(self, rows: Sequence[JobRow], deleted: Collection[str]) -> set[str]:
        """Implements `JobTable.write`."""
        refused_ids: set[str] = set()
        for start in range(0, len(rows), MAX_BATCH_RECORDS):
            batch = rows[start : start + MAX_BATCH_RECORDS]
            keys = [self._leases, self._holders, self._running_key(self._replica)]
            for row in batch:
                keys += [self._job_key(row.id), self._owner_key(row.record.owner)]
            values = [value for row in batch for value in _record_arguments(row)]
            arguments = [self._replica, self._lease_s, self._server, *values, MAX_AGE_S]
            refused_ids |= {each.decode() for each in await self._engine.script(WRITE, keys, arguments)}
        if deleted:
            keys = [self._running_key(self._replica), *map(self._job_key, deleted)]
            await self._engine.script(REMOVE, keys, [self._replica, *deleted])
        return refused_ids

    async def rows(self, owner: str) -> list[JobRow]:
        """Implements `JobTable.rows`."""
        index = self._owner_key(owner)
        encoded_ids = await self._engine.run(lambda client: client.zrange(index, -MAX_LISTED_RECORDS, -1))
        identifiers = [each.decode() for each in encoded_ids]
        rows = await self.find(identifiers) if identifiers else []
        expired_ids = [each for each, row in zip(identifiers, rows, strict=True) if row is None]
        if expired_ids:
            await self._engine.run(lambda client: client.zrem(index, *expired_ids))
        return [row for row in rows if row is not None]

    async def claim(self) -> list[JobRow]:
        """Implements `JobTable.claim`."""
        holders = await self._engine.run(lambda client: client.smembers(self._holders))
        claimed: list[JobRow] = []
        for holder in sorted(each.decode() for each in holders):
            if holder != self._replica and not self._is_alive(holder):
                claimed += await self._claim_jobs_of(holder)
        return claimed

    async def running(self) -> set[str]:
        """Return the ids of this replica's unfinished jobs."""
        key = self._running_key(self._replica)
        return {each.decode() for each in await self._engine.run(lambda client: client.smembers(key))}

    async def reclaim(self, identifiers: Iterable[str]) -> list[JobRow]:
        """Claim again and return jobs that this replica holds in the engine but does not run.

        Such jobs exist after a reply of the engine was lost.
        """
        rows = [await self._claim_job(each, self._replica) for each in identifiers]
        return [row for row in rows if row is not None]

    async def _claim_jobs_of(self, holder: str) -> list[JobRow]:
        """Take over unfinished jobs of a replica, at most `MAX_CLAIMED_JOBS`."""
        key = self._running_key(holder)
        encoded_ids = await self._engine.run(lambda client: client.srandmember(key, MAX_CLAIMED_JOBS))
        rows = [await self._claim_job(each.decode(), holder) for each in encoded_ids]
        await self._engine.script(FORGET_HOLDER, [key, self._holders], [holder])
        return [row for row in rows if row is not None]

    async def _claim_job(self, identifier: str, holder: str) -> JobRow | None:
        """Take over one job of a replica, and return it.

        None if the lease of the replica is valid, or if the job has ended or moved.
        """
        keys = [
            self._job_key(identifier),
            self._leases,
            self._running_key(holder),
            self._running_key(self._replica),
        ]
        arguments = [holder, self._replica, identifier, os.urandom(8).hex()]
        reply = await self._engine.script(CLAIM, [*keys, self._holders], arguments)
        record = decoded(reply[1]) if reply else None
        if record is None:
            return None
        return JobRow(identifier, self._replica, replace(record, fence=int(reply[0])))

    async def find(self, identifiers: Sequence[str]) -> list[JobRow | None]:
        """Implements `JobTable.find`."""

        async def read(client: Any) -> Any:
            pipeline = client.pipeline(transaction=False)
            for each in identifiers:
                pipeline.hmget(self._job_key(each), "server", "holder", "fence", "record")
            return await pipeline.execute()

        rows = await self._engine.run(read)
        return [
            _row(each, fields) if fields[0] == self._server.encode() else None
            for each, fields in zip(identifiers, rows, strict=True)
        ]

    def _job_key(self, identifier: str) -> str:
        return self._engine.key("job", identifier)

    def _running_key(self, replica: str) -> str:
        return self._engine.key("jobs-running", self._server, replica)

    def _owner_key(self, owner: str) -> str:
        return self._engine.key("jobs-of", self._server, hashlib.sha256(owner.encode()).hexdigest()[:32])


def _row(identifier: str, fields: Sequence[bytes | None]) -> JobRow | None:
    _, holder, fence, packed = fields
    record = None if packed is None else decoded(packed)
    if holder is None or fence is None or record is None:
        return None
    return JobRow(identifier, holder.decode(), replace(record, fence=int(fence)))


def _record_arguments(row: JobRow) -> list[Any]:
    """Return the arguments of the script `WRITE` for one record.

    They are the id, the fence, 1 if the job is over or 0, seconds until the record expires, the time of
    creation, and the encoded record.
    """
    record = row.record
    ttl_s = MAX_AGE_S
    if record.ttl_s is not None and (row.is_over or record.is_task):
        ttl_start = record.created if record.is_task else record.updated
        ttl_s = min(ttl_s, max(1, int(ttl_start + record.ttl_s - record.updated) + 1))
    return [row.id, record.fence, int(row.is_over), ttl_s, record.created, encoded(record)]
