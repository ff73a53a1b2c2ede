"""Reports about questions that handlers ask clients and people, for observers such as telemetry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct

from mcpdesk.errors import ClientTimeout

if TYPE_CHECKING:
    from mcpdesk.protocol.trace import CallSpan
    from mcpdesk.server.calls.running_call import Call


class AskedQuestion(Struct):
    """Question of a handler to its client or to a person. Times are those of `time.monotonic`."""

    method: str
    """`elicitation/create`, `sampling/createMessage` or `roots/list`; at the desk `question` or
    `approval`.
    """
    server: str
    tool: str
    span: CallSpan | None
    began: float
    ended: float = 0.0
    outcome: str = "answered"
    """`answered`, `accept`, `decline`, `timed out` and so on. Never the content of the answer."""
    has_failed: bool = False


@contextmanager
def question_span(
    report: Callable[[AskedQuestion], None] | None, call: Call, method: str, server: str, tool: str
) -> Iterator[AskedQuestion]:
    """Report the question that is asked within the `with` block. The block sets its `outcome`."""
    question = AskedQuestion(method, server, tool, call.span, monotonic())
    try:
        yield question
    except BaseException as error:
        question.outcome = "timed out" if isinstance(error, ClientTimeout) else call.stop or "not answered"
        question.has_failed = True
        raise
    finally:
        if report is not None:
            question.ended = monotonic()
            report(question)
