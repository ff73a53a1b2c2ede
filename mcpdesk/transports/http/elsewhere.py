"""Base class of the way to other processes that serve the same clients."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mcpdesk.transports.http.sessions.http_sessions import HttpSession, SessionSharing

if TYPE_CHECKING:
    from aiohttp import web

    from mcpdesk.auth.principal import Principal
    from mcpdesk.transports.http.site import Endpoint


class Elsewhere(SessionSharing):
    """Sessions, jobs and streams of a listener that other processes may have.

    A request that only one process can answer is forwarded to that process, its owner. Other requests and
    ordinary calls use nothing of this.
    """

    mark: str
    """Identity of this process, which is part of the ids that it gives out."""

    @abstractmethod
    async def join(
        self, identifier: str, endpoint: Endpoint, peer: str, caller: Principal
    ) -> HttpSession | None:
        """Serve a session of another process from now on, too. None unless it belongs to that caller.

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
        """Let the owner of the job, task or round in a message answer. None to answer it here.

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
        """Forward a message to the process that has the stream of its client. None if there is none."""

    @abstractmethod
    async def job(
        self, request: web.BaseRequest, identifier: str, callers: Sequence[Principal], *, is_socket: bool
    ) -> web.StreamResponse | None:
        """Let the owner of a job answer. None if no process runs it. Raises: StorageError."""

    @abstractmethod
    def is_cut_off(self, body: bytes | None) -> bool:
        """Return True if an answer may be an error because shared state cannot be written now."""
