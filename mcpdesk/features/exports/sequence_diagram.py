"""Exchanges as a Mermaid sequence diagram: sender, receiver, message, result and duration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any

from mcpdesk.plain_text import clean
from mcpdesk.recorder.exchange_summary import summary
from mcpdesk.recorder.index.exchange import Exchange, ExchangeKind, Status
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.recorder.masking import mask_text
from mcpdesk.recorder.readable_message import held_messages, message
from mcpdesk.recorder.record import Direction

MAX_EXCHANGES = 200
"""Maximum number of exchanges in a diagram.

Longer diagrams are unreadable, and Mermaid refuses texts over 50,000 characters.
"""
_MAX_ANSWER_LENGTH = 60
"""Maximum number of characters of an answer on its arrow."""
_ESCAPED = str.maketrans({"#": "#35;", ";": "#59;", "<": "#lt;", ">": "#gt;"})
_ASKS_A_PERSON = "elicitation/create"


def mermaid(index: Index, numbers: Iterable[int]) -> Iterator[bytes]:
    """Yield a diagram of the first `MAX_EXCHANGES` exchanges, with messages in the order of their times."""
    chosen = [one for one in map(index.exchange, numbers) if one.kind is not ExchangeKind.MALFORMED]
    frames = {frame for one in chosen for frame in one.notifications}
    chosen = [one for one in chosen if one.request is None or one.request not in frames]
    shown = chosen[:MAX_EXCHANGES]
    names = _Participants()
    lines = [line for one in shown for line in _lines(index, one, names)]
    # The sort is stable: messages with the same time stay in the order of their exchanges.
    lines.sort(key=itemgetter(0))
    yield b"sequenceDiagram\n"
    yield from (f"    {line}\n".encode("utf-8", "replace") for line in names.lines())
    yield from (f"    {line}\n".encode("utf-8", "replace") for _, line in lines)
    if (left := len(chosen) - len(shown)) and names.aliases:
        over = ",".join(dict.fromkeys((names.aliases[0], names.aliases[-1])))
        note = f"{left} more exchanges are left out, choose others with --filter"
        yield f"    Note over {over}: {note}\n".encode()


class _Participants:
    """Participants by kind and name, each with a short alias, in order of appearance."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}

    @property
    def aliases(self) -> list[str]:
        return list(self._known.values())

    def alias(self, kind: str, name: str) -> str:
        return self._known.setdefault((kind, name), f"{kind}{len(self._known) + 1}")

    def lines(self) -> Iterator[str]:
        for (kind, name), alias in self._known.items():
            yield f"{'actor' if kind == 'person' else 'participant'} {alias} as {_plain(name)}"


def _lines(index: Index, one: Exchange, names: _Participants) -> Iterator[tuple[float, str]]:
    """Yield the arrows of one exchange, each with its Unix time."""
    client, server = (
        names.alias("client", one.peer or "client"),
        names.alias("server", one.server or "server"),
    )
    asks, asked = (client, server) if one.direction is Direction.IN else (server, client)
    title = _plain(f"{one.method or one.kind} {mask_text(one.name)}")
    if one.kind is not ExchangeKind.REQUEST:
        yield one.started, f"{asks}-){asked}: {title}"
        return
    yield one.started, f"{asks}->>{asked}: {title}"
    person = names.alias("person", f"person at {one.peer}") if one.method == _ASKS_A_PERSON else ""
    if person:
        yield one.started, f"{asked}->>{person}: {_plain(_question(index, one)) or 'asks'}"
    for outcome in held_messages(index, one):
        words = f"the {outcome.side} was held at the desk for {outcome.held_s:.1f} s: {outcome.how}"
        yield one.started + outcome.held_s, f"Note over {client},{server}: {_plain(words)}"
    notifications = [frame for frame in map(index.frame, one.notifications) if frame is not None]
    for one_way, other, frames in (
        (asks, asked, [frame for frame in notifications if frame.direction is one.direction]),
        (asked, asks, [frame for frame in notifications if frame.direction is not one.direction]),
    ):
        if frames:
            count = f"{len(frames)} notification{'s' if len(frames) > 1 else ''}"
            yield frames[0].time, f"{one_way}-){other}: {count}"
    if one.ended is None or one.status in (Status.CANCELLED, Status.LEFT, Status.LOST):
        words = "no answer" if one.ended is None else f"{one.status}, no answer"
        yield one.ended or one.started, f"Note over {client},{server}: {title}: {words}"
        return
    texts = summary(index, one)
    has_failed = one.status in (Status.ERROR, Status.TOOL_ERROR) or texts.has_failed
    took = f"{one.elapsed(0) * 1000:.1f} ms"
    answer = f"{one.status if has_failed or one.status is not Status.OK else 'ok'}, {took}"
    if has_failed or person:
        answer += f": {texts.result}"
    if person:
        yield one.ended, f"{person}-->>{asked}: {_plain(answer)}"
    yield one.ended, f"{asked}{'--x' if has_failed else '-->>'}{asks}: {_plain(answer)}"


def _question(index: Index, one: Exchange) -> str:
    value: Any = None if one.request is None else message(index, one, one.request).value
    params = value.get("params") if isinstance(value, dict) else None
    return str(params.get("message", "")) if isinstance(params, dict) else ""


def _plain(text: str) -> str:
    """Return text that cannot end an arrow's line or begin another statement."""
    words = clean(" ".join(text.split()), newlines=False)
    return (words if len(words) <= _MAX_ANSWER_LENGTH else f"{words[: _MAX_ANSWER_LENGTH - 1]}…").translate(
        _ESCAPED
    )
