"""A core as the dashboard shows it, over the same link as the desk: snapshots as JSON, and acts.

Each act reads its arguments, does it on the core's loop, and returns an HTTP status with a JSON object.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from typing import Any, TypeAlias, TypeVar

import msgspec

from mcpdesk.errors import DeskUserError
from mcpdesk.inbox.answers import problem
from mcpdesk.inbox.question import Answer, Question, QuestionState
from mcpdesk.link.board_json import (
    NewestLines,
    callbacks_json,
    clients_json,
    core_json,
    exchange_json,
    jobs_json,
    questions_json,
    statistics_json,
)
from mcpdesk.link.definition_costs import DefinitionCosts
from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView, ItemKind, JobView, connected

RATE_S = 40
"""Seconds of the past whose messages are counted one by one."""
COUNT_S = 2.0
"""Seconds between two looks at the statistics."""
KEY = "YOUR-KEY"
"""Stands where the key would in what is pasted: a page in a browser is never told it."""


class LinkBoard:
    """What `transports.board.Board` asks for. `attend` tells the core how many look."""

    def __init__(self, link: Link, attend: Callable[[int], None]) -> None:
        self._link = link
        self.attend = attend
        self._acts = Acts(link)
        self._kept: dict[str, tuple[object, Any]] = {}
        self._jobs: tuple[int, tuple[JobView, ...]] = (-1, ())
        self._costs = DefinitionCosts(link)
        self._counted = 0.0
        """When the calls were counted last, in monotonic seconds."""

    def sections(self) -> Mapping[str, Any]:
        """Everything small, by name. What did not change is the same object as before."""
        link, view = self._link, self._link.view()
        work = view.work
        jobs, here = self._all_jobs(view), connected(view.clients, time.time())
        core = (view.servers, view.protection, view.api_key_header)
        rates = tuple(map(int, link.traffic.rates(RATE_S)))
        return {
            "core": self._made("core", core, lambda: self._core(view)),
            "clients": self._made("clients", (view.clients, here), lambda: clients_json(view.clients, here)),
            "questions": self._made(
                "questions", view.questions_version, lambda: questions_json(link.questions())
            ),
            "jobs": self._made("jobs", jobs, lambda: jobs_json(jobs)),
            "callbacks": self._made(
                "callbacks", work.callbacks_version, lambda: callbacks_json(link.callbacks())
            ),
            "statistics": self._statistics(),
            "rate": self._made("rate", rates, lambda: {"per_second": rates}),
        }

    def lines(self, filter_text: str) -> NewestLines:
        """The traffic through a filter. Raises: DeskError for one that cannot be understood."""
        return NewestLines(self._link.traffic, filter_text)

    def exchange(self, number: int) -> Mapping[str, Any] | None:
        """One exchange in full, secrets masked as on the desk."""
        index = self._link.traffic
        if not index.table.base <= number < len(index.exchanges):
            return None
        exchange = index.exchange(number)
        is_call = exchange.method == "tools/call"
        return exchange_json(index, number, self._schema(exchange.server, exchange.name) if is_call else None)

    def output(self, job: str, after: int) -> Mapping[str, Any] | None:
        """What a job wrote from there on."""
        piece = self._link.output(job, after)
        if piece is None:
            return None
        return {"text": piece.text, "start": piece.start, "end": piece.end, "last": piece.is_last}

    def config(self, server: str, client: str) -> str:
        """Text to paste into a client's configuration. Raises: DeskError."""
        if server not in {each.name for each in self._link.view().servers}:
            raise DeskUserError(f"There is no server {server[:60]!r}.", "")
        return self._link.client_config(server, client, KEY)

    async def act(self, name: str, given: Any, by: str) -> Verdict:
        """Do something."""
        return await self._acts.act(name, given, by)

    def _made(self, name: str, key: object, make: Callable[[], Any]) -> Any:
        """What was made last while it would become the same again."""
        kept = self._kept.get(name)
        if kept is None or kept[0] != key:
            kept = self._kept[name] = (key, make())
        return kept[1]

    def _statistics(self) -> Any:
        """Counted anew every few seconds at most: each call changes them."""
        counted, kept, now = self._link.traffic.statistics, self._kept.get("statistics"), time.monotonic()
        if kept is not None and now < self._counted + COUNT_S:
            return kept[1]
        self._counted = now
        key = counted.version, self._costs.version
        return self._made("statistics", key, lambda: statistics_json(counted, self._costs.now()))

    def _core(self, view: CoreView) -> Mapping[str, Any]:
        return core_json(view, [self._link.catalogue(server.name) for server in view.servers])

    def _all_jobs(self, view: CoreView) -> tuple[JobView, ...]:
        """Running ones write and report without another version of their list."""
        version = view.work.jobs_version
        if version != self._jobs[0] or view.work.running_jobs:
            self._jobs = (version, self._link.jobs())
        return self._jobs[1]

    def _schema(self, server: str, tool: str) -> Mapping[str, Any] | None:
        """The input schema of a tool hosted here: it may say what is secret."""
        if server not in {each.name for each in self._link.view().servers}:
            return None
        items = self._link.catalogue(server).items
        found = (item for item in items if item.kind is ItemKind.TOOL and item.name == tool)
        return next((item.definition.get("inputSchema") for item in found), None)


Verdict: TypeAlias = tuple[int, Mapping[str, Any]]
"""HTTP status and JSON object."""
Arguments = TypeVar("Arguments", bound=msgspec.Struct)

DONE: Verdict = (200, {"done": True})
LONGEST_REASON = 2_000


class AnswerRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A question is answered."""

    question: int
    answers: list[Answer]


class DeclineRequest(msgspec.Struct, forbid_unknown_fields=True):
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
        wanted = _read(given, AnswerRequest)
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
        wanted = _read(given, DeclineRequest)
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
