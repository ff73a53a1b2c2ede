"""HTTP sessions of the handshake era: unguessable ids, a lifetime, one standing stream each."""

from __future__ import annotations

import asyncio
import os
import time
from collections import OrderedDict
from itertools import islice

from mcpdesk.auth.principal import OPEN, Principal
from mcpdesk.transports.base import Dialogue, Endpoint
from mcpdesk.transports.http.resumption import EventStore, Shelf

ID_BYTES = 24
KEPT_EVENTS = 1000
KEPT_BYTES = 1 << 20
"""What one session keeps of its streams for clients whose connection breaks; the oldest go first."""
PRIMED = "2025-11-25"
"""The revision whose clients understand an event without data."""
SWEEP_S = 5.0
LOOKED_AT = 1_000
"""Sessions that are looked at for one that makes room."""
SHARES = 64
"""All sessions together keep so many times what one may."""


class Session:
    """One session: its dialogue, and the stream for messages that belong to no request."""

    def __init__(
        self,
        endpoint: Endpoint,
        peer: str,
        kept_bytes: int = KEPT_BYTES,
        shelf: Shelf | None = None,
        caller: Principal = OPEN,
    ) -> None:
        self.id = os.urandom(ID_BYTES).hex()
        self.server = endpoint.key
        """And the mode: a session belongs to what it was begun with."""
        self.is_kept = self.is_closed = False
        self.events = EventStore(kept_bytes, KEPT_EVENTS, shelf or Shelf(kept_bytes))
        self.standing = self.events.open()
        self.touched = time.monotonic()
        self.owner = caller.identity
        """The identity whose it is; empty until somebody has one."""
        self.dialogue: Dialogue = endpoint.open("http", peer, self.standing.put, caller)

    @property
    def is_unused(self) -> bool:
        """Whether no call and no stream is open."""
        return self.dialogue.is_idle and not self.events.carried

    def is_for(self, caller: Principal) -> bool:
        """Whether a caller may use it. One that nobody owns is whose token comes first."""
        if not self.owner and caller.identity:
            self.owner = caller.identity
            self.dialogue.identify(caller)
        return self.owner == caller.identity

    def left_s(self, ttl_s: float) -> float | None:
        """Seconds until it ends unless it is used; None while a call or a stream keeps it."""
        return ttl_s - (time.monotonic() - self.touched) if self.is_unused else None

    def touch(self) -> None:
        """It is in use."""
        self.touched = time.monotonic()

    def close(self, reason: str) -> None:
        """End the session and everything it runs."""
        self.is_closed = True
        self.events.close()
        self.dialogue.close(reason)


class Sessions:
    """All sessions of one listener. One unused for `ttl_s` seconds ends, unless a call or stream is open."""

    def __init__(self, ttl_s: float, most: int = 10_000, kept_bytes: int = KEPT_BYTES) -> None:
        self.ttl_s = ttl_s
        self.shelf = Shelf(kept_bytes * SHARES)
        self._kept_bytes = kept_bytes
        self._most = most
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        """The one used last comes last."""
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, endpoint: Endpoint, peer: str, caller: Principal = OPEN) -> Session:
        """A session whose handshake comes next; `keep` it when that succeeded."""
        return Session(endpoint, peer, self._kept_bytes, self.shelf, caller)

    def get(self, identifier: str, server: str, caller: Principal = OPEN) -> Session | None:
        """The live session of that id, if it belongs to that server and that caller."""
        session = self._sessions.get(identifier)
        if session is None or session.server != server or not session.is_for(caller):
            return None
        self._sessions.move_to_end(identifier)
        session.touch()
        return session

    def of(self, connection: int) -> Session | None:
        """The session behind a connection of the recorder's."""
        # Asked by other threads, too.
        every = list(self._sessions.values())
        return next((each for each in every if each.dialogue.connection == connection), None)

    def has_room(self) -> bool:
        """Whether another session may begin, if need be in place of one nobody uses now."""
        return len(self._sessions) < self._most or self._unused() is not None

    def _unused(self) -> Session | None:
        """The longest unused session; not looked for among all of them, as a new one must not take long."""
        oldest = islice(self._sessions.values(), LOOKED_AT)
        return next((session for session in oldest if session.is_unused), None)

    def keep(self, session: Session) -> None:
        """Remember a session whose handshake succeeded; the longest unused one makes room if need be."""
        if len(self._sessions) >= self._most:
            unused = self._unused() or next(iter(self._sessions.values()))
            self.end(unused, "too many sessions")
        self._sessions[session.id] = session
        session.is_kept = True
        session.events.primes = session.dialogue.revision == PRIMED
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    def end(self, session: Session, reason: str) -> None:
        """Forget and close a session."""
        self.forget(session)
        session.close(reason)

    def forget(self, session: Session) -> None:
        """Nobody finds it any more. To be closed by who says so."""
        self._sessions.pop(session.id, None)

    def close(self) -> None:
        """End them all."""
        for session in list(self._sessions.values()):
            self.end(session, "the server stops")
        if self._timer is not None:
            self._timer.cancel()

    def _sweep(self) -> None:
        before = time.monotonic() - self.ttl_s
        for session in list(self._sessions.values()):
            if session.touched < before and session.is_unused:
                self.end(session, "the session expired")
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(SWEEP_S, self._sweep) if self._sessions else None
