"""Base class of an observer that follows calls, for example to trace them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcpdesk.jobs.job import Job
    from mcpdesk.protocol.client_questions import Terms
    from mcpdesk.protocol.jsonrpc import JSONObject
    from mcpdesk.protocol.outlet import Reply
    from mcpdesk.server.calls.call_watch import AskedQuestion
    from mcpdesk.server.calls.running_call import Call
    from mcpdesk.server.offer.server import Server


class CallWatch:
    """Follows calls. Used on the core's loop. Its methods return quickly and never raise."""

    def begin(self, call: Call) -> None:
        """Note that a call begins, and set its `span`."""

    def end(self, server: Server, call: Call, reply: Reply) -> None:
        """Note that a call was answered or ended."""

    def answered(
        self,
        server: Server,
        message: JSONObject,
        terms: Terms,
        transport: str,
        headers: Mapping[str, str] | None,
        began: float,
        code: int,
    ) -> None:
        """Note a request that was answered at once, or refused with `code`, without running a handler."""

    def asked(self, question: AskedQuestion) -> None:
        """Note a question that has ended."""

    def follow(self, server: Server, call: Call, job: Job) -> None:
        """Note that a call continues as a job."""
