"""What can be done from the dashboard: each act reads its arguments, does it, and says what came of it.

Runs on the core's loop. The same rules hold as on the desk: the first answer to a question wins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from typing import Any, TypeAlias, TypeVar

import msgspec

from mcpdesk.inbox.answers import problem
from mcpdesk.inbox.question import Answer, Question, QuestionState
from mcpdesk.link.link import Link

Verdict: TypeAlias = tuple[int, Mapping[str, Any]]
"""HTTP status and JSON object."""
Arguments = TypeVar("Arguments", bound=msgspec.Struct)

DONE: Verdict = (200, {"done": True})
LONGEST_REASON = 2_000


class Answered(msgspec.Struct, forbid_unknown_fields=True):
    """A question is answered."""

    question: int
    answers: list[Answer]


class Declined(msgspec.Struct, forbid_unknown_fields=True):
    """A question is declined."""

    question: int
    reason: str = ""


class OfQuestion(msgspec.Struct, forbid_unknown_fields=True):
    """Something about a question."""

    question: int


class OfJob(msgspec.Struct, forbid_unknown_fields=True):
    """Something about a job."""

    job: str


class OfCallback(msgspec.Struct, forbid_unknown_fields=True):
    """Something about a callback."""

    server: str
    callback: int


class OfClient(msgspec.Struct, forbid_unknown_fields=True):
    """Something about a client."""

    connection: int


class Acts:
    """The acts over one link."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def act(self, name: str, given: Any, by: str) -> Verdict:
        """Do something. `by` is shown to others who would have."""
        act = _ACTS.get(name)
        if act is None:
            return 404, {"error": f"nothing is called {name[:60]!r}; known: {', '.join(_ACTS)}"}
        try:
            return await act(self, given, by)
        except msgspec.ValidationError as error:
            return 400, {"error": f"{name}: {error}"}

    async def answer(self, given: Any, by: str) -> Verdict:
        """Answer a question, all of its pages at once."""
        wanted = _read(given, Answered)
        question = self._question(wanted.question)
        if question is None or question.state is not QuestionState.WAITING:
            return _too_late(question)
        pages, answers = question.pages, wanted.answers
        if len(answers) != len(pages):
            return 422, {"error": f"{len(pages)} answers are due, not {len(answers)}"}
        problems = [problem(page, answer) for page, answer in zip(pages, answers, strict=True)]
        if any(problems):
            return 422, {"error": "not every answer fits", "problems": problems}
        return await self._settle(wanted.question, self._link.answer(wanted.question, answers, by))

    async def decline(self, given: Any, by: str) -> Verdict:
        """Refuse to answer."""
        wanted = _read(given, Declined)
        reason = wanted.reason.strip()[:LONGEST_REASON]
        return await self._settle(wanted.question, self._link.decline(wanted.question, reason, by))

    async def dismiss(self, given: Any, by: str) -> Verdict:
        """Close a question without saying yes or no."""
        wanted = _read(given, OfQuestion)
        question = self._question(wanted.question)
        if question is not None and not question.may_cancel:
            return 409, {"error": "this question can only be answered or declined"}
        return await self._settle(wanted.question, self._link.cancel_question(wanted.question, by))

    async def cancel_job(self, given: Any, by: str) -> Verdict:
        """End a job with all it started."""
        wanted = _read(given, OfJob)
        job = next((each for each in self._link.jobs() if each.id == wanted.job), None)
        if job is None:
            return 404, {"error": "that job is gone"}
        if job.state.is_final:
            return 409, {"error": f"the job is over already: {job.state.value}"}
        self._link.kill_job(wanted.job)
        return DONE

    async def fire_callback(self, given: Any, by: str) -> Verdict:
        """Let a callback fire now."""
        return self._callback(given, self._link.fire_callback)

    async def cancel_callback(self, given: Any, by: str) -> Verdict:
        """A callback shall not fire again."""
        return self._callback(given, self._link.cancel_callback)

    async def disconnect(self, given: Any, by: str) -> Verdict:
        """End the session or the connection of a client."""
        wanted = _read(given, OfClient)
        known = self._link.client(wanted.connection)
        if known is None or known.has_left:
            return 404, {"error": "that client is gone"}
        self._link.disconnect(wanted.connection)
        return DONE

    def _callback(self, given: Any, do: Callable[[str, int], None]) -> Verdict:
        wanted = _read(given, OfCallback)
        found = (
            one for one in self._link.callbacks() if (one.server, one.id) == (wanted.server, wanted.callback)
        )
        callback = next(found, None)
        if callback is None:
            return 404, {"error": "that callback is gone"}
        if callback.due is None:
            return 409, {"error": "that callback is over already"}
        do(wanted.server, wanted.callback)
        return DONE

    async def _settle(self, question: int, was_first: Future[bool]) -> Verdict:
        try:
            return DONE if await asyncio.wrap_future(was_first) else _too_late(self._question(question))
        except ValueError as error:
            return 422, {"error": str(error)}

    def _question(self, number: int) -> Question | None:
        return next((each for each in self._link.questions() if each.id == number), None)


def _read(given: Any, kind: type[Arguments]) -> Arguments:
    """Raises: msgspec.ValidationError saying what is wrong."""
    return msgspec.convert(given, kind)


def _too_late(question: Question | None) -> Verdict:
    if question is None:
        return 404, {"error": "that question is gone"}
    by = f" by {question.answered_by}" if question.answered_by else ""
    return 409, {"error": f"the question was {question.word}{by} already"}


Act: TypeAlias = Callable[[Acts, Any, str], Awaitable[Verdict]]
_ACTS: dict[str, Act] = {
    "answer": Acts.answer,
    "decline": Acts.decline,
    "dismiss": Acts.dismiss,
    "cancel-job": Acts.cancel_job,
    "fire-callback": Acts.fire_callback,
    "cancel-callback": Acts.cancel_callback,
    "disconnect": Acts.disconnect,
}
