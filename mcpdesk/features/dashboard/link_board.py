"""Content of the dashboard: snapshots of a core as JSON, and actions on it.

Like the desk, the dashboard uses a `Link`. An action reads its arguments, runs on the core's loop, and
returns an HTTP status with a JSON object. Secrets are masked. The size of every list and text is limited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Future
from operator import attrgetter
from time import monotonic, perf_counter, sleep, time
from typing import Any, TypeAlias, TypeVar

import msgspec
import orjson
from msgspec import to_builtins

from mcpdesk.errors import DeskUserError
from mcpdesk.feature import ExchangeFacts
from mcpdesk.features import features_with
from mcpdesk.inbox.answers import problem
from mcpdesk.inbox.question import Answer, Page, Question, QuestionState, link_warnings
from mcpdesk.link.link import Link
from mcpdesk.link.local.definition_costs import DefinitionCosts
from mcpdesk.link.values import (
    CallbackView,
    Catalogue,
    CatalogueItem,
    ClientView,
    CoreView,
    ItemKind,
    JobView,
    LogLine,
    ModeView,
    ServerView,
    connected,
)
from mcpdesk.link.waiting import result_of
from mcpdesk.protocol import codec
from mcpdesk.protocol.revisions import with_era
from mcpdesk.recorder.exchange_text import no_log_lines
from mcpdesk.recorder.index.exchange import Exchange, ExchangeKind, Status
from mcpdesk.recorder.index.phase_spans import phase_spans
from mcpdesk.recorder.index.query import parse
from mcpdesk.recorder.index.statistics import CallStatistics, Subject
from mcpdesk.recorder.index.statistics_rows import Definitions, rows_of
from mcpdesk.recorder.index.traffic_index import Index, last_round, parts_in_words
from mcpdesk.recorder.index.view import View
from mcpdesk.recorder.masking import mask_text
from mcpdesk.recorder.readable_message import http, message
from mcpdesk.version import __version__

MAX_DETAIL_LENGTH = 200_000
"""Maximum length of a message in characters. The desk can export the complete message."""
MAX_NOTIFICATIONS = 100
"""Maximum number of notifications, and of partial exchanges, that are listed for an exchange: the newest
ones.
"""
MAX_ITEMS = 200
"""Maximum number of items that are listed for a server. The count next to the list includes all items."""
MAX_LINES = 200
"""Maximum number of clients, jobs, callbacks and log lines that are listed. The newest are listed."""
MAX_LOG_LINE_LENGTH = 500
"""Maximum length of a log line in characters."""
MAX_FILES = 50
"""Maximum number of files listed for a job. The count next to the list includes all files."""
MAX_ENDED_QUESTIONS = 12
"""Maximum number of ended questions that are listed. The latest are listed."""
MAX_TEXT_LENGTH = 300
"""Maximum length of a description or command in characters. The desk shows the complete text."""
PAGE_LINES = 200
"""Number of traffic lines on one page."""
MAX_CHANGES_S = 0.06
"""Maximum number of seconds for which one call of `changes` pairs and filters. The next call continues."""
SLICE_S = 0.004
"""Seconds for which frames are paired and filtered without a pause."""
MAX_EXACT_INTEGER = 1 << 53
"""Limit below which a browser can represent every integer exactly."""
SLICE_PAUSE_S = 0.0005
"""Seconds of the pause between two slices. During the pause, the core can handle calls."""

Json = dict[str, Any]


def row_json(index: Index, number: int) -> Mapping[str, Any]:
    """Return one line of the traffic. Names are masked, because a name may be a URL with a key."""
    exchange = index.exchange(number)
    return _fields(exchange, "kind peer server core method status size") | {
        "n": number,
        "time": exchange.started,
        "out": bool(exchange.direction),
        "name": mask_text(exchange.name[:500]),
        "id": str(exchange.id)
        if isinstance(exchange.id, int) and exchange.id > MAX_EXACT_INTEGER
        else exchange.id,
        "took_s": None if exchange.ended is None else exchange.elapsed(0),
        "request": exchange.kind is ExchangeKind.REQUEST,
        "revision": with_era(exchange.revision),
        "slow": exchange.is_slow,
        "more": parts_in_words(exchange),
    }


def exchange_json(index: Index, number: int, schema: Any = None) -> Mapping[str, Any]:
    """Return all data of one exchange.

    `schema` is the input schema of the tool. It may mark arguments as secret. Raises: IndexError if the
    exchange does not exist.
    """
    exchange = index.exchange(number)
    info = index.connections.get(exchange.connection)
    final_round = last_round(index, exchange)
    return {
        "row": row_json(index, number),
        "transport": info.transport if info else "",
        "phases": [
            {"kind": span.kind.name.lower(), "words": span.kind.value, "seconds": span.seconds}
            for span in phase_spans(index, exchange, time())
        ],
        "request": _side(index, exchange, exchange.request, schema),
        "response": _side(index, final_round, final_round.response, None)
        or {"missing": _missing_text(final_round)},
        "events": [_event(index, exchange, frame) for frame in exchange.notifications[-MAX_NOTIFICATIONS:]],
        "events_count": len(exchange.notifications),
        "parts": [row_json(index, part) for part in exchange.parts[-MAX_NOTIFICATIONS:]],
        "curl": _command(index, number, schema),
    }


def _command(index: Index, number: int, schema: Any) -> str:
    """Return a shell command that repeats the request, or "" if no feature offers such a command."""
    facts = ExchangeFacts(no_log_lines, schema=schema)
    copies = (each for feature in features_with("exchange_copies") for each in feature.exchange_copies())
    return next((each.make(index, number, facts) for each in copies if each.is_command), "")


def _side(index: Index, exchange: Exchange, frame: int | None, schema: Any) -> Mapping[str, Any] | None:
    """Return the request or response in a frame, or None without a frame."""
    if frame is None:
        return None
    value, read_problem = message(index, exchange, frame, schema)
    text = _text(value)
    cut_length = len(text) - MAX_DETAIL_LENGTH
    http_note = http(index, exchange, frame)
    return {
        "text": text[:MAX_DETAIL_LENGTH],
        "problem": read_problem
        or (f"{cut_length:,} more characters are not shown" if cut_length > 0 else ""),
        "http": None
        if http_note is None
        else {"line": http_note[0], "headers": [list(pair) for pair in http_note[1]]},
    }


def _event(index: Index, exchange: Exchange, frame: int) -> Mapping[str, Any]:
    stored_frame = index.frame(frame)
    value = message(index, exchange, frame).value
    is_object = isinstance(value, dict)
    return {
        "after_s": None if stored_frame is None else stored_frame.time - exchange.started,
        "method": str(value.get("method", "")) if is_object else "",
        "text": _text(value.get("params") if is_object else value)[:2000],
    }


def _missing_text(exchange: Exchange) -> str:
    """Return the text that is shown for a message that has not arrived."""
    if exchange.status is Status.SENT:
        return ""
    return "no response yet" if exchange.status is Status.PENDING else f"no response: {exchange.status.value}"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return codec.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS, default=str).decode()


def core_json(view: CoreView, catalogues: Iterable[Catalogue]) -> Json:
    """Return the core and its servers."""
    return {
        "mcpdesk": __version__,
        "protection": view.protection.value,
        "replicas": [_fields(each, "name state reason") for each in view.cores],
        "key_header": view.api_key_header,
        "servers": [_server(*pair) for pair in zip(view.servers, catalogues, strict=True)],
    }


def clients_json(clients: tuple[ClientView, ...], count: int) -> Json:
    """Return the known clients, newest first. `count` is the number of connected clients."""
    return {"count": count, "clients": [_client(each) for each in clients[: -MAX_LINES - 1 : -1]]}


def jobs_json(jobs: tuple[JobView, ...]) -> Json:
    """Return jobs, newest first."""
    running = sum(not job.state.is_final for job in jobs)
    return {
        "count": len(jobs),
        "running": running,
        "jobs": [_job(each) for each in jobs[: -MAX_LINES - 1 : -1]],
    }


def callbacks_json(callbacks: tuple[CallbackView, ...]) -> Json:
    """Return scheduled callbacks by due time, then ended ones, latest first."""
    scheduled = sorted((each for each in callbacks if each.due is not None), key=lambda each: each.due or 0.0)
    ended = [each for each in callbacks if each.due is None]
    ended.sort(key=lambda each: -(each.last_fired or 0.0))
    return {
        "count": len(scheduled),
        "callbacks": [_callback(each) for each in [*scheduled, *ended][:MAX_LINES]],
    }


def statistics_json(statistics: CallStatistics, definitions: Definitions) -> Json:
    """Return call statistics by tool and by client: the total, then the rows with the most calls."""
    return {
        f"{subject}s": [to_builtins(row) for row in rows_of(statistics, subject, definitions)[:MAX_LINES]]
        for subject in (Subject.TOOL, Subject.CLIENT)
    }


def logs_json(lines: Iterable[LogLine]) -> Json:
    """Return log lines, newest first, with secrets masked."""
    return {"lines": [_log_line(each) for each in lines][::-1]}


def questions_json(questions: tuple[Question, ...]) -> Json:
    """Return waiting questions, and the latest ended ones."""
    waiting = [each for each in questions if each.state is QuestionState.WAITING]
    ended_questions = [each for each in questions if each.state is not QuestionState.WAITING]
    return {
        "waiting": [_question(each) for each in waiting],
        "ended": [_ended(each) for each in ended_questions[:MAX_ENDED_QUESTIONS]],
    }


def _server(server: ServerView, catalogue: Catalogue) -> Json:
    usable = [item for item in catalogue.items if not item.problem or item.stale]
    return _fields(server, "name title version url wants_token mode problems") | {
        "folder": server.shown_location,
        "modes": [_mode(mode) for mode in server.modes],
        "counts": {kind.value: sum(item.kind is kind for item in usable) for kind in ItemKind},
        "left_out": len(catalogue.items) - len(usable),
        "items": [_item(item) for item in catalogue.items[:MAX_ITEMS]],
        "more_items": max(0, len(catalogue.items) - MAX_ITEMS),
    }


def _mode(mode: ModeView) -> Json:
    return {
        "name": mode.name,
        "description": mode.description[:MAX_TEXT_LENGTH],
        "tools": list(mode.tools[:MAX_ITEMS]),
    }


def _item(item: CatalogueItem) -> Json:
    return _fields(item, "kind name title problem stale") | {
        "description": item.description.strip().partition("\n")[0][:MAX_TEXT_LENGTH],
        "policy": item.policy if item.kind is ItemKind.TOOL else "",
    }


def _client(client: ClientView) -> Json:
    fields = _fields(
        client, "connection connections server name transport opened calls errors p50_s p95_s tools mode"
    )
    return fields | _fields(client, "caller seen left core") | {"revision": with_era(client.revision)}


def _job(job: JobView) -> Json:
    return _fields(job, "id kind server core peer state started ended number size problem has_output") | {
        "name": mask_text(job.name[:MAX_TEXT_LENGTH]),
        "over": job.state.is_final,
        "message": mask_text(job.message[:MAX_TEXT_LENGTH]),
        "made": to_builtins(job.produced_files[:MAX_FILES]),
        "made_count": len(job.produced_files),
        "made_bytes": sum(file.size for file in job.produced_files),
    }


def _callback(callback: CallbackView) -> Json:
    return _fields(callback, "server core id peer delay_s fired due last_fired") | {
        "number": callback.own_id,
        "message": callback.message[:MAX_TEXT_LENGTH],
        "repeats": callback.repeat_count,
        "cancelled": callback.is_cancelled,
    }


def _log_line(line: LogLine) -> Json:
    # The text is masked before it is cut, so that no secret is cut in two.
    text = mask_text(line.text[: 4 * MAX_LOG_LINE_LENGTH])
    short_text = text if len(text) <= MAX_LOG_LINE_LENGTH else f"{text[:MAX_LOG_LINE_LENGTH]}…"
    return _fields(line, "number time level source where server tool core") | {"text": short_text}


def _question(question: Question) -> Json:
    fields = _fields(question, "id kind server core asker tool asked deadline may_cancel")
    return fields | {"pages": [_page(page) for page in question.pages]}


def _page(page: Page) -> Json:
    return _fields(page, "question header multi_select own_words detail link") | {
        "options": to_builtins(page.options),
        "required": page.is_required,
        "default": to_builtins(page.default),
        "long": page.is_long,
        "rules": dict(page.rules),
        "oddities": list(link_warnings(page.link)) if page.link else [],
    }


def _ended(question: Question) -> Json:
    return _fields(question, "id asker word reason asked ended") | {
        "question": question.pages[0].question,
        "by": question.answered_by,
        "answers": to_builtins(question.answers),
    }


def _fields(value: object, names: str) -> Json:
    """Return the named attributes of an object. The attribute `core` gets the key `replica`."""
    return {"replica" if name == "core" else name: getattr(value, name) for name in names.split()}


class LatestExchanges:
    """Newest exchanges that match a filter. Each call of `changes` returns the changes since the last one."""

    def __init__(self, index: Index, filter_text: str) -> None:
        """Raises: QueryError for an invalid filter."""
        self._index = index
        self._view = View(index, parse(filter_text, time()))
        self._version = -1
        self._rows: dict[int, Mapping[str, Any]] = {}
        """Lines on the page, by number, newest first."""
        self._counts: Mapping[str, Any] = {}

    def changes(self) -> Mapping[str, Any] | None:
        """Return the changes since the last call, or None if nothing changed."""
        self._advance()
        version, counts = self._index.version, self._count()
        if version == self._version and counts == self._counts:
            return None
        self._version, self._counts = version, counts
        previous = self._rows
        self._rows = {number: row_json(self._index, number) for number in self._newest()}
        changed_rows = [row for number, row in self._rows.items() if previous.get(number) != row]
        return {"lines": list(self._rows), "rows": changed_rows, **counts}

    def everything(self) -> Mapping[str, Any]:
        """Return all lines on the page."""
        return {"lines": list(self._rows), "rows": list(self._rows.values()), **self._counts}

    def before(self, line: int, max_lines: int) -> Mapping[str, Any]:
        """Return up to `max_lines` lines that are older than `line`, newest first."""
        end = self._view.position(line)
        numbers = self._view.lines[max(0, end - max_lines) : end]
        return {"rows": [row_json(self._index, number) for number in reversed(numbers)]}

    def _newest(self) -> list[int]:
        return list(self._view.lines[-PAGE_LINES:])[::-1]

    def _count(self) -> Mapping[str, Any]:
        view, index = self._view, self._index
        return {
            "shown": len(view.lines),
            "total": view.total,
            "done": round(view.done, 2),
            "behind": max(0, index.frame_count - index.paired),
            "gone": index.missing_frames,
            "removed": index.removed,
        }

    def _advance(self) -> None:
        """Pair and filter frames in slices, for up to `MAX_CHANGES_S` seconds."""
        index, deadline = self._index, perf_counter() + MAX_CHANGES_S
        while perf_counter() < deadline:
            index.catch_up(SLICE_S)
            self._view.advance(SLICE_S)
            if index.paired >= index.frame_count and self._view.done >= 1:
                return
            sleep(SLICE_PAUSE_S)


RATE_PERIOD_S = 40
"""Seconds for which the messages per second are shown."""
LOG_PERIOD_S = 1.0
"""Seconds between two reads of the log. Each time, all lines on the page are sent."""
STATISTICS_PERIOD_S = 2.0
"""Seconds between two computations of the statistics."""
KEY_PLACEHOLDER = "YOUR-KEY"
"""Placeholder for the API key in a text to paste. The real key is never sent to a browser."""


class LinkBoard:
    """Content and actions of the dashboard."""

    def __init__(self, link: Link, attend: Callable[[int], None]) -> None:
        """`attend` changes the number of viewers, as `FrontEnd.attend` does."""
        self._link = link
        self.attend = attend
        self._actions = DashboardActions(link)
        self._cache: dict[str, tuple[object, Any]] = {}
        self._jobs: tuple[int, tuple[JobView, ...]] = (-1, ())
        """Version of the list of jobs, and the jobs."""
        self._costs = DefinitionCosts(link)
        self._log_lines: list[LogLine] = []
        """Newest log lines, in order of time."""
        self._last_log_number = -1
        self._log_read_at = 0.0
        """Monotonic time of the last read of the log."""
        self._statistics_time = 0.0
        """Monotonic time of the last computation of the statistics."""

    def sections(self) -> Mapping[str, Any]:
        """Return all small sections by name. If a section is unchanged, it is the same object as before."""
        link, view = self._link, self._link.view()
        work = view.work
        jobs, client_count = self._all_jobs(view), connected(view.clients, time())
        core_key = (view.servers, view.cores, view.protection, view.api_key_header)
        rates = tuple(map(int, link.traffic.rates(RATE_PERIOD_S)))
        return {
            "core": self._cached("core", core_key, lambda: self._core(view)),
            "clients": self._cached(
                "clients", (view.clients, client_count), lambda: clients_json(view.clients, client_count)
            ),
            "questions": self._cached(
                "questions", view.questions_version, lambda: questions_json(link.questions())
            ),
            "jobs": self._cached("jobs", jobs, lambda: jobs_json(jobs)),
            "callbacks": self._cached(
                "callbacks", work.callbacks_version, lambda: callbacks_json(link.callbacks())
            ),
            "logs": self._logs(),
            "statistics": self._statistics(),
            "rate": self._cached("rate", rates, lambda: {"per_second": rates}),
        }

    def lines(self, filter_text: str) -> LatestExchanges:
        """Return the exchanges that match a filter. Raises: DeskError for an invalid filter."""
        return LatestExchanges(self._link.traffic, filter_text)

    def exchange(self, number: int) -> Mapping[str, Any] | None:
        """Return all data of an exchange, with secrets masked as on the desk."""
        index = self._link.traffic
        if not index.table.base <= number < len(index.exchanges):
            return None
        exchange = index.exchange(number)
        is_call = exchange.method == "tools/call"
        return exchange_json(index, number, self._schema(exchange.server, exchange.name) if is_call else None)

    def output(self, job: str, after: int) -> Mapping[str, Any] | None:
        """Return output of a job, starting at byte `after`, or None if the job has no output."""
        piece = self._link.output(job, after)
        if piece is None:
            return None
        return {"text": piece.text, "start": piece.start, "end": piece.end, "last": piece.is_last}

    def config(self, server: str, client: str) -> str:
        """Return the text to paste into a client's configuration. Raises: DeskError."""
        if server not in {each.name for each in self._link.view().servers}:
            raise DeskUserError(f"Server {server[:60]!r} does not exist.", "")
        try:
            return result_of(self._link.client_config(server, client, KEY_PLACEHOLDER))
        except (TimeoutError, ValueError) as error:
            raise DeskUserError(str(error) or "The core does not answer.", "") from None

    async def act(self, name: str, body: Any, by: str) -> Verdict:
        """Execute an action by name. See `DashboardActions.act`."""
        return await self._actions.act(name, body, by)

    def _cached(self, name: str, key: object, make: Callable[[], Any]) -> Any:
        """Return the cached value if `key` is unchanged, else create a new one."""
        cached = self._cache.get(name)
        if cached is None or cached[0] != key:
            cached = self._cache[name] = (key, make())
        return cached[1]

    def _logs(self) -> Any:
        """Return log lines. The result may be up to `LOG_PERIOD_S` seconds old."""
        if self._last_log_number < 0 or monotonic() >= self._log_read_at + LOG_PERIOD_S:
            self._log_read_at = monotonic()
            if new_lines := self._link.logs(self._last_log_number):
                self._last_log_number = new_lines[-1].number
                # When a core joins, it sends past lines, which may be older than lines of other cores.
                ordered = sorted((*self._log_lines, *new_lines), key=attrgetter("time"))
                self._log_lines = ordered[-MAX_LINES:]
        return self._cached("logs", self._last_log_number, lambda: logs_json(self._log_lines))

    def _statistics(self) -> Any:
        """Return statistics. They are computed at most once in `STATISTICS_PERIOD_S` seconds."""
        statistics, cached, now = self._link.traffic.statistics, self._cache.get("statistics"), monotonic()
        if cached is not None and now < self._statistics_time + STATISTICS_PERIOD_S:
            return cached[1]
        self._statistics_time = now
        key = statistics.version, self._costs.version
        return self._cached("statistics", key, lambda: statistics_json(statistics, self._costs.now()))

    def _core(self, view: CoreView) -> Mapping[str, Any]:
        return core_json(view, [self._link.catalogue(server.name) for server in view.servers])

    def _all_jobs(self, view: CoreView) -> tuple[JobView, ...]:
        """Return all jobs.

        The rows are not cached, because the version of the list does not change while a job runs.
        """
        version = view.work.jobs_version
        if version != self._jobs[0] or view.work.running_jobs:
            self._jobs = (version, self._link.jobs())
        return self._jobs[1]

    def _schema(self, server: str, tool: str) -> Mapping[str, Any] | None:
        """Return the input schema of a tool. The schema may mark arguments as secret."""
        if server not in {each.name for each in self._link.view().servers}:
            return None
        items = self._link.catalogue(server).items
        tools = (item for item in items if item.kind is ItemKind.TOOL and item.name == tool)
        return next((item.definition.get("inputSchema") for item in tools), None)


Verdict: TypeAlias = tuple[int, Mapping[str, Any]]
"""HTTP status and JSON object."""
Arguments = TypeVar("Arguments", bound=msgspec.Struct)

DONE_RESPONSE: Verdict = (200, {"done": True})
MAX_REASON_LENGTH = 2_000
"""Maximum length in characters of the reason for declining a question. The rest is cut off."""


class AnswerRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `answer`."""

    question: int
    answers: list[Answer]


class DeclineRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `decline`."""

    question: int
    reason: str = ""


class QuestionArguments(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of an action on a question."""

    question: int


class JobArguments(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of an action on a job."""

    job: str


class CallbackArguments(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of an action on a callback."""

    server: str
    callback: int


class ClientArguments(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of an action on a client."""

    connection: int


class DashboardActions:
    """Actions on one link."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def act(self, name: str, body: Any, by: str) -> Verdict:
        """Execute an action by name.

        `by` is the display name of the caller. It is shown to other people who try to answer the same
        question.
        """
        action = _ACTIONS.get(name)
        if action is None:
            return 404, {"error": f"unknown action {name[:60]!r}; allowed: {', '.join(_ACTIONS)}"}
        try:
            return await action(self, body, by)
        except msgspec.ValidationError as error:
            return 400, {"error": f"{name}: {error}"}

    async def answer(self, body: Any, by: str) -> Verdict:
        """Answer all pages of a question."""
        request = _read(body, AnswerRequest)
        question = self._question(request.question)
        if question is None or question.state is not QuestionState.WAITING:
            return _too_late(question)
        pages, answers = question.pages, request.answers
        if len(answers) != len(pages):
            return 422, {"error": f"{len(pages)} answers are required, not {len(answers)}"}
        problems = [problem(page, answer) for page, answer in zip(pages, answers, strict=True)]
        if any(problems):
            return 422, {"error": "an answer is invalid", "problems": problems}
        return await self._settle(request.question, self._link.answer(request.question, answers, by))

    async def decline(self, body: Any, by: str) -> Verdict:
        """Decline a question."""
        request = _read(body, DeclineRequest)
        reason = request.reason.strip()[:MAX_REASON_LENGTH]
        return await self._settle(request.question, self._link.decline(request.question, reason, by))

    async def dismiss(self, body: Any, by: str) -> Verdict:
        """End a question without an answer."""
        request = _read(body, QuestionArguments)
        question = self._question(request.question)
        if question is not None and not question.may_cancel:
            return 409, {"error": "this question can only be answered or declined"}
        return await self._settle(request.question, self._link.cancel_question(request.question, by))

    async def cancel_job(self, body: Any, by: str) -> Verdict:
        """Kill a job and all its descendants."""
        request = _read(body, JobArguments)
        job = next((each for each in self._link.jobs() if each.id == request.job), None)
        if job is None:
            return 404, {"error": "the job no longer exists"}
        if job.state.is_final:
            return 409, {"error": f"the job has already ended: {job.state.value}"}
        self._link.kill_job(request.job)
        return DONE_RESPONSE

    async def fire_callback(self, body: Any, by: str) -> Verdict:
        """Fire a callback now."""
        return self._act_on_callback(body, self._link.fire_callback)

    async def cancel_callback(self, body: Any, by: str) -> Verdict:
        """Cancel a callback."""
        return self._act_on_callback(body, self._link.cancel_callback)

    async def disconnect(self, body: Any, by: str) -> Verdict:
        """Close the session or the connection of a client."""
        request = _read(body, ClientArguments)
        client = self._link.client(request.connection)
        if client is None or client.has_left:
            return 404, {"error": "the client is no longer connected"}
        self._link.disconnect(request.connection)
        return DONE_RESPONSE

    def _act_on_callback(self, body: Any, do: Callable[[str, int], None]) -> Verdict:
        """Call `do(server, number)` for the callback in `body`, unless it has ended."""
        request = _read(body, CallbackArguments)
        matches = (
            each
            for each in self._link.callbacks()
            if (each.server, each.id) == (request.server, request.callback)
        )
        callback = next(matches, None)
        if callback is None:
            return 404, {"error": "the callback no longer exists"}
        if callback.due is None:
            return 409, {"error": "the callback has already ended"}
        do(request.server, request.callback)
        return DONE_RESPONSE

    async def _settle(self, question: int, attempt: Future[bool]) -> Verdict:
        """Return the response to an attempt to end a question. `attempt` is True if it was successful."""
        try:
            has_ended_it = await asyncio.wrap_future(attempt)
            return DONE_RESPONSE if has_ended_it else _too_late(self._question(question))
        except ValueError as error:
            return 422, {"error": str(error)}

    def _question(self, number: int) -> Question | None:
        return next((each for each in self._link.questions() if each.id == number), None)


def _read(body: Any, kind: type[Arguments]) -> Arguments:
    """Convert the arguments of an action. Raises: msgspec.ValidationError that names the problem."""
    return msgspec.convert(body, kind)


def _too_late(question: Question | None) -> Verdict:
    if question is None:
        return 404, {"error": "the question no longer exists"}
    by = f" by {question.answered_by}" if question.answered_by else ""
    return 409, {"error": f"the question was already {question.word}{by}"}


Action: TypeAlias = Callable[[DashboardActions, Any, str], Awaitable[Verdict]]
_ACTIONS: dict[str, Action] = {
    "answer": DashboardActions.answer,
    "decline": DashboardActions.decline,
    "dismiss": DashboardActions.dismiss,
    "cancel-job": DashboardActions.cancel_job,
    "fire-callback": DashboardActions.fire_callback,
    "cancel-callback": DashboardActions.cancel_callback,
    "disconnect": DashboardActions.disconnect,
}
