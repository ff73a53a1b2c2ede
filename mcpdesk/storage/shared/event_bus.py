"""One bounded stream of the engine on which replicas tell each other what changed.

A replica that was cut off from the engine reads what it missed when it is back, as long as the stream has it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from mcpdesk.storage.shared.engine import Engine, EngineAway

KEPT_EVENTS = 10_000
"""Events the stream keeps, about."""
PAUSE_S = 0.25
"""Time between two attempts to read while the engine is away."""

ANNOUNCE = f"""
redis.call('XADD', KEYS[2], 'MAXLEN', '~', {KEPT_EVENTS}, '*',
           'kind', ARGV[#ARGV - 2], 'from', ARGV[#ARGV - 1], 'facts', ARGV[#ARGV])
"""
"""A part of scripts: adds the event in their last three arguments to the stream, their second key."""

Listener = Callable[[Mapping[str, Any]], object]
"""Takes what another replica told."""

log = logging.getLogger(__name__)


class ToldEvent(NamedTuple):
    """One event as it is read later."""

    id: str
    replica: str
    """That told it."""
    number: int
    """Which of that replica's it is; 0: it was written by a script, which does not count."""
    kind: str
    fields: Mapping[bytes, bytes]

    @property
    def facts(self) -> Mapping[str, Any]:
        """What was told."""
        return _facts(self.fields)


class EventBus:
    """Sends and hears events. Events of a replica's own are not heard by it."""

    def __init__(self, engine: Engine, replica: str) -> None:
        """`replica` is the id of this one."""
        self.key = engine.key("bus")
        self.last = "0-0"
        """The id of the latest event that was heard."""
        self.told = 0
        """How many events were told here."""
        self._engine = engine
        self._replica = replica.encode()
        self._listeners: dict[str, Listener] = {}
        self._unsent: list[dict[str, bytes]] = []
        self._sender_aio: asyncio.Task[None] | None = None
        self._reader_aio: asyncio.Task[None] | None = None

    def listen(self, kind: str, listener: Listener) -> None:
        """Call `listener` with what other replicas tell under a kind."""
        self._listeners[kind] = listener

    async def start(self) -> None:
        """Begin to hear what is told from now on."""
        try:
            newest = await self._engine.run(lambda client: client.xrevrange(self.key, count=1))
            self.last = newest[0][0].decode() if newest else "0-0"
        except EngineAway:
            self.last = f"{int(self._engine.clock() * 1000)}-0"
        self._reader_aio = asyncio.create_task(self._read())

    async def close(self) -> None:
        """Send what was told, and hear nothing more."""
        if self._reader_aio is not None:
            self._reader_aio.cancel()
            await asyncio.gather(self._reader_aio, return_exceptions=True)
        if self._sender_aio is not None:
            await asyncio.wait({self._sender_aio}, timeout=1.0)

    def tell(self, kind: str, /, **facts: Any) -> None:
        """Tell the other replicas soon. While the engine is away, as many as are kept wait, the newest."""
        self.told += 1
        self._unsent.append(self.fields(kind, facts) | {"number": b"%d" % self.told})
        del self._unsent[:-KEPT_EVENTS]
        if self._sender_aio is None:
            self._sender_aio = asyncio.get_running_loop().create_task(self._send())

    def fields(self, kind: str, facts: Mapping[str, Any]) -> dict[str, bytes]:
        """An event as the stream has it."""
        return {"kind": kind.encode(), "from": self._replica, "facts": msgspec.msgpack.encode(facts)}

    def arguments(self, kind: str, **facts: Any) -> list[bytes]:
        """The last arguments of a script with `ANNOUNCE`: it writes something and tells of it, or neither."""
        return list(self.fields(kind, facts).values())

    async def since(self, identifier: str) -> list[ToldEvent]:
        """Everything told behind an id, by whichever replica. Raises: EngineAway."""
        return [
            ToldEvent(
                each,
                fields[b"from"].decode(),
                int(fields.get(b"number", 0)),
                fields[b"kind"].decode(),
                fields,
            )
            for each, fields in await self._engine.entries(self.key, identifier)
        ]

    async def _send(self) -> None:
        try:
            while self._unsent:
                batch, self._unsent = self._unsent, []
                try:
                    await self._engine.run(lambda client, batch=batch: self._add(client, batch))  # type: ignore[misc]
                except EngineAway:
                    self._unsent = [*batch, *self._unsent][-KEPT_EVENTS:]
                    await asyncio.sleep(PAUSE_S)
        finally:
            self._sender_aio = None

    async def _add(self, client: Any, batch: list[dict[str, bytes]]) -> None:
        pipeline = client.pipeline(transaction=False)
        for fields in batch:
            pipeline.xadd(self.key, fields, maxlen=KEPT_EVENTS, approximate=True)
        await pipeline.execute()

    async def _read(self) -> None:
        while True:
            try:
                entries = await self._engine.read_stream(self.key, self.last)
            except EngineAway:
                await asyncio.sleep(PAUSE_S)
                continue
            for identifier, fields in entries:
                self.last = identifier
                if fields[b"from"] != self._replica:
                    self._hear(fields)

    def _hear(self, fields: Mapping[bytes, bytes]) -> None:
        listener = self._listeners.get(fields[b"kind"].decode())
        if listener is not None:
            try:
                listener(_facts(fields))
            except (
                Exception
            ):  # perhaps of a replica of another version; what follows is to be heard all the same
                log.exception("an event of another replica cannot be handled")


def _facts(fields: Mapping[bytes, bytes]) -> Mapping[str, Any]:
    facts: Mapping[str, Any] = msgspec.msgpack.decode(fields[b"facts"])
    return facts
