"""The steps of an operation as one value to unfold: rounds, questions asked meanwhile, looks at its task."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from mcpdesk.recorder.exchange import Exchange, Status
from mcpdesk.recorder.index import Index
from mcpdesk.recorder.legible import message
from mcpdesk.recorder.rounds import is_round
from mcpdesk.tui.render.amounts import duration

MESSAGES = "messages"
"""The member of a step that holds its request and response."""
MOST = 100
"""Steps that are laid out; the newest."""


def steps(index: Index, whole: Exchange, schema: Any = None) -> dict[str, Any]:
    """Title -> what was said in that step. `schema` is the called tool's input schema, if it is known."""
    return {title: _said(index, one, whole, schema) for one, title in _titled(index, whole)}


def title_of(index: Index, whole: Exchange, number: int) -> str | None:
    """The title under which `steps` has an exchange; None when it is not laid out."""
    return next((title for one, title in _titled(index, whole) if one.number == number), None)


def _titled(index: Index, whole: Exchange) -> list[tuple[Exchange, str]]:
    """The exchanges of an operation in the order they ended, each with its title."""
    rounds = 0
    titled: list[tuple[float, Exchange, str]] = []
    for row in (whole.number, *whole.parts):
        one = whole if row == whole.number else index.exchange(row)
        repeats = is_round(one, whole)
        rounds += repeats
        what = f"round {rounds}" if repeats and whole.rounds > 1 else one.method
        begun = "" if one is whole else f"at +{duration(max(0.0, one.started - whole.started))}, "
        ended = _ended(index, one)
        titled.append((ended, one, f"{what} #{one.id} · {begun}{_fate(one, ended)}"))
    titled.sort(key=lambda step: step[0])
    return [(one, title) for _, one, title in titled[-MOST:]]


def _ended(index: Index, one: Exchange) -> float:
    """When this step alone ended; infinity while it is under way."""
    kept = None if one.response is None else index.frame(one.response)
    ended = kept.time if kept else one.ended
    return inf if ended is None else ended


def _fate(one: Exchange, ended: float) -> str:
    if ended == inf:
        return Status.PENDING.value
    words = Status.ASKS.value if one.rounds > 1 else one.status.value
    return f"{words} after {duration(max(0.0, ended - one.started))}"


def _said(index: Index, one: Exchange, whole: Exchange, schema: Any) -> dict[str, Any]:
    """A step: first what matters of it, then its whole messages."""
    repeats = is_round(one, whole)
    request = _message(index, one, one.request, schema if repeats else None)
    response = _message(index, one, one.response)
    if repeats:
        parts = _answers(request) | _asked(response)
    elif one.direction is not whole.direction:
        parts = {"question": _member(request, "params"), "answer": _member(response, "result", "error")}
    else:
        parts = {"result": _member(response, "result", "error")}
    return {**parts, MESSAGES: {"request": request, "response": response}}


def _answers(request: Any) -> dict[str, Any]:
    params = _member(request, "params")
    answers = params.get("inputResponses") if isinstance(params, Mapping) else None
    return {} if answers is None else {"answers": answers}


def _asked(response: Any) -> dict[str, Any]:
    result = _member(response, "result", "error")
    asked = result.get("inputRequests") if isinstance(result, Mapping) else None
    if not isinstance(asked, Mapping):
        return {"result": result}
    return {
        "questions": {_key(key, question): _member(question, "params") for key, question in asked.items()}
    }


def _key(key: str, question: Any) -> str:
    method = question.get("method") if isinstance(question, Mapping) else None
    return f"{key} ({method})" if method else key


def _member(value: Any, *names: str) -> Any:
    """The first of some members a message has; the message itself when it is none."""
    if not isinstance(value, Mapping):
        return value
    return next((value[name] for name in names if name in value), None)


def _message(index: Index, one: Exchange, frame: int | None, schema: Any = None) -> Any:
    return None if frame is None else message(index, one, frame, schema).value
