"""Base class for an observer of calls, for example for tracing."""

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
    """Observer of calls. Its methods are called on the core's loop, must return quickly, and must not
    raise.
    """

    def begin(self, call: Call) -> None:
        """Called when a call begins. May set `call.span`."""

    def end(self, server: Server, call: Call, reply: Reply) -> None:
        """Called when a call was answered or ended."""

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
        """Called when a request was answered without a handler, or refused with the error `code`."""

    def question_ended(self, question: AskedQuestion) -> None:
        """Called when a question has ended."""

    def follow(self, server: Server, call: Call, job: Job) -> None:
        """Called when a call continues as a job."""
