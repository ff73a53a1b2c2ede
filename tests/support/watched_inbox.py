"""Questions of an inbox, as a person who watches it sees them."""

from __future__ import annotations

import asyncio

from mcpdesk.inbox.inbox import Inbox
from mcpdesk.inbox.question import Question, QuestionState
from tests.support.patience import within


class WatchedInbox:
    """Reports every question when it arrives and when it ends."""

    def __init__(self, inbox: Inbox) -> None:
        loop, self._told = asyncio.get_running_loop(), asyncio.Queue[Question]()

        def tell(question: Question) -> None:
            loop.call_soon_threadsafe(self._told.put_nowait, question)

        inbox.subscribe(tell)

    async def sees(self, state: QuestionState = QuestionState.WAITING) -> Question:
        """The next question that is in a state."""
        async with within():
            while (question := await self._told.get()).state is not state:
                pass
        return question
