"""Publisher of a replica: the replica's end of the connection to desks through the engine.

The engine is the Redis-compatible store that all replicas share. The publisher reads requests from one
stream. While desks are present, it writes changes of the core to another stream, which all desks read. The
size of this stream in bytes is limited. A desk that reads too slowly misses the oldest entries, and detects
this by the numbers of the entries. The publisher runs on a separate thread, so that desks can inspect a
stuck core.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import Struct

from mcpdesk.features.replicas.desk.engine_streams import (
    AGAIN,
    DESK,
    DESK_TIMEOUT_S,
    MESSAGES,
    NUMBER,
    STREAM_TTL_S,
    WELCOME,
    requests_key,
    separate,
    updates_key,
)
from mcpdesk.features.replicas.desk.source_masking import SourceMask
from mcpdesk.features.replicas.engine.engine import Engine, EngineUnavailable
from mcpdesk.link.attach_messages import FromScreen, Join, Welcome, framed, pack
from mcpdesk.link.link_server import CoreUpdates, ScreenSession
from mcpdesk.link.local.local_link import LocalLink

READ_PERIOD_S = 0.05
"""Seconds between two reads of the traffic while a desk is present."""
STATE_PERIOD_S = 0.2
"""Seconds between two reads of the state other than traffic."""
PAUSE_S = 0.25
"""Seconds between two attempts to read requests while the engine is unreachable."""
MAX_ENTRY_BYTES: Final = 256 << 10
"""Maximum size in bytes of one entry. An entry with a single message may be larger."""
MAX_STREAM_BYTES: Final = 8 << 20
"""Maximum total size in bytes of the entries that are kept in the engine. The newest are kept."""
PAST_FRAMES, PAST_LINES = 2_000, 1_000
"""Number of past frames, and of log lines, that a desk receives when it joins."""
MAX_UNANSWERED_REQUESTS = 1_000
"""Maximum number of unanswered requests of one desk. Further requests are ignored."""
_log = logging.getLogger(__name__)
_request_decoder: msgspec.msgpack.Decoder[FromScreen] = msgspec.msgpack.Decoder(FromScreen)


class EnginePublisher:
    """Context manager that publishes a core to desks through the engine."""

    def __init__(
        self,
        url: str,
        name: str,
        replica: str,
        welcome: Callable[[], Welcome],
        make_link: Callable[[int], LocalLink],
        *,
        masks: bool,
    ) -> None:
        """Create a publisher.

        `make_link(viewers)` creates a link to the core. `viewers` is 0 for the link that all desks share. If
        `masks`, secrets are masked in all messages to desks.
        """
        self._engine_arguments = url, name
        self._replica = replica
        self._welcome = welcome
        self._make_link = make_link
        self._mask = SourceMask(welcome().secret_headers) if masks else None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="shared-desks", daemon=True)
        self._desks: dict[str, _Desk] = {}
        """Desks that have joined, by id."""
        self._link: LocalLink | None = None
        self._updates: CoreUpdates | None = None
        self._wake = asyncio.Event()
        self._next_state_at = 0.0
        """Monotonic time at which the state is due to be sent."""
        self._unjoined_ids: set[str] = set()
        """Ids of desks that sent a request but have not joined. They will be asked to join again."""
        self._entries = _Entries()

    def __enter__(self) -> EnginePublisher:
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        with suppress(RuntimeError):  # the loop has already ended
            self._loop.call_soon_threadsafe(self._stop)
        self._thread.join(DESK_TIMEOUT_S)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner, suppress(asyncio.CancelledError):
            runner.run(self._serve())

    def _stop(self) -> None:
        for task in asyncio.all_tasks(self._loop):
            task.cancel()

    async def _serve(self) -> None:
        self._engine = Engine(*self._engine_arguments)
        await self._engine.start()
        publish_task = asyncio.create_task(self._publish_updates())
        try:
            await self._read_requests()
        finally:
            publish_task.cancel()
            for desk in self._desks.values():
                desk.session.end()
            if self._link is not None:
                self._link.close()
            await self._engine.close()

    async def _read_requests(self) -> None:
        """Handle messages of desks until the task is cancelled."""
        key, last = requests_key(self._engine, self._replica), "0-0"
        while True:
            try:
                entries = await self._engine.read_stream(key, last)
            except EngineUnavailable:
                await asyncio.sleep(PAUSE_S)
                continue
            for identifier, fields in entries:
                last = identifier
                try:
                    desk_id = fields[DESK].decode()
                    for message in separate(fields[MESSAGES]):
                        self._handle(desk_id, message)
                except (KeyError, ValueError, msgspec.MsgspecError) as error:
                    _log.warning("invalid request of a desk through the engine: %s", error)
            self._remove_silent_desks()

    def _handle(self, desk_id: str, message: bytes) -> None:
        """Handle one message of a desk. Raises: ValueError, MsgspecError."""
        desk = self._desks.get(desk_id)
        if isinstance(_request_decoder.decode(message), Join):
            if desk is None:
                desk = self._desks[desk_id] = _Desk(ScreenSession(self._make_link(1), self._wake_soon))
                _log.info("a desk joined through the engine, now %d", len(self._desks))
            desk.is_new = True
        elif desk is None:
            self._unjoined_ids.add(desk_id)
        elif desk.session.waiting < MAX_UNANSWERED_REQUESTS:
            desk.session.handle(message)
        if desk is not None:
            desk.last_request_at = time.monotonic()
        self._wake_soon()

    def _wake_soon(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._wake.set)

    def _remove_silent_desks(self) -> None:
        """Remove desks that no longer send messages. If no desk remains, stop publishing."""
        now = time.monotonic()
        for desk_id, desk in list(self._desks.items()):
            if now - desk.last_request_at > DESK_TIMEOUT_S:
                del self._desks[desk_id]
                desk.session.end()
        if not self._desks and self._link is not None:
            self._link.close()
            self._link = self._updates = None

    async def _publish_updates(self) -> None:
        """Write changes of the core while desks are present."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(READ_PERIOD_S if self._desks else None):
                    await self._wake.wait()
            self._wake.clear()
            try:
                self._collect_entries()
            except Exception:
                _log.exception("updates cannot be sent to desks")
                await asyncio.sleep(DESK_TIMEOUT_S)
            await self._write()

    def _collect_entries(self) -> None:
        """Collect entries for all desks and entries for particular desks."""
        for desk_id in self._unjoined_ids:
            self._entries.add(desk_id, {AGAIN: b"1"})
        self._unjoined_ids.clear()
        if not self._desks:
            return
        if self._link is None or self._updates is None:
            self._link = self._make_link(0)
            self._updates = CoreUpdates(self._link, self._put, past=0)
        for desk_id, desk in self._desks.items():
            if desk.is_new:
                desk.is_new = False
                self._entries.add(desk_id, {WELCOME: bytes(pack(self._welcome()))})
                self._updates.send_history(partial(self._put, desk_id=desk_id), PAST_FRAMES, PAST_LINES)
                self._updates.send_all_again()
                self._next_state_at = 0.0
        call_updates = {desk_id: desk.session.call_updates() for desk_id, desk in self._desks.items()}
        # Frames are sent before the outcome of a call, because the screen shows the outcome with its frames.
        self._updates.send_traffic()
        self._send_state(self._updates)
        for desk_id, desk in self._desks.items():
            for message in (*desk.session.own_parts(), *call_updates[desk_id], *desk.session.replies()):
                self._put(message, desk_id)

    def _send_state(self, updates: CoreUpdates) -> None:
        """Send log lines and state if they are due, or at once if a desk waits for a reply."""
        now = time.monotonic()
        if now >= self._next_state_at or any(desk.session.waiting for desk in self._desks.values()):
            self._next_state_at = now + STATE_PERIOD_S
            updates.send_lines()
            updates.send_state()

    def _put(self, message: Struct, desk_id: str = "") -> None:
        """Add a message for one desk, or for all desks if `desk_id` is ""."""
        self._entries.put(desk_id, framed(message if self._mask is None else self._mask.masked(message)))

    async def _write(self) -> None:
        """Write the entries, and trim the stream.

        Entries that cannot be written are lost. Desks detect the gap in the numbers.
        """
        key = updates_key(self._engine, self._replica)
        for fields in self._entries.drain():
            oldest = self._entries.oldest
            with suppress(EngineUnavailable):
                identifier = await self._engine.run(partial(_add_entry, key, fields, oldest))
                self._entries.note_written(identifier.decode(), fields)


async def _add_entry(key: str, fields: dict[bytes, bytes], oldest: str, client: Any) -> bytes:
    pipeline = client.pipeline(transaction=False)
    pipeline.xadd(key, fields, minid=oldest or None, approximate=False)
    pipeline.expire(key, STREAM_TTL_S)
    identifier, _ = await pipeline.execute()
    return bytes(identifier)


class _Desk:
    """A desk that has joined."""

    def __init__(self, session: ScreenSession) -> None:
        self.session = session
        self.last_request_at = time.monotonic()
        self.is_new = True
        """True until the state has been sent to the desk."""


class _Entries:
    """Entries that wait to be written, and sizes of the entries that were written.

    An entry is either for all desks or for one desk.
    """

    def __init__(self) -> None:
        self.oldest = ""
        """Id of the oldest entry that the stream must keep."""
        self._written: deque[tuple[str, int]] = deque()
        """Ids and sizes in bytes of the entries that the stream must keep."""
        self._written_bytes = 0
        """Total size in bytes of the entries in `_written`."""
        self._unwritten: list[dict[bytes, bytes]] = []
        """Complete entries that are not written yet."""
        self._pending_messages: list[bytes] = []
        """Messages of the entry that is not complete yet."""
        self._pending_bytes = 0
        """Total size in bytes of `_pending_messages`."""
        self._desk_id = ""
        """Id of the desk that receives the incomplete entry, or "" for all desks."""
        self._number = 0
        """Number of the last entry."""

    def put(self, desk_id: str, message: bytes) -> None:
        """Add a message to the incomplete entry. If `desk_id` is "", the message is for all desks.

        If the entry is for another desk or would be too large, begin a new one.
        """
        if self._pending_messages and (
            desk_id != self._desk_id or self._pending_bytes + len(message) > MAX_ENTRY_BYTES
        ):
            self._complete_entry()
        self._desk_id = desk_id
        self._pending_messages.append(message)
        self._pending_bytes += len(message)

    def add(self, desk_id: str, fields: dict[bytes, bytes]) -> None:
        """Add a complete entry with these fields for one desk."""
        self._complete_entry()
        self._unwritten.append(fields | {DESK: desk_id.encode()})

    def drain(self) -> Iterator[dict[bytes, bytes]]:
        """Remove the entries that must be written, and yield them with their numbers."""
        self._complete_entry()
        entries, self._unwritten = self._unwritten, []
        for fields in entries:
            self._number += 1
            yield fields | {NUMBER: b"%d" % self._number}

    def note_written(self, identifier: str, fields: dict[bytes, bytes]) -> None:
        """Record that an entry was written, and update `oldest`."""
        size = sum(map(len, fields.values()))
        self._written.append((identifier, size))
        self._written_bytes += size
        while self._written_bytes > MAX_STREAM_BYTES and len(self._written) > 1:
            self._written_bytes -= self._written.popleft()[1]
        self.oldest = self._written[0][0]

    def _complete_entry(self) -> None:
        """Complete the incomplete entry, if it has messages."""
        if self._pending_messages:
            fields = {MESSAGES: b"".join(self._pending_messages)}
            self._unwritten.append(fields | {DESK: self._desk_id.encode()} if self._desk_id else fields)
            self._pending_messages, self._pending_bytes = [], 0
