"""Base class of dialects, which features add for clients of older protocols."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from mcpdesk.jobs.job import Job
    from mcpdesk.protocol.jsonrpc import Id, JSONObject
    from mcpdesk.protocol.outlet import Outlet
    from mcpdesk.protocol.revisions import Revision
    from mcpdesk.server.calls.outcomes import ToolOutcome
    from mcpdesk.server.offer.tool import Tool


class Dialect(ABC):
    """Translator between one peer and standard MCP. The peer may also send standard messages."""

    name: ClassVar[str]
    """Name of the dialect. The name distinguishes sessions in this dialect from others."""
    revision: ClassVar[Revision]
    """Revision that is used without a handshake. The dialect does not require one."""

    @abstractmethod
    def __init__(self, push: Callable[[bytes], None] | None, transport: str) -> None:
        """`push` sends messages that belong to no request. `push` is None if the channel does not allow such
        messages.
        """

    @classmethod
    @abstractmethod
    def description(
        cls, name: str, description: str, version: str, tools: Iterable[JSONObject]
    ) -> JSONObject:
        """Return the description of a server. `tools` are in the form of `tools/list`."""

    @abstractmethod
    def close(self) -> None:
        """Send no more messages, because the peer has disconnected. Jobs continue."""

    @abstractmethod
    def status(self, method: str, name: str, version: str) -> JSONObject | None:
        """Return the response to a status request, or None if `method` is not the status method of the
        dialect.
        """

    @abstractmethod
    def standard(self, message: JSONObject) -> JSONObject:
        """Convert a request to a standard one. Raises: RemoteProtocolError (-32602)."""

    @abstractmethod
    def wants_job(self, params: JSONObject) -> bool:
        """Return True if a call asks to continue as a job.

        Raises: RemoteProtocolError (-32602) for an unknown mode.
        """

    @abstractmethod
    def answer_handshake(self, answer: bytes) -> bool:
        """Send the response to the handshake, and then the messages that must follow it in this dialect.

        Return False if nothing was sent; the caller then sends the response.
        """

    @abstractmethod
    def accepted(self, job_id: str) -> JSONObject:
        """Return the result of a call that continues as a job."""

    @abstractmethod
    def result(
        self, tool: Tool, outcome: ToolOutcome, standard_result: JSONObject, stored_job: Job | None = None
    ) -> JSONObject:
        """Return the result of a call. `standard_result` is the result for a standard peer.

        `stored_job` is the job with the full output, if `standard_result` has only a part of it. Raises:
        RemoteProtocolError for a failed call and for invalid arguments.
        """

    @abstractmethod
    def report(self, job: Job, token: Id | None, outlet: Outlet) -> None:
        """Report the progress of a job after the response to its call, if the peer expects this."""
