"""Questions to people, stored in the engine. The engine is the Redis-compatible store that all replicas
share.

Each replica publishes its waiting questions. A script in the engine decides which answer was first.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from mcpdesk.errors import StorageError
from mcpdesk.features.replicas.engine.engine import Engine
from mcpdesk.features.replicas.engine.event_bus import ANNOUNCE, EventBus
from mcpdesk.inbox.question import Question

ASKED, ENDED = "asked", "ended"
"""Values of `what` in a `QUESTION_EVENT`: the question was asked, or has ended."""
QUESTION_EVENT = "question"
"""Kind of event that reports a question or its end."""
MAX_BYTES = 256 << 10
"""Maximum size of a question in bytes. A larger question can be answered only at its own replica."""
EXTRA_TTL_S = 60
"""Seconds for which a replica's questions are kept in the engine after the last deadline."""
OUTCOME_TTL_S = 600
"""Seconds for which an answer is kept for the replica that asked."""

WRITE = f"""
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
if redis.call('TTL', KEYS[1]) < tonumber(ARGV[3]) then redis.call('EXPIRE', KEYS[1], ARGV[3]) end
{ANNOUNCE}
"""
END = f"""
local key, number, token, ending = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local first_token = redis.call('HGET', key, 'token')
if first_token == token then return 1 end
if ending ~= 'closed' then
  if first_token then return 0 end
  if ending == 'another' then
    local now, lease = redis.call('TIME'), redis.call('ZSCORE', KEYS[4], ARGV[4])
    if not lease or tonumber(lease) <= now[1] + now[2] / 1000000 then return -1 end
    if redis.call('HEXISTS', KEYS[3], number) == 0 then return -1 end
  end
end
redis.call('HDEL', KEYS[3], number)
redis.call('HSET', key, 'token', token, 'end', ARGV[5])
redis.call('EXPIRE', key, ARGV[6])
{ANNOUNCE}
return 1
"""
"""Script that ends a question, unless it has already ended.

It returns 1 if this attempt ended the question, 0 if the question had already ended, and -1 if another
replica cannot end it, because the lease of the asking replica has expired or the question is not stored.
"""


class Ending(StrEnum):
    """Party that ended a question."""

    OWN = "own"
    """A person at the replica that asked."""
    ANOTHER = "another"
    """A person at another replica."""
    CLOSED = "closed"
    """The replica that asked, because the calls no longer wait for the answer.

    This end overrides other answers.
    """


class EngineQuestions:
    """Questions of all replicas. Every method may raise EngineUnavailable."""

    def __init__(self, engine: Engine, bus: EventBus) -> None:
        self._engine, self._bus = engine, bus

    async def write(self, question: Question, replica: str, number: int, ttl_s: float) -> None:
        """Publish a question to all replicas. It is stored for `ttl_s` + `EXTRA_TTL_S` seconds.

        A question larger than `MAX_BYTES` is not published.
        """
        event = self._bus.arguments(QUESTION_EVENT, what=ASKED, replica=replica, number=number)
        keys = [self._waiting_key(replica), self._bus.key]
        packed = msgspec.msgpack.encode(question)
        if len(packed) <= MAX_BYTES:
            await self._engine.script(WRITE, keys, [number, packed, int(ttl_s) + EXTRA_TTL_S, *event])

    async def read(self, replica: str, number: int) -> Question | None:
        """Return a waiting question of a replica, or None if the question has ended."""
        key = self._waiting_key(replica)
        return decoded_question(await self._engine.run(lambda client: client.hget(key, number)))

    async def waiting_of(self, replica: str) -> dict[int, Question]:
        """Return all waiting questions of a replica, by their number at that replica."""
        key = self._waiting_key(replica)
        fields = await self._engine.run(lambda client: client.hgetall(key))
        questions = {int(number): decoded_question(packed) for number, packed in fields.items()}
        return {number: question for number, question in questions.items() if question is not None}

    async def end(
        self, replica: str, number: int, ending: Ending, token: str, ended: Question, public: Question
    ) -> bool:
        """Record the end of a question. Return False if the question has already ended.

        `ending` names the party that ended the question. `token` identifies the attempt, so that a repeated
        attempt succeeds. `ended` has the answer for the asking replica. `public` is the version that is sent
        to all replicas. Raises: StorageError if the lease of the asking replica has expired, or if the engine
        has lost the question.
        """
        encoded_public = msgspec.msgpack.encode(public)
        event = self._bus.arguments(
            QUESTION_EVENT, what=ENDED, replica=replica, number=number, question=encoded_public
        )
        keys = [
            self._end_key(replica, number),
            self._bus.key,
            self._waiting_key(replica),
            self._engine.key("leases"),
        ]
        encoded_answer = msgspec.msgpack.encode(ended) if ending is Ending.ANOTHER else b""
        arguments = [number, token, ending, replica, encoded_answer, OUTCOME_TTL_S, *event]
        result = await self._engine.script(END, keys, arguments)
        if result < 0:
            raise StorageError(f"the replica {ended.core}, which asked the question, does not respond now")
        return bool(result)

    async def read_ended(self, replica: str, number: int) -> Question | None:
        """Return the ended question with its answer if another replica ended it, else None."""
        key = self._end_key(replica, number)
        return decoded_question(await self._engine.run(lambda client: client.hget(key, "end")))

    async def delete_answer(self, replica: str, number: int) -> None:
        """Delete an answer that the asking replica has received."""
        key = self._end_key(replica, number)
        await self._engine.run(lambda client: client.hdel(key, "end"))

    async def forget(self, replica: str) -> None:
        """Delete the waiting questions of a replica that stops."""
        key = self._waiting_key(replica)
        await self._engine.run(lambda client: client.delete(key))

    def _waiting_key(self, replica: str) -> str:
        return self._engine.key("questions", replica)

    def _end_key(self, replica: str, number: int) -> str:
        return self._engine.key("question-end", replica, str(number))


def decoded_question(packed: Any) -> Question | None:
    """Return the decoded question, or None if it is missing or an incompatible version wrote it."""
    try:
        return msgspec.msgpack.decode(packed or b"", type=Question)
    except msgspec.MsgspecError:
        return None
