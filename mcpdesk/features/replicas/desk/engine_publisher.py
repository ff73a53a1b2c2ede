"""Side of a replica in the connection between desks and replicas through the engine.

The engine is the Redis-compatible store that all replicas share. The publisher reads requests from one
stream. It writes changes of the core to another stream, but only while desks are present. All desks read the
same entries. The number of bytes in this stream is limited: a desk that reads too slowly misses the oldest
entries and detects this by their numbers. The publisher runs on a separate thread, so that desks can inspect
a stuck core.
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
    DESK_S,
    MESSAGES,
    NUMBER,
    STREAM_TTL_S,
    WELCOME,
    asks_key,
    news_key,
    separate,
)
from mcpdesk.features.replicas.desk.source_masking import SourceMask
from mcpdesk.features.replicas.engine.engine import Engine, EngineUnavailable
from mcpdesk.link.attach_messages import FromScreen, Join, Welcome, framed, pack
from mcpdesk.link.link_server import CoreUpdates, ScreenSession
from mcpdesk.link.local.local_link import LocalLink

READ_PERIOD_S = 0.05
"""Seconds between two reads of the traffic while a desk is present."""
STATE_S = 0.2
"""Seconds between two reads of the state other than traffic."""
PAUSE_S = 0.25
"""Seconds between two attempts while the engine is unreachable."""
MAX_ENTRY_BYTES: Final = 256 << 10
"""Maximum size in bytes of one entry. An entry with a single message may be larger."""
MAX_STREAM_BYTES: Final = 8 << 20
"""Maximum total size in bytes of the entries that are kept in the engine. The newest are kept."""
PAST_FRAMES, PAST_LINES = 2_000, 1_000
"""Number of past frames, and of log lines, that a desk receives when it joins."""
MAX_UNANSWERED_REQUESTS = 1_000
"""Maximum number of unanswered requests of one desk. Further requests are ignored."""
_log = logging.getLogger(__name__)
_of_desk: msgspec.msgpack.Decoder[FromScreen] = msgspec.msgpack.Decoder(FromScreen)


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

        `make_link` creates a link with a number of viewers. The number is 0 for the link that all desks
        share.
        """
        self._address = url, name
        self._replica = replica
        self._welcome = welcome
        self._make_link = make_link
        self._mask = SourceMask(welcome().secret_headers) if masks else None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="shared-desks", daemon=True)
        self._desks: dict[str, _Desk] = {}
        self._link: LocalLink | None = None
        self._news: CoreUpdates | None = None
        self._wake = asyncio.Event()
        self._state_due = 0.0
        self._strangers: set[str] = set()
        """Desks that sent a request but have not joined this replica. They will be asked to join again."""
        self._entries = _Entries()

    def __enter__(self) -> EnginePublisher:
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        with suppress(RuntimeError):  # the loop has already ended
            self._loop.call_soon_threadsafe(self._stop)
        self._thread.join(DESK_S)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner, suppress(asyncio.CancelledError):
            runner.run(self._serve())

    def _stop(self) -> None:
        for task in asyncio.all_tasks(self._loop):
            task.cancel()

    async def _serve(self) -> None:
        self._engine = Engine(*self._address)
        await self._engine.start()
        telling = asyncio.create_task(self._publish_news())
        try:
            await self._listen()
        finally:
            telling.cancel()
            for desk in self._desks.values():
                desk.visit.end()
            if self._link is not None:
                self._link.close()
            await self._engine.close()

    async def _listen(self) -> None:
        """Handle messages of desks until cancelled."""
        key, last = asks_key(self._engine, self._replica), "0-0"
        while True:
            try:
                entries = await self._engine.read_stream(key, last)
            except EngineUnavailable:
                await asyncio.sleep(PAUSE_S)
                continue
            for identifier, fields in entries:
                last = identifier
                try:
                    desk = fields[DESK].decode()
                    for message in separate(fields[MESSAGES]):
                        self._handle(desk, message)
                except (KeyError, ValueError, msgspec.MsgspecError) as error:
                    _log.warning("invalid request of a desk through the engine: %s", error)
            self._forget_silent()

    def _handle(self, name: str, message: bytes) -> None:
        """Handle one message of a desk. Raises: ValueError, MsgspecError."""
        desk = self._desks.get(name)
        if isinstance(_of_desk.decode(message), Join):
            if desk is None:
                desk = self._desks[name] = _Desk(ScreenSession(self._make_link(1), self._awake))
                _log.info("a desk joined through the engine, now %d", len(self._desks))
            desk.is_new = True
        elif desk is None:
            self._strangers.add(name)
        elif desk.visit.waiting < MAX_UNANSWERED_REQUESTS:
            desk.visit.handle(message)
        if desk is not None:
            desk.last_request = time.monotonic()
        self._awake()

    def _awake(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._wake.set)

    def _forget_silent(self) -> None:
        """Remove desks that no longer send messages. If no desk remains, stop publishing."""
        now = time.monotonic()
        for name, desk in list(self._desks.items()):
            if now - desk.last_request > DESK_S:
                del self._desks[name]
                desk.visit.end()
        if not self._desks and self._link is not None:
            self._link.close()
            self._link = self._news = None

    async def _publish_news(self) -> None:
        """Write changes of the core while desks are present."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(READ_PERIOD_S if self._desks else None):
                    await self._wake.wait()
            self._wake.clear()
            try:
                self._look()
            except Exception:
                _log.exception("updates cannot be sent to desks")
                await asyncio.sleep(DESK_S)
            await self._write()

    def _look(self) -> None:
        """Collect entries for all desks and entries for particular desks."""
        for name in self._strangers:
            self._entries.add(name, {AGAIN: b"1"})
        self._strangers.clear()
        if not self._desks:
            return
        if self._link is None or self._news is None:
            self._link = self._make_link(0)
            self._news = CoreUpdates(self._link, self._put, past=0)
        for name, desk in self._desks.items():
            if desk.is_new:
                desk.is_new = False
                self._entries.add(name, {WELCOME: bytes(pack(self._welcome()))})
                self._news.send_history(partial(self._put, desk=name), PAST_FRAMES, PAST_LINES)
                self._news.begin_again()
                self._state_due = 0.0
        calls = {name: desk.visit.call_news() for name, desk in self._desks.items()}
        # Send frames before an outcome, because the screen then looks for the frames.
        self._news.send_traffic()
        self._send_state(self._news)
        for name, desk in self._desks.items():
            for message in (*desk.visit.own_parts(), *calls[name], *desk.visit.replies()):
                self._put(message, name)

    def _send_state(self, news: CoreUpdates) -> None:
        now = time.monotonic()
        if now >= self._state_due or any(desk.visit.waiting for desk in self._desks.values()):
            self._state_due = now + STATE_S
            news.send_lines()
            news.send_state()

    def _put(self, message: Struct, desk: str = "") -> None:
        """Add a message for one desk, or for all desks."""
        self._entries.put(desk, framed(message if self._mask is None else self._mask.masked(message)))

    async def _write(self) -> None:
        """Write the entries, and trim the stream.

        Entries that cannot be written are lost. Desks detect the gap in the numbers.
        """
        key = news_key(self._engine, self._replica)
        for fields in self._entries.drain():
            oldest = self._entries.oldest
            with suppress(EngineUnavailable):
                identifier = await self._engine.run(partial(_add, key, fields, oldest))
                self._entries.note_written(identifier.decode(), fields)


async def _add(key: str, fields: dict[bytes, bytes], oldest: str, client: Any) -> bytes:
    pipeline = client.pipeline(transaction=False)
    pipeline.xadd(key, fields, minid=oldest or None, approximate=False)
    pipeline.expire(key, STREAM_TTL_S)
    identifier, _ = await pipeline.execute()
    return bytes(identifier)


class _Desk:
    """A desk that has joined."""

    def __init__(self, visit: ScreenSession) -> None:
        self.visit = visit
        self.last_request = time.monotonic()
        self.is_new = True
        """True until the state has been sent to the desk."""


class _Entries:
    """Entries that wait to be written, and sizes of those that were written."""

    def __init__(self) -> None:
        self.oldest = ""
        """Id of the oldest entry that the stream must keep."""
        self._written: deque[tuple[str, int]] = deque()
        """Ids and sizes in bytes of the entries that the stream must keep."""
        self._size = 0
        self._due: list[dict[bytes, bytes]] = []
        self._pieces: list[bytes] = []
        self._held = 0
        self._desk = ""
        self._number = 0

    def put(self, desk: str, message: bytes) -> None:
        """Add a message to the last entry, if this entry is for the same desk and not too large.

        Otherwise begin a new entry.
        """
        if self._pieces and (desk != self._desk or self._held + len(message) > MAX_ENTRY_BYTES):
            self._finish()
        self._desk = desk
        self._pieces.append(message)
        self._held += len(message)

    def add(self, desk: str, fields: dict[bytes, bytes]) -> None:
        """Add an entry for one desk."""
        self._finish()
        self._due.append(fields | {DESK: desk.encode()})

    def drain(self) -> Iterator[dict[bytes, bytes]]:
        """Remove the entries that must be written, and yield them with their numbers."""
        self._finish()
        entries, self._due = self._due, []
        for fields in entries:
            self._number += 1
            yield fields | {NUMBER: b"%d" % self._number}

    def note_written(self, identifier: str, fields: dict[bytes, bytes]) -> None:
        """Record that an entry was written, and update `oldest`."""
        size = sum(map(len, fields.values()))
        self._written.append((identifier, size))
        self._size += size
        while self._size > MAX_STREAM_BYTES and len(self._written) > 1:
            self._size -= self._written.popleft()[1]
        self.oldest = self._written[0][0]

    def _finish(self) -> None:
        if self._pieces:
            fields = {MESSAGES: b"".join(self._pieces)}
            self._due.append(fields | {DESK: self._desk.encode()} if self._desk else fields)
            self._pieces, self._held = [], 0
