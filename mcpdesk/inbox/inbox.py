"""Inbox of questions that wait for a person. Every question ends exactly once.

Only the inbox changes the state of a question. It does not depend on the askers or on the delivery of
answers. `questions()`, `version`, `audience` and `audience_elsewhere` may be used on any thread, everything
else only on the loop that waits for the answers.
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

MAX_WAITING_QUESTIONS = 500
"""Maximum number of questions that wait at one time. Further questions are refused, so that a looping client
cannot fill the memory."""

Listener = Callable[[Question], None]
"""Function that receives a question in its new state, when the question arrives and when it ends."""


class _WaitingQuestion(Struct):
    question: Question
    future: asyncio.Future[Question]
    timer: asyncio.TimerHandle


class Answering(Protocol):
    """Interface to answer questions. Only the first answer to a question counts. Used on the core's loop."""

    async def answer(self, id: int, answers: Sequence[Answer], by: str = "desk") -> bool:
        """Answer a question; return False if it is no longer waiting.

        Raises: ValueError that names the page with an invalid answer; StorageError if the question was asked
        in another process that cannot be reached now.
        """

    async def decline(self, id: int, reason: str = "", by: str = "desk") -> bool:
        """Decline a question; return False if it is no longer waiting. Raises: StorageError."""

    async def cancel(self, id: int, by: str = "desk") -> bool:
        """Cancel a question without an answer; return False if it has ended or does not allow that.

        Raises: StorageError.
        """


class Inbox:
    """All waiting questions, and the last `keep_ended` questions that have ended."""

    def __init__(self, keep_ended: int = 200, clock: Callable[[], float] = time.time) -> None:
        """Create an inbox; `clock` returns Unix time in seconds."""
        self.version = 0
        """Number that increases when a question arrives or ends."""
        self.audience = 0
        """Number of front ends of this core that could answer now."""
        self.audience_elsewhere = 0
        """Number of front ends of other processes that could answer now."""
        self.mark = ""
        """Id of this process, or "" if the questions are not shared with other processes.

        The origin of each question that was asked in this process begins with this id.
        """
        self._waiting: dict[int, _WaitingQuestion] = {}
        self._remote_questions: dict[int, Question] = {}
        """Questions that wait in other processes, by their numbers in this inbox."""
        self._ended: deque[Question] = deque(maxlen=keep_ended)
        self._snapshot: tuple[Question, ...] = ()
        self._listeners: list[Listener] = []
        self.on_audience: Callable[[], object] = lambda: None
        """Function that is called when the first front end connects or the last front end disconnects."""
        self.answering: Answering = InboxAnswering(self)
        """Interface through which front ends answer."""
        self._numbers = count(1)
        self._clock = clock

    def subscribe(self, listener: Listener) -> None:
        """Call `listener(question)` whenever a question arrives or ends."""
        self._listeners.append(listener)

    @property
    def people(self) -> int:
        """Number of front ends of all processes that could answer now. If 0, no person sees a question."""
        return self.audience + self.audience_elsewhere

    def attend(self, change: int) -> None:
        """Add `change`, which may be negative, to the number of front ends that could answer."""
        had_audience = self.audience > 0
        self.audience += change
        if had_audience != (self.audience > 0):
            self.on_audience()

    def questions(self) -> tuple[Question, ...]:
        """Return the waiting questions, oldest first, and then the ended questions, newest first.
        Thread-safe.
        """
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
        is_form: bool = False,
    ) -> tuple[int, asyncio.Future[Question]]:
        """Ask a person. The future receives the question in its final state and never fails.

        Raises: ValueError if there are no pages; HandlerError if `MAX_WAITING_QUESTIONS` questions are
        waiting already.
        """
        if not pages:
            raise ValueError("a question needs at least one page")
        if len(self._waiting) >= MAX_WAITING_QUESTIONS:
            raise HandlerError(
                f"the inbox is full: {MAX_WAITING_QUESTIONS} questions are already waiting for an answer"
            )
        loop = asyncio.get_running_loop()
        now, number = self._clock(), next(self._numbers)
        question = Question(
            number, server, peer, tool, tuple(pages), now, now + timeout_s, may_cancel,
            kind=kind, connection=connection, origin=self.mark and f"{self.mark}/{number}", is_form=is_form,
        )  # fmt: skip
        timer = loop.call_later(timeout_s, self.end, number, QuestionState.TIMED_OUT)
        pending = _WaitingQuestion(question, loop.create_future(), timer)
        self._waiting[number] = pending
        self._publish(question)
        return number, pending.future

    def add_ended(self, question: Question) -> None:
        """Add a question that was asked and answered without this inbox, for example through the client."""
        numbered_question = replace(question, id=next(self._numbers))
        self._ended.appendleft(numbered_question)
        self._publish(numbered_question)

    def show(self, question: Question) -> int:
        """Set the state of a question of another process, and return its number in this inbox.

        A question with id 0 is new and gets a number. A question with another id replaces the question with
        this number.
        """
        numbered_question = question if question.id else replace(question, id=next(self._numbers))
        self._remote_questions.pop(numbered_question.id, None)
        if numbered_question.state is QuestionState.WAITING:
            self._remote_questions[numbered_question.id] = numbered_question
        else:
            other_ended = [each for each in self._ended if each.id != numbered_question.id]
            self._ended.clear()
            self._ended.extend((numbered_question, *other_ended))
        self._publish(numbered_question)
        return numbered_question.id

    def waiting_question(self, id: int) -> Question | None:
        """Return a question that is waiting in any process, or None."""
        pending = self._waiting.get(id)
        return self._remote_questions.get(id) if pending is None else pending.question

    def answer(self, id: int, answers: Sequence[Answer], by: str = "desk") -> bool:
        """Answer a question; return False if it is no longer waiting, because only the first answer counts.

        Raises: ValueError that names the page with an invalid answer.
        """
        pending = self._waiting.get(id)
        if pending is None:
            return False
        # Imported late, because most processes never receive an answer.
        from mcpdesk.inbox.answers import checked_answers

        valid_answers = checked_answers(pending.question.pages, answers)
        return self.end(id, QuestionState.ANSWERED, answers=valid_answers, by=by)

    def decline(self, id: int, reason: str = "", by: str = "desk") -> bool:
        """Decline a question; return False if it is no longer waiting."""
        return self.end(id, QuestionState.DECLINED, reason=reason, by=by)

    def cancel(self, id: int, by: str = "desk") -> bool:
        """Cancel a question without an answer; return False if it has ended or does not allow that."""
        pending = self._waiting.get(id)
        if pending is None or not pending.question.may_cancel:
            return False
        return self.end(id, QuestionState.CANCELLED, by=by)

    def withdraw(self, id: int, reason: str) -> bool:
        """Withdraw a question whose answer is no longer needed; return False if it has ended."""
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
        """End a question of this process, with valid `answers`. Return False if it is no longer waiting."""
        pending = self._waiting.pop(id, None)
        if pending is None:
            return False
        pending.timer.cancel()
        ended_question = replace(
            pending.question, state=state, answers=answers, reason=reason, answered_by=by, ended=self._clock()
        )
        self._ended.appendleft(ended_question)
        if not pending.future.done():
            pending.future.set_result(ended_question)
        self._publish(ended_question)
        return True

    def _publish(self, question: Question) -> None:
        """Update the snapshot, and notify the listeners of a question that arrived or ended."""
        waiting_questions = [each.question for each in self._waiting.values()]
        if self._remote_questions:
            waiting_questions = sorted(
                (*waiting_questions, *self._remote_questions.values()), key=lambda each: each.asked
            )
        self._snapshot = (*waiting_questions, *self._ended)
        self.version += 1
        for listener in self._listeners:
            listener(question)


class InboxAnswering:
    """Implements `Answering` for a core that does not share its inbox."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    async def answer(self, id: int, answers: Sequence[Answer], by: str = "desk") -> bool:
        """Implements `Answering.answer`."""
        return self._inbox.answer(id, answers, by)

    async def decline(self, id: int, reason: str = "", by: str = "desk") -> bool:
        """Implements `Answering.decline`."""
        return self._inbox.decline(id, reason, by)

    async def cancel(self, id: int, by: str = "desk") -> bool:
        """Implements `Answering.cancel`."""
        return self._inbox.cancel(id, by)
