"""What the dashboard shows, as JSON: core, clients, jobs, questions, one exchange, the newest traffic.

Secrets are masked, and every list and text is bounded. `transports.http` sends these objects to browsers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import perf_counter, sleep, time
from typing import Any

import orjson
from msgspec import to_builtins

from mcpdesk.inbox.question import Page, Question, QuestionState, oddities
from mcpdesk.link.values import (
    CallbackView,
    Catalogue,
    CatalogueItem,
    ClientView,
    CoreView,
    ItemKind,
    JobView,
    ModeView,
    ServerView,
)
from mcpdesk.protocol.revisions import with_era
from mcpdesk.recorder.export import curl
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

MOST_TEXT = 200_000
"""Characters of one message; the whole can be exported on the desk."""
CAME_ALONG = 100
"""Notifications, and exchanges that are parts of this one; the newest."""
ITEMS = 200
"""Items of a server that are listed; all are counted."""
LINES = 200
"""Clients, jobs and callbacks that are listed; the newest."""
FILES = 50
"""Files of a job that are listed; all are counted."""
ENDED = 12
"""Questions that are over; the latest."""
LONGEST = 300
"""Characters of a description or a command; it is cut, and the whole is on the desk."""
SHOWN = 200
"""Lines a front end keeps in sight."""
LOOK_S = 0.06
"""What one look may spend on pairing and filtering; the rest waits for the next."""
SLICE_S = 0.004
EXACT = 1 << 53
"""Whole numbers beyond it are not exact in a browser."""
BREATH_S = 0.0005
"""Left to the core between two slices: calls come first."""

Json = dict[str, Any]


def row_json(index: Index, number: int) -> Mapping[str, Any]:
    """One line. Names may be addresses with keys in them: those are masked."""
    exchange = index.exchange(number)
    return _fields(exchange, "kind peer server method status size") | {
        "n": number,
        "time": exchange.started,
        "out": bool(exchange.direction),
        "name": mask_text(exchange.name[:500]),
        "id": str(exchange.id) if isinstance(exchange.id, int) and exchange.id > EXACT else exchange.id,
        "took_s": None if exchange.ended is None else exchange.elapsed(0),
        "request": exchange.kind is ExchangeKind.REQUEST,
        "revision": with_era(exchange.revision),
        "slow": exchange.is_slow,
        "more": parts_in_words(exchange),
    }


def exchange_json(index: Index, number: int, schema: Any = None) -> Mapping[str, Any]:
    """Everything about one exchange. `schema` is the called tool's input schema: it may name secrets.

    Raises: IndexError when there is none of that number.
    """
    exchange = index.exchange(number)
    info = index.connections.get(exchange.connection)
    last = last_round(index, exchange)
    return {
        "row": row_json(index, number),
        "transport": info.transport if info else "",
        "phases": [
            {"kind": span.kind.name.lower(), "words": span.kind.value, "seconds": span.seconds}
            for span in phase_spans(index, exchange, time())
        ],
        "request": _side(index, exchange, exchange.request, schema),
        "response": _side(index, last, last.response, None) or {"missing": _awaited(last)},
        "events": [_event(index, exchange, frame) for frame in exchange.notifications[-CAME_ALONG:]],
        "events_count": len(exchange.notifications),
        "parts": [row_json(index, part) for part in exchange.parts[-CAME_ALONG:]],
        "curl": curl(index, number, schema=schema),
    }


def _side(index: Index, exchange: Exchange, frame: int | None, schema: Any) -> Mapping[str, Any] | None:
    if frame is None:
        return None
    value, problem = message(index, exchange, frame, schema)
    text = _text(value)
    cut = len(text) - MOST_TEXT
    said = http(index, exchange, frame)
    return {
        "text": text[:MOST_TEXT],
        "problem": problem or (f"{cut:,} more characters are not shown" if cut > 0 else ""),
        "http": None if said is None else {"line": said[0], "headers": [list(pair) for pair in said[1]]},
    }


def _event(index: Index, exchange: Exchange, frame: int) -> Mapping[str, Any]:
    kept = index.frame(frame)
    value = message(index, exchange, frame).value
    is_object = isinstance(value, dict)
    return {
        "after_s": None if kept is None else kept.time - exchange.started,
        "method": str(value.get("method", "")) if is_object else "",
        "text": _text(value.get("params") if is_object else value)[:2000],
    }


def _awaited(exchange: Exchange) -> str:
    """What stands where a message is missing."""
    if exchange.status is Status.SENT:
        return ""
    return "no response yet" if exchange.status is Status.PENDING else f"no response: {exchange.status.value}"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS, default=str).decode()


def core_json(view: CoreView, catalogues: Iterable[Catalogue]) -> Json:
    """The core and its servers."""
    return {
        "mcpdesk": __version__,
        "protection": view.protection.value,
        "key_header": view.api_key_header,
        "servers": [_server(*pair) for pair in zip(view.servers, catalogues, strict=True)],
    }


def clients_json(clients: tuple[ClientView, ...], count: int) -> Json:
    """Everybody known, whoever came last first; `count` is how many of them are connected."""
    return {"count": count, "clients": [_client(each) for each in clients[: -LINES - 1 : -1]]}


def jobs_json(jobs: tuple[JobView, ...]) -> Json:
    """Work that outlives its call, the newest first."""
    running = sum(not job.state.is_final for job in jobs)
    return {"count": len(jobs), "running": running, "jobs": [_job(each) for each in jobs[: -LINES - 1 : -1]]}


def callbacks_json(callbacks: tuple[CallbackView, ...]) -> Json:
    """Messages that come back: what is due next first, then those that are over, the latest first."""
    due = sorted((one for one in callbacks if one.due is not None), key=lambda one: one.due or 0.0)
    over = sorted((one for one in callbacks if one.due is None), key=lambda one: -(one.last_fired or 0.0))
    return {"count": len(due), "callbacks": [_callback(each) for each in [*due, *over][:LINES]]}


def statistics_json(statistics: CallStatistics, definitions: Definitions) -> Json:
    """Calls by tool and by client, whatever was called most first, after the sum of all."""
    return {
        f"{subject}s": [to_builtins(row) for row in rows_of(statistics, subject, definitions)[:LINES]]
        for subject in (Subject.TOOL, Subject.CLIENT)
    }


def questions_json(questions: tuple[Question, ...]) -> Json:
    """What waits for an answer, and what lately became of others."""
    waiting = [each for each in questions if each.state is QuestionState.WAITING]
    ended = [each for each in questions if each.state is not QuestionState.WAITING]
    return {
        "waiting": [_question(each) for each in waiting],
        "ended": [_ended(each) for each in ended[:ENDED]],
    }


def _server(server: ServerView, catalogue: Catalogue) -> Json:
    works = [item for item in catalogue.items if not item.problem or item.stale]
    return _fields(server, "name title version url wants_token mode problems") | {
        "folder": server.place,
        "modes": [_mode(mode) for mode in server.modes],
        "counts": {kind.value: sum(item.kind is kind for item in works) for kind in ItemKind},
        "left_out": len(catalogue.items) - len(works),
        "items": [_item(item) for item in catalogue.items[:ITEMS]],
        "more_items": max(0, len(catalogue.items) - ITEMS),
    }


def _mode(mode: ModeView) -> Json:
    return {"name": mode.name, "description": mode.description[:LONGEST], "tools": list(mode.tools[:ITEMS])}


def _item(item: CatalogueItem) -> Json:
    return _fields(item, "kind name title problem stale") | {
        "description": item.description.strip().partition("\n")[0][:LONGEST],
        "policy": item.policy if item.kind is ItemKind.TOOL else "",
    }


def _client(client: ClientView) -> Json:
    told = _fields(client, "connection server name transport opened calls errors p50_s p95_s tools mode")
    return told | _fields(client, "caller seen left") | {"revision": with_era(client.revision)}


def _job(job: JobView) -> Json:
    return _fields(job, "id kind server peer state started ended number size problem has_output") | {
        "name": mask_text(job.name[:LONGEST]),
        "over": job.state.is_final,
        "message": mask_text(job.message[:LONGEST]),
        "made": to_builtins(job.made[:FILES]),
        "made_count": len(job.made),
        "made_bytes": sum(file.size for file in job.made),
    }


def _callback(callback: CallbackView) -> Json:
    return _fields(callback, "server id peer delay_s fired due last_fired") | {
        "message": callback.message[:LONGEST],
        "repeats": callback.repeat_count,
        "cancelled": callback.is_cancelled,
    }


def _question(question: Question) -> Json:
    told = _fields(question, "id kind server asker tool asked deadline may_cancel")
    return told | {"pages": [_page(page) for page in question.pages]}


def _page(page: Page) -> Json:
    return _fields(page, "question header multi_select own_words detail link") | {
        "options": to_builtins(page.options),
        "required": page.is_required,
        "default": to_builtins(page.default),
        "long": page.is_long,
        "rules": dict(page.rules),
        "oddities": list(oddities(page.link)) if page.link else [],
    }


def _ended(question: Question) -> Json:
    return _fields(question, "id asker word reason asked ended") | {
        "question": question.pages[0].question,
        "by": question.answered_by,
        "answers": to_builtins(question.answers),
    }


def _fields(value: object, names: str) -> Json:
    """Attributes that are shown as they are, by name."""
    return {name: getattr(value, name) for name in names.split()}


class NewestLines:
    """The newest exchanges that pass one filter.

    Each call of `look` gives only what changed since the one before.
    """

    def __init__(self, index: Index, filter_text: str) -> None:
        """Raises: QueryError for a filter that cannot be understood."""
        self._index = index
        self._view = View(index, parse(filter_text, time()))
        self._version = -1
        self._rows: dict[int, Mapping[str, Any]] = {}
        """The lines in sight, by number, the newest first."""
        self._counts: Mapping[str, Any] = {}

    def look(self) -> Mapping[str, Any] | None:
        """What changed since the last look; None: nothing."""
        self._advance()
        version, counts = self._index.version, self._count()
        if version == self._version and counts == self._counts:
            return None
        self._version, self._counts = version, counts
        before = self._rows
        self._rows = {number: row_json(self._index, number) for number in self._newest()}
        fresh = [row for number, row in self._rows.items() if before.get(number) != row]
        return {"lines": list(self._rows), "rows": fresh, **counts}

    def everything(self) -> Mapping[str, Any]:
        """The same with all rows in sight."""
        return {"lines": list(self._rows), "rows": list(self._rows.values()), **self._counts}

    def before(self, line: int, most: int) -> Mapping[str, Any]:
        """Older lines."""
        lines, stop = self._view.lines, self._view.position(line)
        chosen = lines[max(0, stop - most) : stop]
        return {"rows": [row_json(self._index, number) for number in reversed(chosen)]}

    def _newest(self) -> list[int]:
        return list(self._view.lines[-SHOWN:])[::-1]

    def _count(self) -> Mapping[str, Any]:
        view, index = self._view, self._index
        return {
            "shown": len(view.lines),
            "total": view.total,
            "done": round(view.done, 2),
            "behind": max(0, index.frame_count - index.paired),
            "gone": index.gone,
        }

    def _advance(self) -> None:
        """Pair and filter for a while, in slices."""
        index, until = self._index, perf_counter() + LOOK_S
        while perf_counter() < until:
            index.catch_up(SLICE_S)
            self._view.advance(SLICE_S)
            if index.paired >= index.frame_count and self._view.done >= 1:
                return
            sleep(BREATH_S)
