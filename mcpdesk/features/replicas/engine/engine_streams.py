"""Events of resumable streams in the engine.

A replica writes the events of a stream to the engine while no client is connected to the stream. If the
client resumes the stream at another replica, that replica reads them. Each resumable stream is a stream of
the engine. It has an entry `<number>-0` for each event, and an entry `<number>-1` after the last event if the
stream has ended. When a replica drops an event from memory, the event is trimmed in the engine, too.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any

from mcpdesk.features.replicas.engine.engine import GENERAL_REFUSALS, Engine, EngineUnavailable
from mcpdesk.protocol.event_store import Carrier, EventPosition, ResumableStream, numbered_event

BLOCK_MS = 100
"""Milliseconds for which one read of all followed streams waits for entries.

A stream that is added during a read is included in the next read.
"""
READ_TIMEOUT_S = 1.5
"""Seconds within which one read must succeed. If a read fails, the clients of the streams are
disconnected.
"""
MAX_READ_EVENTS = 100
"""Maximum number of events of one stream per read."""
PAUSE_S = 0.5
"""Seconds between two attempts to write while the engine accepts no writes."""
RETRY_S, MAX_WAIT_S = 2.0, 60.0
"""Seconds without events after which a stream is requested again.

The first wait lasts `RETRY_S`. Each further wait is twice as long, up to `MAX_WAIT_S`.
"""
LAST_WRITE_TIMEOUT_S = 2.0
"""Maximum number of seconds for which a replica that ends waits until its last events are written."""
MAX_EVENT_BYTES = 4 << 20
"""Maximum size in bytes of an event. A larger event, and all later events of its stream, are not stored."""
EVENT, OVER, CUT = b"event", b"over", b"cut"
"""Fields of entries. `OVER` marks the end of a complete stream. `CUT` marks the end of the stored events of a
stream that may be incomplete."""

WRITE = """
local key, ttl, first, end_field = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local function newest()
  local entry = redis.call('XREVRANGE', key, '+', '-', 'COUNT', 1)[1]
  if not entry then return -1, '' end
  local number, part = string.match(entry[1], '(%d+)-(%d+)')
  return tonumber(number), part
end
local last, part = newest()
if part ~= '1' then
  for i = 5, #ARGV, 2 do
    if tonumber(ARGV[i]) > last then redis.call('XADD', key, ARGV[i] .. '-0', 'event', ARGV[i + 1]) end
  end
  last = newest()
  if end_field ~= '' then
    redis.call('XADD', key, string.format('%d-1', math.max(last, tonumber(ARGV[4]))), end_field, '')
  end
end
redis.call('XTRIM', key, 'MINID', first .. '-0')
redis.call('EXPIRE', key, ttl)
"""
"""Script that writes new events of a stream, and the end of the stream if it has ended.

Events before number `first` are trimmed. ARGV: seconds until the stream expires, number of the first event to
keep, `OVER`, `CUT` or an empty string, number of the last event, and the number and data of each event.
"""

log = logging.getLogger(__name__)


class EngineStreams:
    """Resumable streams in the engine.

    This class writes the streams of this replica, and reads those of others.
    """

    def __init__(self, engine: Engine, ttl_s: float) -> None:
        self._engine, self._ttl_s = engine, int(ttl_s)
        self._changed_streams: dict[tuple[str, int], ResumableStream[Any]] = {}
        """Streams of this replica with unwritten data, by session and stream number."""
        self._unknown_streams: dict[tuple[str, int], int] = {}
        """Streams that other replicas requested but this replica does not have, by session and stream number.

        The value is the number of the last event that the client has received.
        """
        self._keys_to_delete: set[str] = set()
        """Keys of streams that must be deleted from the engine."""
        self._followers: dict[str, _Follower] = {}
        """Clients' connections to streams of other replicas, by key of the stream."""
        self._write_task: asyncio.Task[None] | None = None
        self._read_task: asyncio.Task[None] | None = None

    def write_soon(self, session: str, stream: ResumableStream[Any]) -> None:
        """Schedule a write of a stream's events that are not in the engine yet."""
        self._changed_streams[session, stream.number] = stream
        self._write_soon()

    def deny_soon(self, session: str, number: int, after: int) -> None:
        """Schedule a `CUT` entry after event `after` of a stream that this replica does not have."""
        self._unknown_streams[session, number] = after
        self._write_soon()

    def remove_soon(self, session: str, numbers: Collection[int]) -> None:
        """Schedule the deletion of the streams of a session that has ended."""
        for number in numbers:
            self._changed_streams.pop((session, number), None)
        self._keys_to_delete |= {self._key(session, number) for number in numbers}
        if self._keys_to_delete:
            self._write_soon()

    async def events_after(self, session: str, position: EventPosition) -> list[bytes]:
        """Return the stored events of a stream after the event at `position`. Raises: EngineUnavailable."""
        entries = await self._engine.entries(self._key(session, position.stream), f"{position.number}-0")
        return [fields[EVENT] for _, fields in entries if EVENT in fields]

    def open(
        self,
        session: str,
        position: EventPosition,
        is_held: Callable[[], bool],
        lost_message: bytes,
        request: Callable[[], object],
        *,
        sends_priming_event: bool,
    ) -> EngineStream:
        """Return a stream of another replica.

        `request()` asks the other replica to write the stream to the engine. It is called again while no
        events arrive. `is_held()` returns False after the other replica has ended. The stream then ends with
        the message `lost_message`.
        """
        key = self._key(session, position.stream)
        return EngineStream(
            self._followers,
            self._read_soon,
            key,
            position,
            is_held,
            lost_message,
            request,
            sends_priming_event,
        )

    def disconnect(self, session: str) -> None:
        """Close connections of this replica that read streams of a session of another replica."""
        prefix = self._key(session, 0)[:-1]
        for key in [each for each in self._followers if each.startswith(prefix)]:
            self._followers.pop(key).disconnect()

    async def close(self) -> None:
        """Write pending data and stop reading."""
        if self._read_task is not None:
            self._read_task.cancel()
            await asyncio.gather(self._read_task, return_exceptions=True)
        if self._write_task is not None:
            await asyncio.wait({self._write_task}, timeout=LAST_WRITE_TIMEOUT_S)
            self._write_task.cancel()
            await asyncio.gather(self._write_task, return_exceptions=True)

    def _key(self, session: str, number: int) -> str:
        return self._engine.key("stream", session, str(number))

    def _write_soon(self) -> None:
        if self._write_task is None or self._write_task.done():
            self._write_task = asyncio.get_running_loop().create_task(self._write_all())

    async def _write_all(self) -> None:
        while self._changed_streams or self._unknown_streams or self._keys_to_delete:
            try:
                await self._write_some()
            except EngineUnavailable as error:
                log.info("events for reconnecting clients will be written later: %s", error)
                await asyncio.sleep(PAUSE_S)

    async def _write_some(self) -> None:
        """Write pending data once. If a write fails, its data stay pending.

        If the engine is unreachable, stop. Otherwise attempt the other writes. Raises: EngineUnavailable if a
        write failed.
        """
        last_error: EngineUnavailable | None = None
        unknown = [partial(self._write_unknown, key) for key in self._unknown_streams]
        changed = [partial(self._write_changed, key) for key in self._changed_streams]
        writes: list[Callable[[], Awaitable[None]]] = [self._delete_streams, *unknown, *changed]
        for write in writes:
            try:
                await write()
            except EngineUnavailable as error:
                if error.refusal in GENERAL_REFUSALS:
                    raise
                last_error = error
        if last_error is not None:
            raise last_error

    async def _delete_streams(self) -> None:
        """Delete the streams of sessions that have ended. Raises: EngineUnavailable."""
        if keys := set(self._keys_to_delete):
            await self._engine.run(lambda client: client.delete(*keys))
            self._keys_to_delete -= keys

    async def _write_unknown(self, key: tuple[str, int]) -> None:
        """Write a `CUT` entry for a stream that this replica does not have. Raises: EngineUnavailable."""
        after = self._unknown_streams.pop(key)
        try:
            await self._engine.script(WRITE, [self._key(*key)], [self._ttl_s, 0, CUT, after])
        except BaseException:
            self._unknown_streams.setdefault(key, after)
            raise

    async def _write_changed(self, key: tuple[str, int]) -> None:
        """Write a changed stream unless it was removed. Raises: EngineUnavailable."""
        if (stream := self._changed_streams.pop(key, None)) is None:
            return
        try:
            await self._write(self._key(*key), stream)
        except BaseException:
            if self._key(*key) not in self._keys_to_delete:
                self._changed_streams.setdefault(key, stream)
            raise

    async def _write(self, key: str, stream: ResumableStream[Any]) -> None:
        """Write the events of a stream that are not in the engine yet. Raises: EngineUnavailable."""
        if stream.is_over and not stream.events:
            await self._engine.run(lambda client: client.delete(key))
            return
        events = [(number, data) for number, data in stream.events if number > stream.archived]
        end_field = OVER if stream.is_over else b""
        first = stream.events[0][0] if stream.events else stream.last + 1
        too_large_index = next((i for i, (_, data) in enumerate(events) if len(data) > MAX_EVENT_BYTES), None)
        if too_large_index is not None:
            events, end_field = events[:too_large_index], CUT
        arguments = [argument for event in events for argument in event]
        last_number = events[-1][0] if events else max(stream.archived, first - 1)
        await self._engine.script(WRITE, [key], [self._ttl_s, first, end_field, last_number, *arguments])
        stream.archived = max(stream.archived, last_number)

    def _read_soon(self) -> None:
        if self._read_task is None or self._read_task.done():
            self._read_task = asyncio.get_running_loop().create_task(self._read_all())

    async def _read_all(self) -> None:
        """Send new events of other replicas' streams to the followers, until there are no followers."""
        while followers := dict(self._followers):
            # Read before the streams: if an owner ends during the read, its last events are still read.
            ownerless_keys = {key for key, follower in followers.items() if not follower.is_held()}
            try:
                after = {key: follower.position for key, follower in followers.items()}
                streams = await self._engine.read_streams(after, BLOCK_MS, MAX_READ_EVENTS, READ_TIMEOUT_S)
            except EngineUnavailable as error:
                log.info("streams of other machines cannot be resumed: %s", error)
                for key, follower in followers.items():
                    self._drop(key, follower)
                continue
            for key, follower in followers.items():
                if self._followers.get(key) is not follower:
                    continue  # the client of the stream has disconnected or resumed again in the meantime
                entries = streams.get(key, [])
                is_over = follower.deliver(entries)
                follower.request_again(bool(entries))
                if not entries and key in ownerless_keys:
                    follower.report_lost()
                    is_over = True
                if is_over:
                    self._drop(key, follower)

    def _drop(self, key: str, follower: _Follower) -> None:
        """Remove and disconnect a follower, unless another one has replaced it."""
        if self._followers.get(key) is follower:
            del self._followers[key]
            follower.disconnect()


class _Follower:
    """Connection of a client that receives a stream of another replica, and its position in the stream."""

    def __init__(
        self, stream: EngineStream, live: Carrier, disconnect: Callable[[], object], after: int
    ) -> None:
        self.live, self.disconnect = live, disconnect
        self.position = f"{after}-0"
        self.is_held = stream.is_held
        self._stream = stream
        self._last_number = after
        self._wait_s = RETRY_S
        self._requested_at = time.monotonic()

    def request_again(self, has_events: bool) -> None:
        """Request the stream again if no events have arrived for `_wait_s` seconds.

        The previous request may be lost. `has_events` is True if events have just arrived.
        """
        now = time.monotonic()
        if has_events:
            self._requested_at, self._wait_s = now, RETRY_S
        elif now - self._requested_at >= self._wait_s:
            self._requested_at, self._wait_s = now, min(2 * self._wait_s, MAX_WAIT_S)
            self._stream.request()

    def deliver(self, entries: Collection[tuple[str, dict[bytes, bytes]]]) -> bool:
        """Send the events in `entries` to the client. Return True if the stream has ended."""
        for self.position, fields in entries:
            if EVENT not in fields:
                if CUT in fields:
                    self.report_lost()
                return True
            self.live.put(fields[EVENT])
            self._last_number = int(self.position.partition("-")[0])
        return False

    def report_lost(self) -> None:
        """Send the client the message that the remaining events are lost."""
        position = self._stream.position
        self.live.put(
            numbered_event(position.stream, self._last_number + 1, position.mark, self._stream.lost_message)
        )


class EngineStream:
    """Stream of another replica, for one client that resumes the stream."""

    def __init__(
        self,
        followers: dict[str, _Follower],
        read_soon: Callable[[], None],
        key: str,
        position: EventPosition,
        is_held: Callable[[], bool],
        lost_message: bytes,
        request: Callable[[], object],
        sends_priming_event: bool,
    ) -> None:
        """`followers` has the clients' connections to streams of other replicas, by key of the stream.

        `read_soon` schedules a read of these streams. `EngineStreams.open` describes the other parameters.
        """
        self.position, self.is_held = position, is_held
        self.lost_message, self.request = lost_message, request
        self._followers, self._read_soon = followers, read_soon
        self._key = key
        self._sends_priming_event = sends_priming_event

    def attach(self, live: Carrier, disconnect: Callable[[], object], after: int | None = None) -> None:
        """Implements `Resumable.attach`."""
        start = self.position.number if after is None else after
        if (earlier := self._followers.pop(self._key, None)) is not None:
            earlier.disconnect()
        if self._sends_priming_event:
            live.put(numbered_event(self.position.stream, start, self.position.mark, b""))
        self._followers[self._key] = _Follower(self, live, disconnect, start)
        self.request()
        self._read_soon()

    def detach(self, live: Carrier) -> None:
        """Implements `Resumable.detach`."""
        follower = self._followers.get(self._key)
        if follower is not None and follower.live is live:
            del self._followers[self._key]
