"""HTTP sessions of the revisions with a handshake.

Each has a secret id, a limited lifetime, and a stream for messages that belong to no request (the standing
stream).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from mcpdesk.auth.principal import OPEN, Principal
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
from mcpdesk.transports.http.sessions.session_records import SessionRecord, hash_id, seal

if TYPE_CHECKING:
    from mcpdesk.hosting.channel import HostedDialogue
    from mcpdesk.transports.http.site import Endpoint

ID_BYTES = 24
SWEEP_S = 5.0
"""Seconds between two searches for expired sessions."""
ABSENT_S = 5.0
"""Seconds without a connection after which calls that wait for a person or the client are ended.

A client that resumes a stream reconnects one or two seconds after it lost the connection.
"""
_TIMER_SLACK_S = 0.01
"""Seconds added to a timer of `ABSENT_S`, because the clock of the timer is not exact."""
RECORD_S = 0.25
"""Seconds between two writes of changed sessions."""
STREAMS_PER_PROCESS = 1_000_000
"""Number of stream numbers that one process may use in a session. The next process uses higher numbers."""
MAX_SEARCHED_SESSIONS = 1_000
"""Maximum number of sessions that are searched for an unused one. A new session replaces the unused one."""


class SessionStore:
    """Sessions outside of this process, where a client can continue them.

    This class has none: a session ends with the process. `StoredSessions` has them on disk, for the next
    process. `OtherProcesses` has them where all processes of a deployment serve them.
    """

    is_shared = False
    """True if several processes serve the sessions at the same time."""

    @property
    def has_unwritten(self) -> bool:
        """True if the end of a session must still be written."""
        return False

    async def join(
        self, identifier: str, endpoint: Endpoint, peer: str, caller: Principal
    ) -> HttpSession | None:
        """Return a session that this process serves from now on. Raises: StorageError.

        Return None if the session does not exist, or belongs to another server or caller.
        """
        return None

    async def publish(self, session: HttpSession) -> None:
        """Store a session after its handshake succeeded. Raises: StorageError."""

    async def write(self, session: HttpSession) -> None:
        """Store the changes of a session before the answer is sent. Raises: StorageError."""

    async def end(self, session: HttpSession) -> None:
        """End a session in all processes before the answer is sent. Raises: StorageError."""

    def write_changed(self, used_sessions: Iterable[HttpSession]) -> Iterable[HttpSession]:
        """Schedule a write of the sessions that have changed. `used_sessions` has those that were used.

        Return the sessions that must be examined again, even if they are not used again.
        """
        return ()

    def expire_soon(self, session: HttpSession) -> None:
        """Schedule the end of a shared session that is unused here, unless another process has used it."""

    def end_soon(self, session: HttpSession) -> None:
        """Schedule the end of a session in all processes."""

    def forget(self, session: HttpSession) -> None:
        """Stop serving a session in this process."""

    def forget_streams(self, session: HttpSession) -> None:
        """Delete the stored streams of a session that no process serves."""

    def push(self, session: HttpSession, message: bytes) -> None:
        """Send a message on the session's stream, to which the client is not connected in this process."""
        session.standing.put(message)

    def leave(self, sessions: Iterable[HttpSession]) -> None:
        """Leave the sessions for the next process. Later changes are not written."""

    async def wait_until_left(self) -> None:
        """Wait until `leave` has finished writing."""


ALONE = SessionStore()


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
        store: SessionStore = ALONE,
    ) -> None:
        """Create a session, or continue one.

        With `identifier`, continue the session of a process that has ended. `restarts` is the number of
        processes that served the session before. If the store is shared, the session may come from another
        process, and `restarts` is its block of numbers.
        """
        self.id = identifier or os.urandom(ID_BYTES).hex()
        self.unique_key = endpoint.unique_key
        self.restarts = restarts
        self.record: SessionRecord | None = None
        """State that was last read from or written to disk, or None."""
        self.server = endpoint.key
        """Server and mode of the session."""
        self.is_closed = False
        self.is_added = False
        """True once the handshake has succeeded and the session is in `HttpSessions`."""
        self.events = EventStore[EventStream](
            kept_bytes,
            MAX_EVENTS,
            event_budget or SharedEventBudget(kept_bytes),
            restarts % 1000 * STREAMS_PER_PROCESS,
        )
        self.standing = self.events.open()
        """Stream for messages that belong to no request."""
        self.block = restarts % 1000
        """Number of the block of stream numbers, see `STREAMS_PER_PROCESS`."""
        self.shared: SharedSession | None = None
        """State that processes share, or None if only this process serves the session."""
        self._store = store
        self.waiting: set[PostOutlet] = set()
        """Outlets of requests that are not answered yet."""
        self.touched = time.monotonic()
        """Monotonic time of the last use."""
        self._absence_start: float | None = None
        """Monotonic time when a check first found the client without a connection, or None."""
        self.owner = caller.identity
        """Identity of the owner, or "" until a caller with an identity uses the session."""
        is_connected = (lambda: self.standing.is_connected) if store.is_shared else None
        self.dialogue: HostedDialogue = endpoint.open("http", peer, self.push, caller, is_connected)

    def push(self, message: bytes) -> None:
        """Send a message that belongs to no request, on the standing stream of any process."""
        if self.standing.is_connected:
            self.standing.put(message)
        else:
            self._store.push(self, message)

    @property
    def is_unused(self) -> bool:
        """True if no call runs and no stream is open."""
        return self.dialogue.is_idle and not self.events.connected_streams

    @property
    def seen(self) -> float | None:
        """Unix time of the last activity of the client, or None while the client has a connection.

        A running call is no activity, because it may continue without its client. May be read on any thread.
        """
        has_connection = any(outlet.request.transport is not None for outlet in list(self.waiting))
        return None if has_connection or self.events.connected_streams else time.time() - self._unused_s

    @property
    def _unused_s(self) -> float:
        return time.monotonic() - self.touched

    def is_for(self, caller: Principal) -> bool:
        """Return True if a caller may use the session. The first caller with a token becomes its owner."""
        if not self.owner and caller.identity:
            self.owner = caller.identity
            self.dialogue.identify(caller)
        return self.owner == caller.identity

    def remaining_s(self, ttl_s: float) -> float | None:
        """Return the seconds until the session expires, or None while a call or stream is open."""
        return ttl_s - self._unused_s if self.is_unused else None

    def touch(self) -> None:
        """Set the time of last use to now."""
        self.touched = time.monotonic()

    def answered(self, outlet: PostOutlet) -> None:
        """Remove the outlet of an answered request. If it is connected, the session counts as used."""
        self.waiting.discard(outlet)
        if outlet.request.transport is not None:
            self.touch()

    def current_record(self, key: str) -> SessionRecord:
        """Return the present state for the disk. `key` is the API key or empty."""
        used = time.time() - (self._unused_s if self.is_unused else 0.0)
        owner = seal(self.id, self.owner, key)
        return SessionRecord(
            hash_id(self.id), used, self.unique_key, owner, self.restarts, self.dialogue.state
        )

    def connection_lost(self) -> None:
        """Handle the loss of a connection of the client.

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
        self._absence_start = now = time.monotonic()
        due = now + self._absent_s
        asyncio.get_running_loop().call_later(
            due - now + _TIMER_SLACK_S, self.end_disconnected, due + _TIMER_SLACK_S
        )

    @property
    def _absent_s(self) -> float:
        """Seconds within which the client must return."""
        return max([ABSENT_S, *(2 * outlet.retry_s for outlet in self.waiting)])

    def end_disconnected(self, now: float) -> None:
        """End calls that wait for a person or the client, if the client was disconnected for `ABSENT_S`.

        A session that other processes also serve is skipped, because the client may be connected to one of
        them. `now` is the monotonic time.
        """
        if self.shared is not None or self.seen is None or not self.dialogue.awaits_answer:
            self._absence_start = None
        elif self._absence_start is None or self.touched > self._absence_start:
            self._absence_start = now
        elif now - self._absence_start >= self._absent_s:
            self.dialogue.end_awaiting()

    def close(self, reason: str) -> None:
        """End the session and all its calls."""
        self.is_closed = True
        self._store.forget_streams(self)
        self.events.close()
        self.dialogue.close(reason)


class HttpSessions:
    """All sessions of one listener. A session expires if it is unused for `ttl_s` seconds."""

    def __init__(
        self,
        ttl_s: float,
        max_sessions: int = 10_000,
        kept_bytes: int = MAX_SESSION_BYTES,
    ) -> None:
        self.ttl_s = ttl_s
        self.event_budget = SharedEventBudget(kept_bytes * TOTAL_FACTOR)
        self._kept_bytes = kept_bytes
        self._max_sessions = max_sessions
        self.store = ALONE
        """Sessions on disk or of other processes. Set it before the first session begins."""
        self.is_leaving = False
        """True if this process is ending. Other processes then continue the sessions of this process."""
        self._sessions: OrderedDict[str, HttpSession] = OrderedDict()
        """Sessions by id. The one used last is at the end."""
        self._used_sessions: dict[str, HttpSession] = {}
        """Sessions by id that may have changed since they were written."""
        self._next_sweep = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, endpoint: Endpoint, peer: str, caller: Principal = OPEN) -> HttpSession:
        """Create a session for a handshake. If the handshake succeeds, pass the session to `add`."""
        return self.make(endpoint, peer, caller)

    def make(
        self, endpoint: Endpoint, peer: str, caller: Principal, identifier: str = "", block: int = 0
    ) -> HttpSession:
        """Create a session. With an `identifier`, continue an existing session. `add` stores the session."""
        budget, store = self.event_budget, self.store
        session = HttpSession(endpoint, peer, self._kept_bytes, budget, caller, identifier, block, store)
        if self.is_leaving:
            session.events.leave()
        return session

    def get(self, identifier: str, server: str, caller: Principal = OPEN) -> HttpSession | None:
        """Return the session with that id, or None if it does not belong to that server and caller."""
        session = self._sessions.get(identifier)
        if session is None or session.server != server or not session.is_for(caller):
            return None
        self._sessions.move_to_end(identifier)
        self._used_sessions[identifier] = session
        session.touch()
        return session

    def has(self, identifier: str) -> bool:
        """Return True if this process serves a session with that id, to any caller."""
        return identifier in self._sessions

    def by_connection(self) -> dict[int, HttpSession]:
        """Return all sessions by connection number. May be called on any thread."""
        return {each.dialogue.connection: each for each in list(self._sessions.values())}

    def has_room(self) -> bool:
        """Return True if another session may begin. The new session may replace an unused one."""
        return len(self._sessions) < self._max_sessions or self._unused() is not None

    def _unused(self) -> HttpSession | None:
        """Return the oldest unused session that a limited search finds. Searching all would take too long."""
        oldest = islice(self._sessions.values(), MAX_SEARCHED_SESSIONS)
        return next((session for session in oldest if session.is_unused), None)

    def add(self, session: HttpSession) -> None:
        """Add a session after its handshake succeeded. If there are too many, remove an unused one."""
        if len(self._sessions) >= self._max_sessions:
            self._leave_or_end(self._unused() or next(iter(self._sessions.values())), "too many sessions")
        self._sessions[session.id] = self._used_sessions[session.id] = session
        session.is_added = True
        session.events.sends_priming_event = session.dialogue.revision == PRIMING_REVISION
        self.start_timer()

    def end(self, session: HttpSession, reason: str) -> None:
        """Remove and close a session in all processes."""
        self._forget(session)
        self.store.end_soon(session)
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

    def _leave_or_end(self, session: HttpSession, reason: str) -> None:
        """Remove a session from this process. It ends unless other processes serve it."""
        if session.shared is not None:
            self.drop(session)
        else:
            self.end(session, reason)

    def _forget(self, session: HttpSession) -> None:
        self._used_sessions.pop(session.id, None)
        self._sessions.pop(session.id, None)
        self.store.forget(session)

    def leave(self) -> None:
        """Keep the sessions for the next process. Later changes are not written."""
        self.store.leave(self._sessions.values())

    async def wait_until_left(self) -> None:
        """Wait until `leave` and `close` have finished writing."""
        await self.store.wait_until_left()

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
            self._leave_or_end(session, "the server stops")
        if self._timer is not None:
            self._timer.cancel()

    def start_timer(self) -> None:
        """Start the timer that writes changes and ends unused sessions, unless it is running."""
        if self._timer is None:
            self._tick()

    def _tick(self) -> None:
        now, loop = time.monotonic(), asyncio.get_running_loop()
        if now >= self._next_sweep:
            self._next_sweep = now + SWEEP_S
            self._sweep(now - self.ttl_s)
        used_sessions, self._used_sessions = self._used_sessions, {}
        again = self.store.write_changed(used_sessions.values())
        self._used_sessions |= {session.id: session for session in again}
        is_needed = self._sessions or self.store.has_unwritten
        self._timer = loop.call_later(min(RECORD_S, SWEEP_S), self._tick) if is_needed else None

    def _sweep(self, oldest_use: float) -> None:
        now = time.monotonic()
        for session in list(self._sessions.values()):
            session.end_disconnected(now)
            if not session.is_unused:
                self._used_sessions[session.id] = session
            elif session.touched < oldest_use:
                if session.shared is not None:
                    self.store.expire_soon(session)
                else:
                    self.end(session, "the session expired")
