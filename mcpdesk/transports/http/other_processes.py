"""Base class for access to other processes that serve the same clients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mcpdesk.transports.http.sessions.http_sessions import HttpSession, SessionStore

if TYPE_CHECKING:
    from aiohttp import web

    from mcpdesk.auth.principal import Principal


class OtherProcesses(SessionStore, ABC):
    """Access to sessions, jobs and streams that other processes may have.

    A request that only one process can answer is forwarded to that process, its owner. Ordinary calls, and
    requests that any process can answer, do not use this class.
    """

    is_shared = True
    mark: str
    """Identity of this process. The ids that this process creates contain it."""

    @abstractmethod
    async def answer(
        self, request: web.BaseRequest, session: HttpSession | None, message: dict[str, Any], body: bytes
    ) -> web.StreamResponse | None:
        """Forward a message to the process that owns the job, task or round in it, and return its answer.

        Return None if this process must answer. Raises: StorageError.
        """

    @abstractmethod
    async def stream(
        self, request: web.BaseRequest, session: HttpSession, caller: Principal, last_event_id: str | None
    ) -> web.StreamResponse:
        """Send a stream of a session to a client that opens or resumes it.

        Another process may have begun the stream. `last_event_id` is the `Last-Event-ID` of the client, or
        None. Raises: StorageError.
        """

    @abstractmethod
    async def post(self, request: web.BaseRequest, owner: str, max_bytes: int) -> web.StreamResponse | None:
        """Forward a message to the process that has the client's stream, and return its answer.

        Return None if no process has the stream.
        """

    @abstractmethod
    async def job(
        self, request: web.BaseRequest, identifier: str, callers: Sequence[Principal], *, is_socket: bool
    ) -> web.StreamResponse | None:
        """Forward a request to the process that owns a job, and return its answer.

        `callers` are the client's principals, one for each server that accepts it. `is_socket` is True for a
        WebSocket. Return None if no process runs the job. Raises: StorageError.
        """

    @abstractmethod
    def is_cut_off(self, body: bytes | None) -> bool:
        """Return True if shared state cannot be written now, and a response may be an error for this reason.

        `body` is the body of the response, or None if it has none.
        """
