"""Texts about one exchange: its HTTP headers, each with its verdict, and the steps of an operation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from typing import Any

from textual.content import Content

from mcpdesk.recorder.index.exchange import Exchange, Status
from mcpdesk.recorder.index.traffic_index import Index, is_round
from mcpdesk.recorder.readable_message import Checked, Verdict, http, http_checked, message
from mcpdesk.tui.render.amounts import duration
from mcpdesk.tui.render.safe_text import clean, one_line

MAX_PARTS = 50
"""Exchanges of an operation that are laid out; the newest."""
_STYLES = {Verdict.GOOD: "$text-success", Verdict.BAD: "$text-error", Verdict.OPEN: "$text-muted"}


def http_text(index: Index, whole: Exchange, schema: Any = None) -> Content:
    """Request and response of an exchange and its parts; says so where there was no HTTP."""
    ones = [whole, *(index.exchange(row) for row in whole.parts[-MAX_PARTS:])]
    blocks: list[Content] = []
    for one in ones:
        texts = list(_blocks(index, one, schema if one.method == whole.method else None))
        if texts and len(ones) > 1:
            texts.insert(0, Content.styled(one_line(f"{one.method} #{one.id}"), "bold $text-primary"))
        blocks += texts
    return Content("\n\n").join(blocks) if blocks else Content("This did not pass over HTTP.")


def _blocks(index: Index, one: Exchange, schema: Any) -> Iterator[Content]:
    """Request, then response, as far as there are any; what came by POST is held against its body."""
    if one.request is not None and (asked := http_checked(index, one, one.request, schema)) is not None:
        line, headers = asked
        if line.startswith("POST "):
            yield _block(line, [_checked(header) for header in sorted(headers, key=_order_of)])
        else:
            yield from _plain_block(index, one, one.request)
    if one.response is not None:
        yield from _plain_block(index, one, one.response)


def _plain_block(index: Index, one: Exchange, frame: int) -> Iterator[Content]:
    if (said := http(index, one, frame)) is not None:
        yield _block(said[0], [_plain(name, value) for name, value in said[1]])


def _block(line: str, headers: list[Content]) -> Content:
    return Content("\n").join([Content.styled(clean(line), "bold"), *headers])


def _checked(header: Checked) -> Content:
    """One header with glyph and words; one that is missing has no value."""
    style = _STYLES[header.verdict]
    glyph = header.verdict.value if header.words else " "
    value = f" {one_line(header.value)}" if header.value else ""
    return Content.assemble(
        (f"{glyph} ", style),
        (f"{one_line(header.name)}:", _name_style(header.name)),
        value,
        (f"  {header.words}" if header.words else "", style),
    )


def _plain(name: str, value: str) -> Content:
    return Content.assemble("  ", (f"{one_line(name)}: ", _name_style(name)), one_line(value))


def _order_of(header: Checked) -> int:
    """Faults come first, then what was judged, then the rest."""
    return 0 if header.verdict is Verdict.BAD else 1 if header.words else 2


def _name_style(name: str) -> str:
    """Those the protocol itself reads stand out."""
    return "$text-primary" if name.lower().startswith("mcp-") else "$text-muted"


MESSAGES = "messages"
"""The member of a step that holds its request and response."""
MAX_STEPS = 100
"""Steps that are laid out; the newest."""


def steps(index: Index, whole: Exchange, schema: Any = None) -> dict[str, Any]:
    """Title -> what was said in that step. `schema` is the called tool's input schema, if it is known."""
    return {title: _step(index, one, whole, schema) for one, title in _titled(index, whole)}


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
        titled.append((ended, one, f"{what} #{one.id} · {begun}{_outcome(one, ended)}"))
    titled.sort(key=lambda step: step[0])
    return [(one, title) for _, one, title in titled[-MAX_STEPS:]]


def _ended(index: Index, one: Exchange) -> float:
    """When this step alone ended; infinity while it is under way."""
    kept = None if one.response is None else index.frame(one.response)
    ended = kept.time if kept else one.ended
    return inf if ended is None else ended


def _outcome(one: Exchange, ended: float) -> str:
    if ended == inf:
        return Status.PENDING.value
    words = Status.ASKS.value if one.rounds > 1 else one.status.value
    return f"{words} after {duration(max(0.0, ended - one.started))}"


def _step(index: Index, one: Exchange, whole: Exchange, schema: Any) -> dict[str, Any]:
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
