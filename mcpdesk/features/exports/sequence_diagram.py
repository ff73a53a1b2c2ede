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
_ESCAPES = str.maketrans({"#": "#35;", ";": "#59;", "<": "#lt;", ">": "#gt;"})
_QUESTION_METHOD = "elicitation/create"


def mermaid(index: Index, numbers: Iterable[int]) -> Iterator[bytes]:
    """Yield a diagram of the first `MAX_EXCHANGES` exchanges, with messages in the order of their times."""
    exchanges = [each for each in map(index.exchange, numbers) if each.kind is not ExchangeKind.MALFORMED]
    frames = {frame for each in exchanges for frame in each.notifications}
    # A notification that belongs to another exchange is drawn with that exchange.
    exchanges = [each for each in exchanges if each.request is None or each.request not in frames]
    drawn_exchanges = exchanges[:MAX_EXCHANGES]
    participants = _Participants()
    lines = [line for each in drawn_exchanges for line in _lines(index, each, participants)]
    # The sort is stable: messages with the same time stay in the order of their exchanges.
    lines.sort(key=itemgetter(0))
    yield b"sequenceDiagram\n"
    yield from (f"    {line}\n".encode("utf-8", "replace") for line in participants.lines())
    yield from (f"    {line}\n".encode("utf-8", "replace") for _, line in lines)
    aliases = participants.aliases
    if (omitted := len(exchanges) - len(drawn_exchanges)) and aliases:
        span = ",".join(dict.fromkeys((aliases[0], aliases[-1])))
        note = f"{omitted} more exchanges are left out, choose others with --filter"
        yield f"    Note over {span}: {note}\n".encode()


class _Participants:
    """Participants by kind and name, each with a short alias, in order of appearance."""

    def __init__(self) -> None:
        self._aliases: dict[tuple[str, str], str] = {}

    @property
    def aliases(self) -> list[str]:
        return list(self._aliases.values())

    def alias(self, kind: str, name: str) -> str:
        """Return the alias of a participant, which is added if it is new."""
        return self._aliases.setdefault((kind, name), f"{kind}{len(self._aliases) + 1}")

    def lines(self) -> Iterator[str]:
        for (kind, name), alias in self._aliases.items():
            yield f"{'actor' if kind == 'person' else 'participant'} {alias} as {_plain(name)}"


def _lines(index: Index, exchange: Exchange, participants: _Participants) -> Iterator[tuple[float, str]]:
    """Yield the arrows of one exchange, each with its Unix time."""
    client = participants.alias("client", exchange.peer or "client")
    server = participants.alias("server", exchange.server or "server")
    sender, receiver = (client, server) if exchange.direction is Direction.IN else (server, client)
    title = _plain(f"{exchange.method or exchange.kind} {mask_text(exchange.name)}")
    if exchange.kind is not ExchangeKind.REQUEST:
        yield exchange.started, f"{sender}-){receiver}: {title}"
        return
    yield exchange.started, f"{sender}->>{receiver}: {title}"
    person = ""
    if exchange.method == _QUESTION_METHOD:
        person = participants.alias("person", f"person at {exchange.peer}")
        yield exchange.started, f"{receiver}->>{person}: {_plain(_question(index, exchange)) or 'asks'}"
    for outcome in held_messages(index, exchange):
        note = f"the {outcome.side} was held at the desk for {outcome.held_s:.1f} s: {outcome.how}"
        yield exchange.started + outcome.held_s, f"Note over {client},{server}: {_plain(note)}"
    notifications = [frame for frame in map(index.frame, exchange.notifications) if frame is not None]
    for origin, target, frames in (
        (sender, receiver, [frame for frame in notifications if frame.direction is exchange.direction]),
        (receiver, sender, [frame for frame in notifications if frame.direction is not exchange.direction]),
    ):
        if frames:
            count = f"{len(frames)} notification{'s' if len(frames) > 1 else ''}"
            yield frames[0].time, f"{origin}-){target}: {count}"
    if exchange.ended is None or exchange.status in (Status.CANCELLED, Status.LEFT, Status.LOST):
        note = "no answer" if exchange.ended is None else f"{exchange.status}, no answer"
        yield exchange.ended or exchange.started, f"Note over {client},{server}: {title}: {note}"
        return
    texts = summary(index, exchange)
    has_failed = exchange.status in (Status.ERROR, Status.TOOL_ERROR) or texts.has_failed
    duration = f"{exchange.elapsed(0) * 1000:.1f} ms"
    answer = f"{exchange.status if has_failed or exchange.status is not Status.OK else 'ok'}, {duration}"
    if has_failed or person:
        answer += f": {texts.result}"
    if person:
        yield exchange.ended, f"{person}-->>{receiver}: {_plain(answer)}"
    yield exchange.ended, f"{receiver}{'--x' if has_failed else '-->>'}{sender}: {_plain(answer)}"


def _question(index: Index, exchange: Exchange) -> str:
    """Return the text of a question to a person, or ""."""
    value: Any = None if exchange.request is None else message(index, exchange, exchange.request).value
    params = value.get("params") if isinstance(value, dict) else None
    return str(params.get("message", "")) if isinstance(params, dict) else ""


def _plain(text: str) -> str:
    """Return text that cannot end an arrow's line or begin another statement."""
    line = clean(" ".join(text.split()), newlines=False)
    if len(line) > _MAX_ANSWER_LENGTH:
        line = f"{line[: _MAX_ANSWER_LENGTH - 1]}…"
    return line.translate(_ESCAPES)
