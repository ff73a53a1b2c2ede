"""A person at the desk is asked in the middle of a call, whose caller hears that it is being waited."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcpdesk.inbox.question import Kind, Page, Question, QuestionState

if TYPE_CHECKING:
    from mcpdesk.server.call import Call
    from mcpdesk.server.context import Context
    from mcpdesk.server.services import Services

BEAT_S = 5.0
"""How often a peer hears that a person is still being waited for."""
STEP = 1e-6
WAITING = {
    Kind.QUESTION: "waiting for an answer on the desk",
    Kind.APPROVAL: "waiting for approval on the desk",
}
DECIDED = frozenset({QuestionState.ANSWERED, QuestionState.DECLINED})

Elsewhere = asyncio.Task[Question]
"""The same question, asked somewhere else at the same time."""


class Inquiry:
    """One question in the inbox, for as long as its caller waits. `number` is the inbox's."""

    def __init__(
        self, context: Context, call: Call, services: Services, pages: Sequence[Page], kind: Kind
    ) -> None:
        """Raises: HandlerError when too many wait already."""
        self._context, self._call, self._services, self._kind = context, call, services, kind
        self.number, self._future = services.inbox.ask(
            server=context.server.name,
            peer=call.peer,
            connection=call.lasting_connection,
            tool=context.tool,
            pages=pages,
            timeout_s=context.server.limits.question_timeout_s,
            kind=kind,
        )

    async def answer(self, elsewhere: Elsewhere | None = None) -> Question:
        """The question in its final state. `elsewhere` ends it by an answer of its own.

        The time does not count against the tool's limit, and the question is withdrawn with the call.
        """
        call = self._call
        call.asks_person += 1
        try:
            with self._services.deadlines.paused(call):
                return await self._first(elsewhere)
        finally:
            call.asks_person -= 1
            self._services.inbox.withdraw(self.number, call.stop or "the call ended")

    async def _first(self, elsewhere: Elsewhere | None) -> Question:
        call, began = self._call, time.monotonic()
        while not self._future.done():
            if elsewhere is not None and elsewhere.done():
                other, elsewhere = elsewhere, None
                if not other.cancelled() and other.exception() is None and other.result().state in DECIDED:
                    answered = other.result()
                    self._services.inbox.withdraw(self.number, f"{answered.state} by the client")
                    return answered
            call.outlet.keep_alive()
            said = f"{WAITING[self._kind]}, {time.monotonic() - began:.0f} s"
            # Steps too small to get in the way of what the handler itself reports before and after.
            so_far = 0.0 if call.progress is None else max(call.progress.sent, 0.0)
            await self._context.progress(so_far + STEP, message=said)
            awaited = {self._future} if elsewhere is None else {self._future, elsewhere}
            await asyncio.wait(awaited, timeout=BEAT_S, return_when=asyncio.FIRST_COMPLETED)
        return self._future.result()
