"""Rounds of operations, stored in the engine, so that a repeated request does not run a handler twice.

If the handler of an operation asks the client questions, the client sends several requests for the operation.
Each of these requests is a round. A replica must claim a round before it runs the handler. If this replica
dies, or is cut off from the engine until its lease expires, another replica cannot know which part of the
handler has run. The other replica therefore refuses the round, unless the handler was waiting for the client.
In that case the handler runs again from the start, because its coroutine cannot resume in another process.
The code before the question may then run more than once.
"""

from __future__ import annotations

from mcpdesk.features.replicas.engine.engine import Engine
from mcpdesk.server.asks.round_claims import RoundClaims

CLAIM = """
local holder, ended, asked = unpack(redis.call('HMGET', KEYS[1], 'holder', 'ended', 'asked'))
if ended then return 'ended' end
if holder and holder ~= ARGV[1] then
  local now, lease = redis.call('TIME'), redis.call('ZSCORE', KEYS[2], holder)
  if lease and tonumber(lease) > now[1] + now[2] / 1000000 then return 'running' end
  if not asked then return 'lost' end
end
redis.call('HSET', KEYS[1], 'holder', ARGV[1])
redis.call('HDEL', KEYS[1], 'asked')
redis.call('EXPIRE', KEYS[1], ARGV[2])
return ''
"""
"""Script that claims a round. It returns the values that `EngineRounds.claim` describes."""
ASK = """
if redis.call('HGET', KEYS[1], 'holder') == ARGV[1] then redis.call('HSET', KEYS[1], 'asked', '1') end
"""
END = """
if redis.call('HGET', KEYS[1], 'holder') == ARGV[1] then redis.call('HSET', KEYS[1], 'ended', '1') end
"""
RELEASE = """
if redis.call('HGET', KEYS[1], 'holder') == ARGV[1] then redis.call('DEL', KEYS[1]) end
"""
HOLDER = """
local holder, now = redis.call('HGET', KEYS[1], 'holder'), redis.call('TIME')
local lease = holder and redis.call('ZSCORE', KEYS[2], holder)
if lease and tonumber(lease) > now[1] + now[2] / 1000000 then return holder end
return false
"""


class EngineRounds(RoundClaims):
    """Claims of rounds, by digest of the `requestState` that the client returned."""

    def __init__(self, engine: Engine, replica: str) -> None:
        self._engine, self._replica = engine, replica
        self._leases = engine.key("leases")

    async def claim(self, state: str, ttl_s: float) -> str:
        """Claim a round for this replica. Return an empty string if the round may run here.

        Otherwise return `running` if another replica with a valid lease holds the round, `ended` if the round
        has its final result, or `lost` if the replica that ran the round ended without a result. `state` is
        the digest of the `requestState`. The claim is stored for `ttl_s` seconds. Raises: EngineUnavailable.
        """
        keys = [self._key(state), self._leases]
        reply: bytes | None = await self._engine.script(CLAIM, keys, [self._replica, max(1, round(ttl_s))])
        return (reply or b"").decode()

    async def ask(self, state: str) -> None:
        """Record that the handler waits for the client, so that it may run again if this replica dies.

        Raises: EngineUnavailable.
        """
        await self._engine.script(ASK, [self._key(state)], [self._replica])

    async def end(self, state: str) -> None:
        """Record that a round of this replica has its final result. Raises: EngineUnavailable."""
        await self._engine.script(END, [self._key(state)], [self._replica])

    async def release(self, state: str) -> None:
        """Give up a round of this replica, so that any replica may run it. Raises: EngineUnavailable."""
        await self._engine.script(RELEASE, [self._key(state)], [self._replica])

    async def holder(self, state: str) -> str:
        """Return the id of the replica that holds a round, or "" if its lease has expired or the round is
        unknown.

        Raises: EngineUnavailable.
        """
        reply: bytes | None = await self._engine.script(HOLDER, [self._key(state), self._leases])
        return (reply or b"").decode()

    def _key(self, state: str) -> str:
        return self._engine.key("round", state)
