"""HTTP sessions, stored in the engine. The engine is the Redis-compatible store that all replicas share.

A replica reads a session once, when it starts to serve the session, and writes the session after each change.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from mcpdesk.features.replicas.engine.engine import Engine, EngineUnavailable
from mcpdesk.features.replicas.engine.event_bus import ANNOUNCE, EventBus
from mcpdesk.protocol.event_store import BusPosition
from mcpdesk.protocol.handshake import SessionState, merged_state
from mcpdesk.transports.base import SharedSession

MAX_ATTEMPTS = 20
"""Maximum number of attempts to write a session that other replicas change at the same time."""
SESSION_EVENT = "session"
"""Kind of event that reports a change of a session."""

WRITE = f"""
local key = KEYS[1]
local version, writer, ended = unpack(redis.call('HMGET', key, 'version', 'writer', 'ended'))
if ended then return {{-2}} end
if writer == ARGV[7] then return {{tonumber(version)}} end
if version and version ~= ARGV[1] then
  return {{-1, tonumber(version), redis.call('HGET', key, 'state'), redis.call('HGET', key, 'owner')}}
end
local new_version = (version or ARGV[1]) + 1
redis.call('HSET', key, 'version', new_version, 'writer', ARGV[7], 'server', ARGV[2], 'owner', ARGV[3],
           'used', ARGV[4], 'state', ARGV[5])
if not version then
  redis.call('HSET', key, 'blocks', ARGV[8] + 1, 'block:' .. ARGV[8], ARGV[9], 'heard', ARGV[10])
end
redis.call('EXPIRE', key, ARGV[6])
{ANNOUNCE}
return {{new_version}}
"""
"""Script that writes a session, unless another replica has changed it since it was read.

A session that the engine has lost is created again. A session that has ended is not created again. The first
number of the reply is the new version, -1 if another replica has changed the session, or -2 if it has ended.
After -1, the version, state and owner in the engine follow.
"""
JOIN = """
local key = KEYS[1]
local fields = redis.call('HMGET', key, 'version', 'server', 'owner', 'used', 'state', 'heard', 'ended')
if not fields[1] or fields[7] then return false end
if ARGV[1] ~= '' then
  local block = redis.call('HINCRBY', key, 'blocks', 1) - 1
  redis.call('HSET', key, 'block:' .. block, ARGV[1])
  fields[7] = block
end
return fields
"""
"""Script that reads a session. If ARGV[1] is the id of a replica, the replica gets a new block of request
numbers, and the number of the block replaces the last field of the reply.
"""
END = f"""
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'ended', 1)
redis.call('EXPIRE', KEYS[1], ARGV[1])
{ANNOUNCE}
"""


class EngineSessions:
    """Sessions of all replicas."""

    def __init__(self, engine: Engine, bus: EventBus, replica: str, ttl_s: float) -> None:
        self._engine, self._bus, self._replica = engine, bus, replica
        self._ttl_s = int(ttl_s)

    async def write(self, session: SharedSession, base: SessionState) -> SharedSession | None:
        """Write a session, and return it as stored, or None if the session has ended.

        `base` is the state of the session when it was read. A new session has version 0. If another replica
        has changed the session, both changes are merged. Raises: EngineUnavailable.
        """
        writer = os.urandom(8).hex()
        for _ in range(MAX_ATTEMPTS):
            keys = [self._key(session.id), self._bus.key]
            reply = await self._engine.script(WRITE, keys, self._write_arguments(session, writer))
            if reply[0] == -2:
                return None
            if reply[0] >= 0:
                return replace(session, version=reply[0])
            _, version, encoded_state, owner = reply
            stored_state = msgspec.json.decode(encoded_state, type=SessionState)
            state = merged_state(base, session.state, stored_state)
            session = replace(session, state=state, version=version, owner=session.owner or owner.decode())
            base = stored_state
        raise EngineUnavailable(
            f"a session in {self._engine.display_url} could not be written in {MAX_ATTEMPTS} attempts,"
            " because other replicas change it at the same time"
        )

    async def read(self, identifier: str) -> SharedSession | None:
        """Return a session without a block of request numbers, or None if the session does not exist.

        Raises: EngineUnavailable.
        """
        return await self._read(identifier, "")

    async def join(self, identifier: str, server: str, owners: Collection[str]) -> SharedSession | None:
        """Return a session that this replica will serve, with a new block of request numbers.

        None unless the session belongs to `server` and to one of `owners`. Raises: EngineUnavailable.
        """
        shared = await self.read(identifier)
        if shared is None or shared.server != server or shared.owner not in owners:
            return None
        return await self._read(identifier, self._replica)

    async def end(self, identifier: str) -> None:
        """End a session on all replicas. Raises: EngineUnavailable."""
        event = self._bus.arguments(SESSION_EVENT, what="ended", session=identifier)
        await self._engine.script(END, [self._key(identifier), self._bus.key], [self._ttl_s, *event])

    async def holder(self, identifier: str, block: int) -> str:
        """Return the id of the replica that has a block of request numbers, or "" if it is unknown.

        Raises: EngineUnavailable.
        """
        return await self._field(identifier, f"block:{block}")

    @property
    def position(self) -> BusPosition:
        """Position of this replica on the event bus."""
        return BusPosition(self._bus.last, self._bus.sent, self._replica)

    async def missed(
        self, identifier: str, since: BusPosition | None, until: BusPosition
    ) -> list[tuple[str, Mapping[str, Any]]]:
        """Implement `SharedSessions.missed`. Raises: EngineUnavailable."""
        if since is None:
            since = BusPosition(await self._field(identifier, "heard") or "0-0", 0, "")
        events = list[tuple[str, Mapping[str, Any]]]()
        until_id = _comparable_id(until.last)
        for event in await self._bus.since(since.last):
            is_own = event.replica == until.process
            is_after_until = event.number > until.sent if is_own else _comparable_id(event.id) > until_id
            # The earlier replica delivered its own events before it read them from the bus.
            is_before_since = event.replica == since.process and event.number <= since.sent
            if not is_after_until and not is_before_since:
                events.append((event.kind, event.facts))
        return events

    async def note_position(self, identifier: str) -> None:
        """Record that the client has received all events so far. Raises: EngineUnavailable."""
        key = self._key(identifier)
        await self._engine.run(lambda client: client.hset(key, "heard", self._bus.last))

    def publish(self, kind: str, identifier: str, **facts: Any) -> None:
        """Send an event of a session to the other replicas. `kind` is its field `what`."""
        self._bus.publish(SESSION_EVENT, what=kind, session=identifier, **facts)

    def listen(self, listener: Callable[[str, str, Mapping[str, Any]], object]) -> None:
        """Call `listener(kind, identifier, facts)` for each session event of another replica."""
        self._bus.listen(SESSION_EVENT, lambda facts: listener(facts["what"], facts["session"], facts))

    async def _read(self, identifier: str, replica: str) -> SharedSession | None:
        """Run the script `JOIN`. `replica` is the id of the replica that gets a block of numbers, or ""."""
        row = await self._engine.script(JOIN, [self._key(identifier)], [replica])
        if not row:
            return None
        version, server, owner, used, state, position, block = row
        return SharedSession(
            identifier,
            server.decode(),
            owner.decode(),
            float(used),
            msgspec.json.decode(state, type=SessionState),
            int(version),
            block or 0,
            (position or b"0-0").decode(),
        )

    async def _field(self, identifier: str, name: str) -> str:
        key = self._key(identifier)
        value = await self._engine.run(lambda client: client.hget(key, name))
        return (value or b"").decode()

    def _write_arguments(self, session: SharedSession, writer: str) -> list[Any]:
        """Return the arguments of the script `WRITE`."""
        state = msgspec.json.encode(session.state)
        fields = [session.version, session.server, session.owner, session.used, state]
        event = self._bus.arguments(SESSION_EVENT, what="changed", session=session.id)
        return [*fields, self._ttl_s, writer, session.block, self._replica, self._bus.last, *event]

    def _key(self, identifier: str) -> str:
        return self._engine.key("session", identifier)


def _comparable_id(identifier: str) -> tuple[int, int]:
    """Return the id of a stream entry as two numbers, which can be compared."""
    milliseconds, _, number = identifier.partition("-")
    return int(milliseconds), int(number or 0)
