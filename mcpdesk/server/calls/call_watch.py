"""Interface of an observer that follows calls, for example to trace them.

`Services.watch` is set only if a collector is configured. This module knows nothing of OpenTelemetry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from mcpdesk.errors import ClientTimeout

if TYPE_CHECKING:
    from mcpdesk.jobs.job import Job
    from mcpdesk.protocol.client_questions import Terms
    from mcpdesk.protocol.jsonrpc import JSONObject
    from mcpdesk.protocol.outlet import Reply
    from mcpdesk.protocol.trace import CallSpan
    from mcpdesk.server.calls.running_call import Call
    from mcpdesk.server.offer.server import Server


class AskedQuestion(Struct):
    """One question of a handler to its client or to a person. Times are by `time.monotonic`."""

    method: str
    """`elicitation/create`, `sampling/createMessage`, `roots/list`, or at the desk `question`, `approval`."""
    server: str
    tool: str
    span: CallSpan | None
    began: float
    ended: float = 0.0
    outcome: str = "answered"
    """`answered`, `accept`, `decline`, `timed out` and so on; never the content of the answer."""
    has_failed: bool = False


class CallWatch(Protocol):
    """Follows calls. Used on the core's loop. Its methods must return quickly and never raise."""

    def begin(self, call: Call) -> None:
        """A call begins; sets its `span`."""

    def end(self, server: Server, call: Call, reply: Reply) -> None:
        """A call was answered or ended."""

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
        """A request was answered at once, or refused with `code`, without running a handler."""

    def asked(self, question: AskedQuestion) -> None:
        """A question has ended."""

    def follow(self, server: Server, call: Call, job: Job) -> None:
        """A call continues as a job."""


@contextmanager
def question_span(
    watch: CallWatch | None, call: Call, method: str, server: str, tool: str
) -> Iterator[AskedQuestion]:
    """Report a question to `watch` when the block ends; the block sets `outcome`."""
    question = AskedQuestion(method, server, tool, call.span, monotonic())
    try:
        yield question
    except BaseException as error:
        question.outcome = "timed out" if isinstance(error, ClientTimeout) else call.stop or "not answered"
        question.has_failed = True
        raise
    finally:
        if watch is not None:
            question.ended = monotonic()
            watch.asked(question)
