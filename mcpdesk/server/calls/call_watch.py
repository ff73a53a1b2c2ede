"""What somebody who follows calls from outside is told, so that a trace shows them.

Nobody follows unless a collector was named; then `Services.watch` is set. Knows nothing of OpenTelemetry.
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
    """One question of a handler, for its client or for a person; times by `time.monotonic`."""

    method: str
    """`elicitation/create`, `sampling/createMessage`, `roots/list`; at the desk `question` or `approval`."""
    server: str
    tool: str
    span: CallSpan | None
    began: float
    ended: float = 0.0
    outcome: str = "answered"
    """`answered`, `accept`, `decline`, `timed out` and the like: never what the answer was."""
    has_failed: bool = False


class CallWatch(Protocol):
    """Follows calls. Used on the core's loop; must be quick, and never raise."""

    def begin(self, call: Call) -> None:
        """A call begins; gives it its `span`."""

    def end(self, server: Server, call: Call, reply: Reply) -> None:
        """It is answered, or was ended."""

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
        """A request was answered at once, or refused with `code`; nothing of it ran."""

    def asked(self, question: AskedQuestion) -> None:
        """A question is over."""

    def follow(self, server: Server, call: Call, job: Job) -> None:
        """A call goes on as a job."""


@contextmanager
def question_span(
    watch: CallWatch | None, call: Call, method: str, server: str, tool: str
) -> Iterator[AskedQuestion]:
    """Around a question; set `outcome` to what became of it."""
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
