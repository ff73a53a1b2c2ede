"""Base class for access to other processes that serve the same clients."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mcpdesk.transports.http.sessions.http_sessions import HttpSession, SessionSharing

if TYPE_CHECKING:
    from aiohttp import web

    from mcpdesk.auth.principal import Principal
    from mcpdesk.transports.http.site import Endpoint


class OtherProcesses(SessionSharing):
    """Access to sessions, jobs and streams that other processes may have.

    A request that only one process can answer is forwarded to that process, its owner. Ordinary calls, and
    requests that any process can answer, do not use this class.
    """

    mark: str
    """Identity of this process. The ids that this process creates contain it."""

    @abstractmethod
    async def join(
        self, identifier: str, endpoint: Endpoint, peer: str, caller: Principal
    ) -> HttpSession | None:
        """Return a session of another process, which this process then serves, too, or None if the session
        does not belong to `caller`.

        Raises: StorageError.
        """

    @abstractmethod
    async def publish(self, session: HttpSession) -> None:
        """Share a session after its handshake succeeded. Raises: StorageError."""

    @abstractmethod
    async def write(self, session: HttpSession) -> None:
        """Store the changes of a session. Raises: StorageError."""

    @abstractmethod
    async def end(self, session: HttpSession) -> None:
        """End a session in all processes. Raises: StorageError."""

    @abstractmethod
    async def answer(
        self, request: web.BaseRequest, session: HttpSession | None, message: dict[str, Any], body: bytes
    ) -> web.StreamResponse | None:
        """Forward a message to the process that owns the job, task or round in it. Return the answer, or None
        if this process must answer.

        Raises: StorageError.
        """

    @abstractmethod
    async def stream(
        self, request: web.BaseRequest, session: HttpSession, caller: Principal, last: str | None
    ) -> web.StreamResponse:
        """Send a stream of a session, which another process may have begun. `last` is `Last-Event-ID`.

        Raises: StorageError.
        """

    @abstractmethod
    async def post(self, request: web.BaseRequest, owner: str, most_bytes: int) -> web.StreamResponse | None:
        """Forward a message to the process that has the client's stream. None if no process has it."""

    @abstractmethod
    async def job(
        self, request: web.BaseRequest, identifier: str, callers: Sequence[Principal], *, is_socket: bool
    ) -> web.StreamResponse | None:
        """Forward a request to the process that owns a job. Return the answer, or None if no process runs the
        job. Raises: StorageError.
        """

    @abstractmethod
    def is_cut_off(self, body: bytes | None) -> bool:
        """Return True if an answer may be an error because shared state cannot be written now."""
