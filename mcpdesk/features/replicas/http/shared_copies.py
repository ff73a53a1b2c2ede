"""Local copies of the sessions that all replicas share.

The first request of a session on this replica creates the copy. When a client changes a session, the change
is written to the engine before the client gets the response. Other replicas report their changes over the
event bus. Requests that do not change a session do not access the engine.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mcpdesk.auth.principal import Principal
from mcpdesk.errors import ProtocolError, StorageError
from mcpdesk.features.replicas.group.replica_group import ReplicaGroup
from mcpdesk.protocol import codec
from mcpdesk.protocol.event_store import BusPosition
from mcpdesk.protocol.handshake import SessionState
from mcpdesk.protocol.outlet import NULL_OUTLET
from mcpdesk.transports.base import SharedSession
from mcpdesk.transports.http.other_processes import OtherProcesses
from mcpdesk.transports.http.sessions.http_sessions import STREAMS_PER_PROCESS, HttpSession, HttpSessions
from mcpdesk.transports.http.sessions.session_records import hash_id, seal

if TYPE_CHECKING:
    from mcpdesk.transports.http.site import Endpoint

RELAYED_KINDS = frozenset({"list-changed", "resource-updated", "log"})
REREAD_DELAY_S = 0.5
"""Seconds between two attempts to read a session that another replica has changed."""
MAX_BLOCKS = 1000
"""Number of blocks of request numbers in a session. After the last block, the first is used again."""

log = logging.getLogger(__name__)


class SharedCopies(OtherProcesses):
    """Copies of the sessions of one listener."""

    def __init__(self, sessions: HttpSessions, replicas: ReplicaGroup, api_key: Callable[[], str]) -> None:
        """`api_key` returns the API key of callers. Owners of sessions are sealed with it."""
        self.mark = replicas.id
        self._sessions, self._replicas, self._api_key = sessions, replicas, api_key
        self._copies: dict[str, HttpSession] = {}
        """Copies by the hashes of their session ids."""
        self._chores: set[asyncio.Task[None]] = set()
        replicas.sessions.listen(self._on_session_event)

    async def publish(self, session: HttpSession) -> None:
        """Write a session after its handshake succeeded. Raises: StorageError."""
        session.dialogue.number_requests(secrets.token_hex(8), 1)
        state, used_at = session.dialogue.state, self._replicas.clock()
        owner = seal(session.id, session.owner, self._api_key())
        shared = SharedSession(hash_id(session.id), session.server, owner, used_at, state, 0)
        self._register(session, await self._replicas.sessions.write(shared, state))

    async def join(
        self, identifier: str, endpoint: Endpoint, peer: str, caller: Principal
    ) -> HttpSession | None:
        """Create a copy of a session if the session belongs to this server and caller.

        Raises: StorageError.
        """
        # The first caller with a token becomes the owner of a session without an owner.
        owners = [seal(identifier, each, self._api_key()) for each in (caller.identity, "")]
        shared = await self._replicas.sessions.join(hash_id(identifier), endpoint.key, owners)
        if shared is None:
            return None
        if (copy := self._copies.get(shared.id)) is not None:
            return copy if copy.is_for(caller) else None  # the copy was created in the meantime
        session = self._sessions.make(endpoint, peer, caller, identifier, shared.block % MAX_BLOCKS)
        self._register(session, shared)
        try:
            session.dialogue.restore(shared.state)
        except ProtocolError:
            session.close("the session is no longer served")
            return None
        session.dialogue.number_requests(
            shared.state.mark, shared.block % MAX_BLOCKS * STREAMS_PER_PROCESS + 1
        )
        self._sessions.add(session)
        return session

    async def write(self, session: HttpSession) -> None:
        """Write the changes of a session. Raises: StorageError."""
        base = session.shared
        assert base is not None
        owner = seal(session.id, session.owner, self._api_key())
        changed = replace(base, state=session.dialogue.state, owner=owner, used=self._replicas.clock())
        stored = await self._replicas.sessions.write(changed, base.state)
        if stored is None:
            self._sessions.drop(session)
            raise StorageError("the session was ended on another machine")
        session.dialogue.catch_up(stored.state)
        session.shared = stored

    def write_changed(self, used_sessions: Iterable[HttpSession]) -> Iterable[HttpSession]:
        """Schedule a write of each of these sessions that has changed.

        Return no sessions, because none must be examined again.
        """
        for session in used_sessions:
            if self._is_changed(session):
                self.start_chore(self._write_quietly(session))
        return ()

    def _is_changed(self, session: HttpSession) -> bool:
        """Return True if a session has changed since it was written, or was written long ago."""
        written = session.shared
        if written is None:
            return False
        if written.used < self._replicas.clock() - min(60.0, self._sessions.ttl_s / 10):
            return True
        owner = seal(session.id, session.owner, self._api_key())
        return session.dialogue.state != written.state or owner != written.owner

    async def end(self, session: HttpSession) -> None:
        """End a session on all replicas. Raises: StorageError."""
        if session.shared is not None:
            await self._replicas.sessions.end(session.shared.id)
            session.shared = None

    def end_soon(self, session: HttpSession) -> None:
        """Schedule the end of a session on all replicas."""
        if session.shared is not None:
            self.start_chore(self._end_quietly(session.shared.id))

    def expire_soon(self, session: HttpSession) -> None:
        """Schedule `expire` for a session that has not been used here for a long time."""
        self.start_chore(self.expire(session))

    async def expire(self, session: HttpSession) -> None:
        """End a session that has not been used here for a long time, unless another replica used it."""
        assert session.shared is not None
        try:
            stored = await self._replicas.sessions.read(session.shared.id)
        except StorageError:
            return
        if stored is None:
            self._sessions.drop(session)
            return
        remaining_s = stored.used + self._sessions.ttl_s - self._replicas.clock()
        if remaining_s <= 0:
            self._sessions.end(session, "the session expired")
        else:
            session.touched = time.monotonic() - self._sessions.ttl_s + remaining_s

    def forget(self, session: HttpSession) -> None:
        """Remove the copy of a session."""
        identifier = hash_id(session.id)
        if self._copies.get(identifier) is session:
            del self._copies[identifier]
            self._replicas.streams.disconnect(identifier)

    def forget_streams(self, session: HttpSession) -> None:
        """Delete the stored streams of a session that no replica serves."""
        if session.events.archive is not None:
            session.events.archive = None
            self._replicas.streams.remove_soon(hash_id(session.id), session.events.archived)

    def push(self, session: HttpSession, message: bytes) -> None:
        """Send a message to the replica that serves the session's stream now or later."""
        if session.shared is not None:
            self._replicas.sessions.publish("message", session.shared.id, message=message)

    def pass_on(self, session: HttpSession, message: Mapping[str, Any]) -> None:
        """Send a client's notification to the other replicas, because one of them may run its call."""
        if session.shared is not None:
            self._replicas.sessions.publish("said", session.shared.id, message=codec.encode(message))

    async def catch_up_on_stream(self, session: HttpSession, since: BusPosition | None) -> bool:
        """Send the missed events on a session's stream, which this replica serves from now on.

        `since` is the client's position on the event bus, or None if it is unknown. Return False if the
        missed events cannot be read.
        """
        assert session.shared is not None
        sessions, identifier = self._replicas.sessions, session.shared.id
        until = sessions.position
        sessions.publish("carried", identifier)
        try:
            await self._refresh(session)
            missed_events = await sessions.missed(identifier, since, until)
        except StorageError as error:
            log.info("the stream of a session cannot be resumed on this machine yet: %s", error)
            return False
        for kind, facts in missed_events:
            if kind in RELAYED_KINDS:
                session.dialogue.notify(kind, facts)
            elif facts.get("session") == identifier and facts.get("what") == "message":
                session.standing.put(facts["message"])
        session.events.bus_position = lambda: sessions.position
        return True

    async def note_position(self, session: HttpSession) -> None:
        """Record that the client of a session has received all events so far."""
        if session.shared is not None:
            try:
                await self._replicas.sessions.note_position(session.shared.id)
            except StorageError as error:
                log.info("a client may receive some messages twice: %s", error)

    async def _end_quietly(self, identifier: str) -> None:
        try:
            await self._replicas.sessions.end(identifier)
        except StorageError as error:
            log.warning("a session that ended here can be used on other machines until it expires: %s", error)

    async def _write_quietly(self, session: HttpSession) -> None:
        try:
            if session.shared is not None and not session.is_closed:
                await self.write(session)
        except StorageError as error:
            log.info("a session will be written later: %s", error)

    def start_chore(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a background task."""
        chore = asyncio.get_running_loop().create_task(work)
        self._chores.add(chore)
        chore.add_done_callback(self._chores.discard)

    def _register(self, session: HttpSession, shared: SharedSession | None) -> None:
        """Add the copy of a session. Raises: StorageError if `shared` is None, because the session ended."""
        if shared is None:
            raise StorageError("the session was ended on another machine")
        session.shared = shared
        session.events.archive = partial(self._replicas.streams.write_soon, shared.id)
        self._copies[shared.id] = session

    def _on_session_event(self, kind: str, identifier: str, facts: Mapping[str, Any]) -> None:
        session = self._copies.get(identifier)
        if kind == "wanted":
            self._hand_over(session, identifier, facts)
        if session is None or session.shared is None:
            return
        if kind == "changed":
            self.start_chore(self._read_again(session))
        elif kind == "ended":
            self._sessions.close_copy(session, "the client ended the session")
        elif kind == "message" and session.standing.is_connected:
            session.standing.put(facts["message"])
        elif kind == "carried":
            session.standing.release()
        elif kind == "said":
            session.dialogue.accept_message(codec.decode(facts["message"]), NULL_OUTLET, {}, None)

    def _hand_over(self, session: HttpSession | None, identifier: str, facts: Mapping[str, Any]) -> None:
        """Write a stream to the engine and end it here, because its client reads it at another replica."""
        number, after = facts["stream"], facts["after"]
        stream_position = None if session is None else session.events.find(f"{number}:{after}")
        if stream_position is None:
            if facts["holder"] == self._replicas.id:
                self._replicas.streams.deny_soon(identifier, number, after)
            return
        stream, _ = stream_position
        stream.archived = -1  # all events are written again, because the engine may have lost data
        stream.release()
        stream.archive()

    async def _read_again(self, session: HttpSession) -> None:
        """Read the changes of another replica. Retry until the engine is available."""
        while not session.is_closed:
            try:
                return await self._refresh(session)
            except StorageError:
                await asyncio.sleep(REREAD_DELAY_S)

    async def _refresh(self, session: HttpSession) -> None:
        """Read the stored state of a session. Raises: StorageError."""
        local = session.shared
        assert local is not None
        stored = await self._replicas.sessions.read(local.id)
        if stored is not None and session.shared is local and stored.version > local.version:
            session.shared = replace(stored, block=local.block)
            state: SessionState = stored.state
            session.dialogue.catch_up(state)
