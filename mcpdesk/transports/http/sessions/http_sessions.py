"""HTTP sessions of the revisions with a handshake.

Each has a secret id, a limited lifetime, and a stream for messages that belong to no request (the standing
stream).
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mcpdesk.auth.principal import OPEN, Principal
from mcpdesk.errors import ProtocolError, StorageError
from mcpdesk.protocol.event_store import (
    MAX_EVENTS,
    MAX_SESSION_BYTES,
    PRIMING_REVISION,
    TOTAL_FACTOR,
    EventStore,
    SharedEventBudget,
)
from mcpdesk.transports.base import SharedSession
from mcpdesk.transports.http.event_stream import EventStream, PostOutlet
from mcpdesk.transports.http.sessions.session_records import SessionRecord, SessionRecords, hashed, seal

if TYPE_CHECKING:
    from asyncio import Future
    from concurrent.futures import Future as ThreadFuture

    from mcpdesk.hosting.channel import HostedDialogue
    from mcpdesk.transports.http.site import Endpoint

ID_BYTES = 24
_ID = re.compile(rf"[0-9a-f]{{{2 * ID_BYTES}}}")
SWEEP_S = 5.0
"""Seconds between two searches for expired sessions."""
ABSENT_S = 5.0
"""Seconds without a connection after which calls that wait for a person or the client are ended.

A client that resumes a stream reconnects one or two seconds after it lost the connection.
"""
_TIMER_SLACK_S = 0.01
"""Seconds added to a timer of `ABSENT_S`, because the clock of the timer is not exact."""
RECORD_S = 0.25
"""Seconds between two writes of changed sessions to disk."""
MAX_STORED_AGE_S = 60.0
"""Maximum age in seconds of the stored time of last use. For a short-lived session, a tenth of its lifetime
is used instead.
"""
STREAMS_PER_PROCESS = 1_000_000
"""Number of stream numbers that one process may use in a session. The next process uses higher numbers."""
MAX_RESUMING = 256
"""Maximum number of requests that look for their sessions on disk at the same time."""
MAX_SEARCHED_SESSIONS = 1_000
"""Maximum number of sessions that are searched for an unused one. A new session replaces the unused one."""


class SessionSharing(ABC):
    """Operations on sessions that several processes serve."""

    @abstractmethod
    def push(self, session: HttpSession, message: bytes) -> None:
        """Send a message on the session's stream. Another process has the connection."""

    @abstractmethod
    def is_changed(self, session: HttpSession) -> bool:
        """Return True if a session must be written."""

    @abstractmethod
    def write_soon(self, session: HttpSession) -> None:
        """Schedule a write of a session."""

    @abstractmethod
    def expire_soon(self, session: HttpSession) -> None:
        """Schedule the end of a session that was not used in this process for long, unless another process
        used it.
        """

    @abstractmethod
    def end_soon(self, session: HttpSession) -> None:
        """Schedule the end of a session in all processes."""

    @abstractmethod
    def forget(self, session: HttpSession) -> None:
        """Stop serving a session in this process."""

    @abstractmethod
    def forget_streams(self, session: HttpSession) -> None:
        """Delete the stored streams of a session that no process serves any longer."""


class HttpSession:
    """One session: its dialogue, and the stream for messages that belong to no request."""

    def __init__(
        self,
        endpoint: Endpoint,
        peer: str,
        kept_bytes: int = MAX_SESSION_BYTES,
        event_budget: SharedEventBudget | None = None,
        caller: Principal = OPEN,
        identifier: str = "",
        restarts: int = 0,
        sharing: SessionSharing | None = None,
    ) -> None:
        """Create a session, or continue one.

        With `identifier`, continue the session of a process that has ended. `restarts` is the number of
        processes that served the session before. With `sharing`, the session may come from another process,
        and `restarts` is its block of numbers.
        """
        self.id = identifier or os.urandom(ID_BYTES).hex()
        self.unique_key = endpoint.unique_key
        self.restarts = restarts
        self.record: SessionRecord | None = None
        """State that was last read from or written to disk, or None."""
        self.server = endpoint.key
        """Server and mode of the session."""
        self.is_kept = self.is_closed = False
        self.events = EventStore[EventStream](
            kept_bytes,
            MAX_EVENTS,
            event_budget or SharedEventBudget(kept_bytes),
            restarts % 1000 * STREAMS_PER_PROCESS,
        )
        self.standing = self.events.open()
        self.block = restarts % 1000
        """Number of the block of stream numbers, see `STREAMS_PER_PROCESS`."""
        self.shared: SharedSession | None = None
        """State that processes share, or None if only this process serves the session."""
        self._sharing = sharing
        self.waiting: set[PostOutlet] = set()
        """Outlets of requests that are not answered yet."""
        self.touched = time.monotonic()
        """Monotonic time of the last use."""
        self._absent_since: float | None = None
        """Monotonic time when a check first found the client without a connection, or None."""
        self.owner = caller.identity
        """Identity of the owner, or "" until a caller with an identity uses the session."""
        is_connected = None if sharing is None else lambda: self.standing.is_connected
        self.dialogue: HostedDialogue = endpoint.open("http", peer, self.push, caller, is_connected)

    def push(self, message: bytes) -> None:
        """Send a message that belongs to no request, on the standing stream of any process."""
        if self._sharing is None or self.standing.is_connected:
            self.standing.put(message)
        else:
            self._sharing.push(self, message)

    @property
    def is_unused(self) -> bool:
        """True if no call runs and no stream is open."""
        return self.dialogue.is_idle and not self.events.connected_streams

    @property
    def seen(self) -> float | None:
        """Unix time of the last activity of the client, or None while the client has a connection.

        A running call is no activity, because it may continue without its client. May be read on any thread.
        """
        is_there = any(outlet.request.transport is not None for outlet in list(self.waiting))
        return None if is_there or self.events.connected_streams else time.time() - self._unused_s

    @property
    def _unused_s(self) -> float:
        return time.monotonic() - self.touched

    def is_for(self, caller: Principal) -> bool:
        """Return True if a caller may use the session. The first caller with a token becomes its owner."""
        if not self.owner and caller.identity:
            self.owner = caller.identity
            self.dialogue.identify(caller)
        return self.owner == caller.identity

    def left_s(self, ttl_s: float) -> float | None:
        """Return the seconds until the session expires, or None while a call or stream is open."""
        return ttl_s - self._unused_s if self.is_unused else None

    def touch(self) -> None:
        """Set the time of last use to now."""
        self.touched = time.monotonic()

    def answered(self, outlet: PostOutlet) -> None:
        """Remove the outlet of an answered request. If the outlet is connected, the session counts as
        used.
        """
        self.waiting.discard(outlet)
        if outlet.request.transport is not None:
            self.touch()

    def current_record(self, key: str) -> SessionRecord:
        """Return the present state for the disk. `key` is the API key or empty."""
        used = time.time() - (self._unused_s if self.is_unused else 0.0)
        owner = seal(self.id, self.owner, key)
        return SessionRecord(
            hashed(self.id), used, self.unique_key, owner, self.restarts, self.dialogue.state
        )

    def connection_lost(self) -> None:
        """Note that a connection of the client was lost.

        If it was the last connection, calls that wait for a person or the client must end. They end at once
        if the client cannot resume its streams, else after `ABSENT_S` seconds. If several processes serve the
        session, the calls continue, because the client may resume a stream at another process.
        """
        if self.seen is None or not self.dialogue.awaits_answer:
            return
        if not any(outlet.is_resumable for outlet in self.waiting):
            self.dialogue.end_awaiting()
            return
        if self.shared is not None:
            return
        self._absent_since = now = time.monotonic()
        due = now + self._absent_s
        asyncio.get_running_loop().call_later(
            due - now + _TIMER_SLACK_S, self.end_disconnected, due + _TIMER_SLACK_S
        )

    @property
    def _absent_s(self) -> float:
        """Seconds within which the client must return."""
        return max([ABSENT_S, *(2 * outlet.retry_s for outlet in self.waiting)])

    def end_disconnected(self, now: float) -> None:
        """End calls that wait for a person or the client, if the client has had no connection for `ABSENT_S`
        seconds.

        Sessions that other processes serve, too, are skipped, because the client may be connected to one of
        them.
        """
        if self.shared is not None or self.seen is None or not self.dialogue.awaits_answer:
            self._absent_since = None
        elif self._absent_since is None or self.touched > self._absent_since:
            self._absent_since = now
        elif now - self._absent_since >= self._absent_s:
            self.dialogue.end_awaiting()

    def close(self, reason: str) -> None:
        """End the session and all its calls."""
        self.is_closed = True
        if self._sharing is not None:
            self._sharing.forget_streams(self)
        self.events.close()
        self.dialogue.close(reason)


class HttpSessions:
    """All sessions of one listener. A session expires if it is unused for `ttl_s` seconds."""

    def __init__(
        self,
        ttl_s: float,
        most: int = 10_000,
        kept_bytes: int = MAX_SESSION_BYTES,
        records: SessionRecords | None = None,
        key: Callable[[], str] = str,
    ) -> None:
        """`records` stores sessions on disk. `key` returns the API key or an empty string."""
        self.ttl_s = ttl_s
        self.event_budget = SharedEventBudget(kept_bytes * TOTAL_FACTOR)
        self._kept_bytes = kept_bytes
        self._most = most
        self._records = records
        self._key = key
        self.sharing: SessionSharing | None = None
        """Operations of the other processes that serve the sessions, or None. If it is set, no session is
        stored on disk.
        """
        self.is_leaving = False
        """True if this process is ending. Other processes then continue the sessions of this process."""
        self._sessions: OrderedDict[str, HttpSession] = OrderedDict()
        """Sessions by id. The one used last is at the end."""
        self._used: dict[str, HttpSession] = {}
        """Sessions by id that may have changed since they were written."""
        self._ended: list[str] = []
        """Hashes of the ids of stored sessions that have ended and must be deleted."""
        # The threads start at first use. Looking for a session does not wait for a write.
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="sessions-writer")
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="sessions-reader")
        self._leaving: ThreadFuture[None] | None = None
        self._resuming: dict[str, asyncio.Task[HttpSession | None]] = {}
        """Tasks that look for sessions on disk, by session id."""
        self._writing: Future[None] | None = None
        self._next_sweep = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, endpoint: Endpoint, peer: str, caller: Principal = OPEN) -> HttpSession:
        """Create a session for a handshake. If the handshake succeeds, the caller passes the session to
        `add`.
        """
        return self.make(endpoint, peer, caller)

    def make(
        self, endpoint: Endpoint, peer: str, caller: Principal, identifier: str = "", block: int = 0
    ) -> HttpSession:
        """Create a session. With an `identifier`, continue an existing session. `add` stores the session."""
        budget, sharing = self.event_budget, self.sharing
        session = HttpSession(endpoint, peer, self._kept_bytes, budget, caller, identifier, block, sharing)
        if self.is_leaving:
            session.events.leave()
        return session

    def get(self, identifier: str, server: str, caller: Principal = OPEN) -> HttpSession | None:
        """Return the session with that id, or None if it does not belong to that server and caller."""
        session = self._sessions.get(identifier)
        if session is None or session.server != server or not session.is_for(caller):
            return None
        self._sessions.move_to_end(identifier)
        self._used[identifier] = session
        session.touch()
        return session

    async def resume(
        self, identifier: str, endpoint: Endpoint, peer: str, caller: Principal
    ) -> HttpSession | None:
        """Continue a session of a process that has ended. Return the session, or None if it does not belong
        to that server and caller.

        Raises: StorageError while another process locks the file, or if too many requests look for their
        sessions at the same time.
        """
        resuming = self._resuming.get(identifier)
        if resuming is not None:  # an earlier request of the client is looking for the session
            await asyncio.wait({resuming})
            if not resuming.cancelled() and (failure := resuming.exception()) is not None:
                raise failure  # the session is still on disk
            return self.get(identifier, endpoint.key, caller)
        if len(self._resuming) >= MAX_RESUMING:
            raise StorageError(f"{MAX_RESUMING} sessions are already being looked up on disk")
        # Shielded: if the client disconnects, the session must not be taken over and then lost.
        resuming = asyncio.create_task(self._resume(identifier, endpoint, peer, caller))
        self._resuming[identifier] = resuming
        resuming.add_done_callback(lambda done: self._resumed(identifier, done))
        return await asyncio.shield(resuming)

    def _resumed(self, identifier: str, done: asyncio.Task[HttpSession | None]) -> None:
        del self._resuming[identifier]
        if not done.cancelled():
            done.exception()  # marks the exception as retrieved

    async def _resume(
        self, identifier: str, endpoint: Endpoint, peer: str, caller: Principal
    ) -> HttpSession | None:
        records = self._records
        if records is None or not _ID.fullmatch(identifier) or not self.has_room():
            return None
        if identifier in self._sessions:  # another caller owns the session
            return None
        # The first caller with a token becomes the owner of a session without an owner.
        owners = [seal(identifier, each, self._key()) for each in (caller.identity, "")]
        loop, wanted = asyncio.get_running_loop(), (hashed(identifier), endpoint.unique_key, owners)
        if not await loop.run_in_executor(self._reader, records.may_have, *wanted):
            return None
        record = await loop.run_in_executor(self._writer, records.claim, *wanted)
        if record is None or self._records is None:
            return None
        session = HttpSession(
            endpoint, peer, self._kept_bytes, self.event_budget, caller, identifier, record.restarts
        )
        session.record = record
        try:
            session.dialogue.restore(record.state)
        except ProtocolError:
            session.close("the session is no longer served")
            self._ended.append(record.id)
            if self._timer is None:
                self._tick()
            return None
        self.add(session)
        return session

    def by_connection(self) -> dict[int, HttpSession]:
        """Return all sessions by connection number. May be called on any thread."""
        return {each.dialogue.connection: each for each in list(self._sessions.values())}

    def has_room(self) -> bool:
        """Return True if another session may begin. The new session may replace an unused one."""
        return len(self._sessions) < self._most or self._unused() is not None

    def _unused(self) -> HttpSession | None:
        """Return the oldest unused session that a limited search finds. Searching all would take too long."""
        oldest = islice(self._sessions.values(), MAX_SEARCHED_SESSIONS)
        return next((session for session in oldest if session.is_unused), None)

    def add(self, session: HttpSession) -> None:
        """Add a session after its handshake succeeded. If there are too many, remove an unused one."""
        if len(self._sessions) >= self._most:
            unused = self._unused() or next(iter(self._sessions.values()))
            if unused.shared is not None:
                self.drop(unused)
            else:
                self.end(unused, "too many sessions")
        self._sessions[session.id] = self._used[session.id] = session
        session.is_kept = True
        session.events.sends_priming_event = session.dialogue.revision == PRIMING_REVISION
        if self._timer is None:
            self._tick()

    def end(self, session: HttpSession, reason: str) -> None:
        """Remove and close a session in all processes."""
        if self._forget(session) and session.record is not None:
            self._ended.append(session.record.id)
        if self.sharing is not None:
            self.sharing.end_soon(session)
        session.close(reason)

    def close_copy(self, session: HttpSession, reason: str) -> None:
        """Remove and close a session that another process has ended."""
        self._forget(session)
        session.close(reason)

    def drop(self, session: HttpSession) -> None:
        """Remove a session that another process continues."""
        self._forget(session)
        session.is_closed = True
        session.events.close()
        session.dialogue.leave()

    def _forget(self, session: HttpSession) -> bool:
        self._used.pop(session.id, None)
        if self.sharing is not None:
            self.sharing.forget(session)
        return self._sessions.pop(session.id, None) is not None

    def leave(self) -> None:
        """Keep the sessions for the next process. Later changes are not written."""
        records, self._records = self._records, None
        if records is not None:
            left = [session.current_record(self._key()) for session in self._sessions.values()]
            self._leaving = self._writer.submit(records.close, left, self._ended)

    async def left(self) -> None:
        """Wait until `leave` and `close` have finished writing."""
        if self._leaving is not None:
            await asyncio.wrap_future(self._leaving)
        self._writer.shutdown(wait=False)
        self._reader.shutdown(wait=False)

    def release_streams(self) -> None:
        """End the connections of standing streams, so that clients reconnect to another process.

        Streams that are opened here later end at once. If sessions are shared, events are written to the
        store from now on.
        """
        self.is_leaving = True
        for session in list(self._sessions.values()):
            session.events.leave()
            session.standing.release()

    def close(self) -> None:
        """End all sessions in this process."""
        self.leave()
        for session in list(self._sessions.values()):
            if session.shared is not None:
                self.drop(session)
            else:
                self.end(session, "the server stops")
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        now, loop = time.monotonic(), asyncio.get_running_loop()
        if now >= self._next_sweep:
            self._next_sweep = now + SWEEP_S
            self._sweep(now - self.ttl_s)
        if self.sharing is not None:
            used, self._used = self._used, {}
            for session in used.values():
                if self.sharing.is_changed(session):
                    self.sharing.write_soon(session)
        elif self._records is None:
            self._used.clear()
            self._ended.clear()
        elif self._writing is None or self._writing.done():
            changed, ended = self._changed(), self._ended
            self._ended = []
            if changed or ended:
                self._writing = loop.run_in_executor(self._writer, self._records.write, changed, ended)
        is_needed = self._sessions or self._ended
        self._timer = loop.call_later(min(RECORD_S, SWEEP_S), self._tick) if is_needed else None

    def _sweep(self, before: float) -> None:
        now = time.monotonic()
        for session in list(self._sessions.values()):
            session.end_disconnected(now)
            if not session.is_unused:
                self._used[session.id] = session
            elif session.touched < before:
                if self.sharing is not None and session.shared is not None:
                    self.sharing.expire_soon(session)
                else:
                    self.end(session, "the session expired")

    def _changed(self) -> list[SessionRecord]:
        """Return records of sessions that were used and differ from what is on disk."""
        used, self._used = self._used, {}
        changed = []
        for session in used.values():
            if not session.dialogue.is_idle:  # a running call can change the session without another request
                self._used[session.id] = session
            known, record = session.record, session.current_record(self._key())
            stale = record.used - min(MAX_STORED_AGE_S, self.ttl_s / 10)
            if known is None or known.used < stale or replace(known, used=record.used) != record:
                session.record = record
                changed.append(record)
        return changed
