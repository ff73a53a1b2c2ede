"""The inbox: questions wait here for a person, and every one of them ends exactly once.

Owns the states of a question. Deliberately ignorant of who asks and of how an answer reaches it. Everything
but `questions()`, `version` and the counts of people is used on the loop that waits for the answers.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from mcpdesk.errors import HandlerError
from mcpdesk.inbox.question import Answer, Page, Question, QuestionKind, QuestionState

MAX_WAITING = 500
"""Questions that may wait at one time; one more is refused: a looping client must not fill the memory."""

Listener = Callable[[Question], None]
"""Told of a question when it arrives and when it ends, in its new state."""


class _Waiting(Struct):
    question: Question
    future: asyncio.Future[Question]
    timer: asyncio.TimerHandle


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


class Inbox:
    """Waiting questions and the last `keep_ended` ended ones."""

    def __init__(self, keep_ended: int = 200, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives Unix time in seconds."""
        self.version = 0
        """Grows when a question arrives or ends."""
        self.audience = 0
        """Front ends of this core that could answer now."""
        self.audience_elsewhere = 0
        """Those at other replicas."""
        self.mark = ""
        """The id of this replica, with which origins of questions begin; empty: there are no others."""
        self._waiting: dict[int, _Waiting] = {}
        self._elsewhere: dict[int, Question] = {}
        """Questions that wait at other replicas, by their numbers here."""
        self._ended: deque[Question] = deque(maxlen=keep_ended)
        self._snapshot: tuple[Question, ...] = ()
        self._listeners: list[Listener] = []
        self.on_audience: Callable[[], object] = lambda: None
        """Called when the first front end comes, or the last one leaves."""
        self.answering: Answering = InboxAnswering(self)
        """Where front ends answer."""
        self._numbers = count(1)
        self._clock = clock

    def subscribe(self, listener: Listener) -> None:
        """Call `listener(question)` whenever a question arrives or ends."""
        self._listeners.append(listener)

    @property
    def people(self) -> int:
        """Front ends that could answer now, wherever; 0 means nobody would ever see a question."""
        return self.audience + self.audience_elsewhere

    def attend(self, count: int) -> None:
        """So many more front ends could answer, or fewer."""
        was_empty = not self.audience
        self.audience += count
        if was_empty != (not self.audience):
            self.on_audience()

    def questions(self) -> tuple[Question, ...]:
        """Waiting ones first, oldest first, then the ended ones, newest first. Safe from any thread."""
        return self._snapshot

    def ask(
        self,
        *,
        server: str,
        peer: str,
        tool: str,
        pages: Sequence[Page],
        timeout_s: float,
        may_cancel: bool = False,
        kind: QuestionKind = QuestionKind.QUESTION,
        connection: int = 0,
    ) -> tuple[int, asyncio.Future[Question]]:
        """Put a question before the person; the future gets it back in its final state and never fails.

        Raises: ValueError without pages; HandlerError when `MAX_WAITING` questions wait already.
        """
        if not pages:
            raise ValueError("a question needs at least one page")
        if len(self._waiting) >= MAX_WAITING:
            raise HandlerError(f"the inbox is full: {MAX_WAITING} questions wait for an answer already")
        loop = asyncio.get_running_loop()
        now, number = self._clock(), next(self._numbers)
        question = Question(
            number, server, peer, tool, tuple(pages), now, now + timeout_s, may_cancel,
            kind=kind, connection=connection, origin=self.mark and f"{self.mark}/{number}",
        )  # fmt: skip
        timer = loop.call_later(timeout_s, self.end, number, QuestionState.TIMED_OUT)
        waiting = _Waiting(question, loop.create_future(), timer)
        self._waiting[number] = waiting
        self._changed(question)
        return number, waiting.future

    def keep(self, ended: Question) -> None:
        """Keep a question that was asked and answered elsewhere among the ended ones."""
        kept = replace(ended, id=next(self._numbers))
        self._ended.appendleft(kept)
        self._changed(kept)

    def show(self, question: Question) -> int:
        """Show a question of another replica as it stands now; returns its number here.

        One with the id 0 is new, any other takes the place of that with this number.
        """
        shown = question if question.id else replace(question, id=next(self._numbers))
        self._elsewhere.pop(shown.id, None)
        if shown.state is QuestionState.WAITING:
            self._elsewhere[shown.id] = shown
        else:
            others = [each for each in self._ended if each.id != shown.id]
            self._ended.clear()
            self._ended.extend((shown, *others))
        self._changed(shown)
        return shown.id

    def waiting(self, id: int) -> Question | None:
        """A question that waits, here or elsewhere."""
        found = self._waiting.get(id)
        return self._elsewhere.get(id) if found is None else found.question

    def answer(self, id: int, answers: Sequence[Answer], by: str = "desk") -> bool:
        """Answer a question; False when it no longer waits, because the first answer wins.

        Raises: ValueError naming the page when the answers do not fit the question.
        """
        waiting = self._waiting.get(id)
        if waiting is None:
            return False
        from mcpdesk.inbox.answers import fitting  # what bounds answers may have is known when there is one

        checked = fitting(waiting.question.pages, answers)
        return self.end(id, QuestionState.ANSWERED, answers=checked, by=by)

    def decline(self, id: int, reason: str = "", by: str = "desk") -> bool:
        """Refuse to answer; False when it no longer waits."""
        return self.end(id, QuestionState.DECLINED, reason=reason, by=by)

    def cancel(self, id: int, by: str = "desk") -> bool:
        """Close a question without saying yes or no; False when it no longer waits, or does not allow it."""
        waiting = self._waiting.get(id)
        if waiting is None or not waiting.question.may_cancel:
            return False
        return self.end(id, QuestionState.CANCELLED, by=by)

    def withdraw(self, id: int, reason: str) -> bool:
        """Take a question back, because nobody waits for the answer any more; False when it had ended."""
        return self.end(id, QuestionState.WITHDRAWN, reason=reason)

    def end(
        self,
        id: int,
        state: QuestionState,
        *,
        answers: tuple[Answer, ...] = (),
        reason: str = "",
        by: str = "",
    ) -> bool:
        """End a question that waits here; False when it no longer waits. The answers fit it."""
        waiting = self._waiting.pop(id, None)
        if waiting is None:
            return False
        waiting.timer.cancel()
        ended = replace(
            waiting.question, state=state, answers=answers, reason=reason, answered_by=by, ended=self._clock()
        )
        self._ended.appendleft(ended)
        if not waiting.future.done():
            waiting.future.set_result(ended)
        self._changed(ended)
        return True

    def _changed(self, question: Question) -> None:
        waiting = [each.question for each in self._waiting.values()]
        if self._elsewhere:
            waiting = sorted((*waiting, *self._elsewhere.values()), key=lambda each: each.asked)
        self._snapshot = (*waiting, *self._ended)
        self.version += 1
        for listener in self._listeners:
            listener(question)


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
