"""What a front end sees of a core as JSON objects, for one that lives in a browser."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mcpdesk.inbox.question import Answer, Page, Question, QuestionState, oddities
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
from mcpdesk.recorder.masking import mask_text
from mcpdesk.version import __version__

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

Json = dict[str, Any]


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
    counts = {kind.value: sum(item.kind is kind for item in works) for kind in ItemKind}
    return {
        "name": server.name,
        "title": server.title,
        "version": server.version,
        "folder": server.folder,
        "url": server.url,
        "wants_token": server.wants_token,
        "mode": server.mode,
        "modes": [_mode(mode) for mode in server.modes],
        "problems": list(server.problems),
        "counts": counts,
        "left_out": len(catalogue.items) - len(works),
        "items": [_item(item) for item in catalogue.items[:ITEMS]],
        "more_items": max(0, len(catalogue.items) - ITEMS),
    }


def _mode(mode: ModeView) -> Json:
    return {"name": mode.name, "description": mode.description[:LONGEST], "tools": list(mode.tools[:ITEMS])}


def _item(item: CatalogueItem) -> Json:
    return {
        "kind": item.kind.value,
        "name": item.name,
        "title": item.title,
        "description": item.description.strip().partition("\n")[0][:LONGEST],
        "problem": item.problem,
        "stale": item.stale,
        "policy": item.policy.value if item.kind is ItemKind.TOOL else "",
    }


def _client(client: ClientView) -> Json:
    return {
        "connection": client.connection,
        "server": client.server,
        "name": client.name,
        "transport": client.transport,
        "revision": with_era(client.revision),
        "opened": client.opened,
        "calls": client.calls,
        "errors": client.errors,
        "p50_s": client.p50_s,
        "p95_s": client.p95_s,
        "tools": client.tools.value,
        "mode": client.mode,
        "caller": client.caller,
        "seen": client.seen,
        "left": client.left,
    }


def _job(job: JobView) -> Json:
    return {
        "id": job.id,
        "kind": job.kind.value,
        "server": job.server,
        "name": mask_text(job.name[:LONGEST]),
        "peer": job.peer,
        "state": job.state.value,
        "over": job.state.is_final,
        "message": mask_text(job.message[:LONGEST]),
        "started": job.started,
        "ended": job.ended,
        "number": job.number,
        "size": job.size,
        "problem": job.problem,
        "has_output": job.has_output,
        "made": [{"name": file.name, "size": file.size} for file in job.made[:FILES]],
        "made_count": len(job.made),
        "made_bytes": sum(file.size for file in job.made),
    }


def _callback(callback: CallbackView) -> Json:
    return {
        "server": callback.server,
        "id": callback.id,
        "message": callback.message[:LONGEST],
        "peer": callback.peer,
        "delay_s": callback.delay_s,
        "repeats": callback.repeat_count,
        "fired": callback.fired,
        "due": callback.due,
        "last_fired": callback.last_fired,
        "cancelled": callback.is_cancelled,
    }


def _question(question: Question) -> Json:
    return {
        "id": question.id,
        "kind": question.kind.value,
        "server": question.server,
        "asker": question.asker,
        "tool": question.tool,
        "asked": question.asked,
        "deadline": question.deadline,
        "may_cancel": question.may_cancel,
        "pages": [_page(page) for page in question.pages],
    }


def _page(page: Page) -> Json:
    return {
        "question": page.question,
        "header": page.header,
        "options": [{"label": option.label, "description": option.description} for option in page.options],
        "multi_select": page.multi_select,
        "own_words": page.own_words,
        "required": page.is_required,
        "default": _answer(page.default),
        "detail": page.detail,
        "long": page.is_long,
        "rules": dict(page.rules),
        "link": page.link,
        "oddities": list(oddities(page.link)) if page.link else [],
    }


def _ended(question: Question) -> Json:
    return {
        "id": question.id,
        "asker": question.asker,
        "question": question.pages[0].question,
        "word": question.word,
        "by": question.answered_by,
        "reason": question.reason,
        "asked": question.asked,
        "ended": question.ended,
        "answers": [_answer(answer) for answer in question.answers],
    }


def _answer(answer: Answer) -> Json:
    return {"selected": list(answer.selected), "other": answer.other}
