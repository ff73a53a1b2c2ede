"""Exchanges as JSON: JSON Lines for programs, and a single exchange with all its data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from mcpdesk.plain_text import json_escaped
from mcpdesk.protocol import codec
from mcpdesk.recorder.exchange_text import MAX_LOG_LINES, LogLinesOf, logged_text, no_log_lines
from mcpdesk.recorder.index.exchange import Exchange
from mcpdesk.recorder.index.traffic_index import Index, with_gaps
from mcpdesk.recorder.masking import mask_text
from mcpdesk.recorder.readable_message import held_messages, http, message
from mcpdesk.recorder.record import Gap

_MAX_NOTIFICATIONS = 1_000
"""Maximum number of notifications that are written with one exchange."""


def json_lines(
    index: Index, numbers: Iterable[int], log_lines_of: LogLinesOf = no_log_lines
) -> Iterator[bytes]:
    """Yield one line per exchange and per gap, including the newline."""
    for number_or_gap in with_gaps(index, numbers):
        if isinstance(number_or_gap, Gap):
            record = _gap(number_or_gap)
        else:
            record = as_dict(index, number_or_gap, log_lines_of)
        yield escaped(codec.dumps(record, option=orjson.OPT_APPEND_NEWLINE, default=str))


def as_json(index: Index, number: int, log_lines_of: LogLinesOf = no_log_lines) -> str:
    """Return one exchange as indented JSON, including its parts."""
    record = as_dict(index, number, log_lines_of)
    if parts := index.exchange(number).parts:
        record["parts"] = [as_dict(index, part, log_lines_of) for part in parts]
    return escaped(codec.dumps(record, option=orjson.OPT_INDENT_2, default=str)).decode()


def as_dict(index: Index, number: int, log_lines_of: LogLinesOf = no_log_lines) -> dict[str, Any]:
    """Return all data of an exchange as a JSON object.

    Times are in Unix seconds, `took_ms` in milliseconds.
    """
    exchange = index.exchange(number)
    record: dict[str, Any] = {
        "number": number,
        "time": exchange.started,
        "kind": exchange.kind.value,
        "server": exchange.server,
        "peer": exchange.peer,
        "direction": exchange.direction.name.lower(),
        "method": exchange.method,
        "name": exchange.name if index.reveals_secrets else mask_text(exchange.name),
        "id": exchange.id,
        "status": exchange.status.value,
        "took_ms": None if exchange.ended is None else round(exchange.elapsed(0) * 1000, 3),
        "size": exchange.size,
        "revision": exchange.revision,
    }
    if exchange.part_of is not None:
        record["part_of"] = exchange.part_of
    for side, frame in (("request", exchange.request), ("response", exchange.response)):
        if frame is not None:
            record[side] = _side(index, exchange, frame)
    if outcomes := held_messages(index, exchange):
        record["held"] = [
            {
                "side": outcome.side,
                "how": outcome.how,
                "seconds": round(outcome.held_s, 3),
                "was": outcome.was,
                "now": outcome.now,
            }
            for outcome in outcomes
        ]
    if lines := log_lines_of(exchange):
        record["log"] = [
            {"time": line.time, "level": line.level, "text": logged_text(index, line), "where": line.where}
            for line in lines[-MAX_LOG_LINES:]
        ]
    if exchange.notifications:
        frames = exchange.notifications[:_MAX_NOTIFICATIONS]
        record["notifications"] = [message(index, exchange, frame).value for frame in frames]
        if omitted := len(exchange.notifications) - len(frames):
            record["notifications_left_out"] = omitted
    return record


def _side(index: Index, exchange: Exchange, frame: int) -> dict[str, Any]:
    value, problem = message(index, exchange, frame)
    side: dict[str, Any] = {"message": value}
    if problem:
        side["problem"] = problem
    if http_note := http(index, exchange, frame):
        side["http"] = {"line": http_note[0], "headers": http_note[1]}
    return side


def _gap(gap: Gap) -> dict[str, Any]:
    return {"kind": "gap", "frames": gap.frames, "why": gap.why}


def escaped(data: bytes) -> bytes:
    """Return JSON with characters that are unsafe on a terminal escaped."""
    return data if data.isascii() and b"\x7f" not in data else json_escaped(data.decode()).encode()
