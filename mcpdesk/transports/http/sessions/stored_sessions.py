"""Sessions that continue after a restart, because their state is on disk.

Changes are written in the background. If the process is killed, those of the last moments are lost.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mcpdesk.auth.principal import Principal
from mcpdesk.errors import ProtocolError, StorageError
from mcpdesk.transports.http.sessions.http_sessions import ID_BYTES, HttpSession, HttpSessions, SessionStore
from mcpdesk.transports.http.sessions.session_records import SessionRecord, SessionRecords, hash_id, seal

if TYPE_CHECKING:
    from asyncio import Future
    from concurrent.futures import Future as ThreadFuture

    from mcpdesk.transports.http.site import Endpoint

_ID = re.compile(rf"[0-9a-f]{{{2 * ID_BYTES}}}")
MAX_STORED_AGE_S = 60.0
"""Maximum age in seconds of the stored time of last use. A tenth of a session's lifetime, if that is less."""
MAX_RESUMING = 256
"""Maximum number of requests that look for their sessions on disk at the same time."""


class StoredSessions(SessionStore):
    """Sessions of one listener on disk, and those of ended processes."""

    def __init__(self, sessions: HttpSessions, records: SessionRecords, key: Callable[[], str] = str) -> None:
        """`key` returns the API key or an empty string."""
        self._sessions, self._records, self._key = sessions, records, key
        self._ended_ids: list[str] = []
        """Hashes of the ids of stored sessions that have ended and must be deleted."""
        # The threads start at first use. Looking for a session does not wait for a write.
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="sessions-writer")
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="sessions-reader")
        self._last_write: ThreadFuture[None] | None = None
        """Last write, or None before the process ends."""
        self._join_tasks: dict[str, asyncio.Task[HttpSession | None]] = {}
        """Tasks that look for sessions on disk, by session id."""
        self._write_future: Future[None] | None = None

    @property
    def has_unwritten(self) -> bool:
        """True if the end of a session must still be written."""
        return bool(self._ended_ids) and self._last_write is None

    async def join(
        self, identifier: str, endpoint: Endpoint, peer: str, caller: Principal
    ) -> HttpSession | None:
        """Continue a session of a process that has ended.

        Raises: StorageError while another process locks the file, or if too many requests look for their
        sessions at the same time.
        """
        join_task = self._join_tasks.get(identifier)
        if join_task is not None:  # an earlier request of the client is looking for the session
            await asyncio.wait({join_task})
            if not join_task.cancelled() and (failure := join_task.exception()) is not None:
                raise failure  # the session is still on disk
            return self._sessions.get(identifier, endpoint.key, caller)
        if len(self._join_tasks) >= MAX_RESUMING:
            raise StorageError(f"{MAX_RESUMING} sessions are already being looked up on disk")
        # Shielded: if the client disconnects, the session must not be taken over and then lost.
        join_task = asyncio.create_task(self._claim(identifier, endpoint, peer, caller))
        self._join_tasks[identifier] = join_task
        join_task.add_done_callback(lambda task: self._on_joined(identifier, task))
        return await asyncio.shield(join_task)

    def _on_joined(self, identifier: str, task: asyncio.Task[HttpSession | None]) -> None:
        del self._join_tasks[identifier]
        if not task.cancelled():
            task.exception()  # marks the exception as retrieved

    async def _claim(
        self, identifier: str, endpoint: Endpoint, peer: str, caller: Principal
    ) -> HttpSession | None:
        """Continue a session from disk, or return None if the caller cannot continue it."""
        sessions, records = self._sessions, self._records
        if self._last_write is not None or not _ID.fullmatch(identifier) or not sessions.has_room():
            return None
        if sessions.has(identifier):  # another caller owns the session
            return None
        # The first caller with a token becomes the owner of a session without an owner.
        owners = [seal(identifier, each, self._key()) for each in (caller.identity, "")]
        loop, query = asyncio.get_running_loop(), (hash_id(identifier), endpoint.unique_key, owners)
        if not await loop.run_in_executor(self._reader, records.may_have, *query):
            return None
        record = await loop.run_in_executor(self._writer, records.claim, *query)
        if record is None or self._last_write is not None:
            return None
        session = sessions.make(endpoint, peer, caller, identifier, record.restarts)
        session.record = record
        try:
            session.dialogue.restore(record.state)
        except ProtocolError:
            session.close("the session is no longer served")
            self.end_soon(session)
            sessions.start_timer()
            return None
        sessions.add(session)
        return session

    def write_changed(self, used_sessions: Iterable[HttpSession]) -> Iterable[HttpSession]:
        """Write the sessions that differ from what is on disk, and delete those that have ended."""
        if self._last_write is not None:
            return ()
        if self._write_future is not None and not self._write_future.done():
            return used_sessions
        used_sessions = list(used_sessions)
        changed, ended_ids = self._changed(used_sessions), self._ended_ids
        self._ended_ids = []
        if changed or ended_ids:
            loop = asyncio.get_running_loop()
            self._write_future = loop.run_in_executor(self._writer, self._records.write, changed, ended_ids)
        # A running call can change the session without another request.
        return [session for session in used_sessions if not session.dialogue.is_idle]

    def _changed(self, used_sessions: Iterable[HttpSession]) -> list[SessionRecord]:
        """Return the records of sessions that differ from what is on disk."""
        changed = []
        for session in used_sessions:
            stored, record = session.record, session.current_record(self._key())
            oldest_use = record.used - min(MAX_STORED_AGE_S, self._sessions.ttl_s / 10)
            if stored is None or stored.used < oldest_use or replace(stored, used=record.used) != record:
                session.record = record
                changed.append(record)
        return changed

    def end_soon(self, session: HttpSession) -> None:
        """Schedule the deletion of a session, unless it is left for the next process."""
        if session.record is not None and self._last_write is None:
            self._ended_ids.append(session.record.id)

    def leave(self, sessions: Iterable[HttpSession]) -> None:
        """Write all sessions, and release them for the next process. Later changes are not written."""
        if self._last_write is None:
            last_records = [session.current_record(self._key()) for session in sessions]
            self._last_write = self._writer.submit(self._records.close, last_records, self._ended_ids)

    async def wait_until_left(self) -> None:
        """Wait until `leave` has finished writing."""
        if self._last_write is not None:
            await asyncio.wrap_future(self._last_write)
        self._writer.shutdown(wait=False)
        self._reader.shutdown(wait=False)
