"""Where front ends answer the questions of an inbox, whether one core has it or several replicas share it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mcpdesk.inbox.inbox import Inbox
from mcpdesk.inbox.question import Answer


class Answering(Protocol):
    """The first of several people who answer wins. Used on the core's loop."""

    async def answer(self, id: int, answers: Sequence[Answer], by: str = "desk") -> bool:
        """Answer a question; False when it no longer waits.

        Raises: ValueError naming the page when the answers do not fit the question; StorageError when it was
        asked at another replica that cannot be told now.
        """

    async def decline(self, id: int, reason: str = "", by: str = "desk") -> bool:
        """Refuse to answer; False when it no longer waits. Raises: StorageError."""

    async def cancel(self, id: int, by: str = "desk") -> bool:
        """Close a question without saying yes or no; False when it no longer waits, or does not allow it.

        Raises: StorageError.
        """


class InboxAnswering:
    """Implements `Answering` for a core that shares its inbox with nobody."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    async def answer(self, id: int, answers: Sequence[Answer], by: str = "desk") -> bool:
        """As `Answering` has it."""
        return self._inbox.answer(id, answers, by)

    async def decline(self, id: int, reason: str = "", by: str = "desk") -> bool:
        """As `Answering` has it."""
        return self._inbox.decline(id, reason, by)

    async def cancel(self, id: int, by: str = "desk") -> bool:
        """As `Answering` has it."""
        return self._inbox.cancel(id, by)
