"""Event bus of the replicas: one stream of limited length in the engine, which announces changes.

A replica that could not reach the engine for some time reads the missed events later, if the stream still has
them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from mcpdesk.features.replicas.engine.engine import Engine, EngineUnavailable

MAX_STREAM_EVENTS = 10_000
"""Approximate number of events that the stream keeps."""
PAUSE_S = 0.25
"""Seconds between two attempts to read while the engine is unreachable."""

ANNOUNCE = f"""
redis.call('XADD', KEYS[2], 'MAXLEN', '~', {MAX_STREAM_EVENTS}, '*',
           'kind', ARGV[#ARGV - 2], 'from', ARGV[#ARGV - 1], 'facts', ARGV[#ARGV])
"""
"""Lua fragment that appends the event in the last three arguments to the stream in the second key."""

Listener = Callable[[Mapping[str, Any]], object]
"""Function that receives the facts of another replica's event."""

log = logging.getLogger(__name__)


class BusEvent(NamedTuple):
    """One event, as read from the stream."""

    id: str
    replica: str
    """Id of the replica that sent the event."""
    number: int
    """Sequence number of the event at its replica. 0 for events that a script wrote, which are not
    counted."""
    kind: str
    fields: Mapping[bytes, bytes]

    @property
    def facts(self) -> Mapping[str, Any]:
        """Content of the event."""
        return _facts(self.fields)


class EventBus:
    """Sends and receives events. A replica does not receive its own events."""

    def __init__(self, engine: Engine, replica: str) -> None:
        """Create a bus. `replica` is the id of this replica."""
        self.key = engine.key("bus")
        self.last = "0-0"
        """Id of the latest event that was received."""
        self.sent = 0
        """Number of events sent by this replica."""
        self._engine = engine
        self._replica = replica.encode()
        self._listeners: dict[str, Listener] = {}
        self._unsent: list[dict[str, bytes]] = []
        self._sender_task: asyncio.Task[None] | None = None
        self._reader_task: asyncio.Task[None] | None = None

    def listen(self, kind: str, listener: Listener) -> None:
        """Call `listener` with the facts of other replicas' events of a kind."""
        self._listeners[kind] = listener

    async def start(self) -> None:
        """Start to receive the events that are sent from now on."""
        try:
            newest = await self._engine.run(lambda client: client.xrevrange(self.key, count=1))
            self.last = newest[0][0].decode() if newest else "0-0"
        except EngineUnavailable:
            self.last = f"{int(self._engine.clock() * 1000)}-0"
        self._reader_task = asyncio.create_task(self._read())

    async def close(self) -> None:
        """Send pending events, and stop receiving."""
        if self._reader_task is not None:
            self._reader_task.cancel()
            await asyncio.gather(self._reader_task, return_exceptions=True)
        if self._sender_task is not None:
            await asyncio.wait({self._sender_task}, timeout=1.0)

    def publish(self, kind: str, /, **facts: Any) -> None:
        """Send an event soon. While the engine is unreachable, the newest `MAX_STREAM_EVENTS` are kept."""
        self.sent += 1
        self._unsent.append(self.fields(kind, facts) | {"number": b"%d" % self.sent})
        del self._unsent[:-MAX_STREAM_EVENTS]
        if self._sender_task is None:
            self._sender_task = asyncio.get_running_loop().create_task(self._send())

    def fields(self, kind: str, facts: Mapping[str, Any]) -> dict[str, bytes]:
        """Return the fields of an event in the stream."""
        return {"kind": kind.encode(), "from": self._replica, "facts": msgspec.msgpack.encode(facts)}

    def arguments(self, kind: str, **facts: Any) -> list[bytes]:
        """Return the arguments that `ANNOUNCE` reads: the last three arguments of the script.

        A script that contains `ANNOUNCE` changes data and announces the change in one atomic step.
        """
        return list(self.fields(kind, facts).values())

    async def since(self, identifier: str) -> list[BusEvent]:
        """Return the events of all replicas after the event with this id. Raises: EngineUnavailable."""
        events = list[BusEvent]()
        for event_id, fields in await self._engine.entries(self.key, identifier):
            replica, kind = fields[b"from"].decode(), fields[b"kind"].decode()
            events.append(BusEvent(event_id, replica, int(fields.get(b"number", 0)), kind, fields))
        return events

    async def _send(self) -> None:
        try:
            while self._unsent:
                batch, self._unsent = self._unsent, []
                try:
                    await self._engine.run(lambda client, batch=batch: self._add(client, batch))  # type: ignore[misc]
                except EngineUnavailable:
                    self._unsent = [*batch, *self._unsent][-MAX_STREAM_EVENTS:]
                    await asyncio.sleep(PAUSE_S)
        finally:
            self._sender_task = None

    async def _add(self, client: Any, batch: list[dict[str, bytes]]) -> None:
        pipeline = client.pipeline(transaction=False)
        for fields in batch:
            pipeline.xadd(self.key, fields, maxlen=MAX_STREAM_EVENTS, approximate=True)
        await pipeline.execute()

    async def _read(self) -> None:
        while True:
            try:
                entries = await self._engine.read_stream(self.key, self.last)
            except EngineUnavailable:
                await asyncio.sleep(PAUSE_S)
                continue
            for identifier, fields in entries:
                self.last = identifier
                if fields[b"from"] != self._replica:
                    self._deliver(fields)

    def _deliver(self, fields: Mapping[bytes, bytes]) -> None:
        listener = self._listeners.get(fields[b"kind"].decode())
        if listener is not None:
            try:
                listener(_facts(fields))
            except Exception:  # the event may be from another version, and later events must still be handled
                log.exception("an event of another replica cannot be handled")


def _facts(fields: Mapping[bytes, bytes]) -> Mapping[str, Any]:
    facts: Mapping[str, Any] = msgspec.msgpack.decode(fields[b"facts"])
    return facts
