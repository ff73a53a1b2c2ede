"""Text of exchanges for people: a heading, the messages as JSON, outcomes at the desk, and log lines.

Secrets are masked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

import orjson

from mcpdesk.plain_text import clean, harmless
from mcpdesk.protocol import codec
from mcpdesk.recorder.index.call_lookup import CallLogLine
from mcpdesk.recorder.index.exchange import Exchange
from mcpdesk.recorder.index.traffic_index import Index, with_parts
from mcpdesk.recorder.masking import mask_text
from mcpdesk.recorder.readable_message import HoldOutcome, held_messages, message
from mcpdesk.recorder.record import Direction

MAX_LOG_LINES = 200
"""Maximum number of log lines of one call. Only the last ones are written."""

LogLinesOf: TypeAlias = Callable[[Exchange], Sequence[CallLogLine]]
"""Function that returns the log lines of a call's code."""


def no_log_lines(_: Exchange) -> Sequence[CallLogLine]:
    """Return no log lines."""
    return ()


def as_text(index: Index, number: int, log_lines_of: LogLinesOf = no_log_lines) -> str:
    """Return one exchange and its parts as text, each with a heading, for a chat or an email."""
    pieces = []
    for exchange in map(index.exchange, with_parts(index, [number])):
        pieces.append(heading(exchange))
        for title, frame in (("request", exchange.request), ("response", exchange.response)):
            if frame is not None:
                value, problem = message(index, exchange, frame)
                pieces.append(f"{title}{f' ({_in_one_line(problem)})' if problem else ''}:\n{pretty(value)}")
        for outcome in held_messages(index, exchange):
            replacement = f":\n{pretty(outcome.now)}" if outcome.now is not None else ""
            pieces.append(f"{held_line(outcome)}{replacement}")
        if lines := log_lines_of(exchange):
            pieces.append(f"log of the call:\n{log_text(index, lines)}")
    return "\n\n".join(pieces)


def heading(exchange: Exchange) -> str:
    """Return one line with peer, server, message, status and duration."""
    arrow = "→" if exchange.direction is Direction.IN else "←"
    duration = "" if exchange.ended is None else f", {exchange.elapsed(0) * 1000:.1f} ms"
    revision = f", {exchange.revision}" if exchange.revision else ""
    peers = f"{exchange.peer} {arrow} {exchange.server or 'server'}"
    title = f"{peers}  {title_of(exchange)}"
    return clean(f"{moment_of(exchange)}  {title}  {exchange.status}{duration}{revision}", newlines=False)


def title_of(exchange: Exchange) -> str:
    """Return method and name."""
    return f"{exchange.method or exchange.kind} {mask_text(exchange.name)}".strip()


def moment_of(exchange: Exchange) -> str:
    """Return the start of an exchange in ISO 8601."""
    return time_text(exchange.started)


def time_text(moment: float) -> str:
    """Return a Unix time in ISO 8601."""
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")


def pretty(value: Any) -> str:
    """Return a message as indented JSON, or as its text, with unsafe characters escaped."""
    text = value if isinstance(value, str) else codec.dumps(value, option=orjson.OPT_INDENT_2).decode()
    return harmless(text)


def held_line(outcome: HoldOutcome) -> str:
    """Return a sentence about the outcome of a held message."""
    return clean(
        f"At the desk the {outcome.side} was held for {outcome.held_s:.1f} s: {outcome.how}", newlines=False
    )


def log_text(index: Index, lines: Sequence[CallLogLine]) -> str:
    """Return the last `MAX_LOG_LINES` lines as text, each below a heading with time, level and location."""
    last_lines = lines[-MAX_LOG_LINES:]
    omission = (
        [f"… {len(lines) - len(last_lines):,} lines before these"] if len(last_lines) < len(lines) else []
    )
    blocks = []
    for line in last_lines:
        line_heading = "  ".join(filter(None, (time_text(line.time), line.level, line.where)))
        blocks.append(f"{clean(line_heading)}\n{logged_text(index, line)}")
    return "\n".join([*omission, *blocks])


def logged_text(index: Index, line: CallLogLine) -> str:
    """Return the text of a log line."""
    text = clean(line.text)
    return text if index.reveals_secrets else mask_text(text)


def _in_one_line(text: str) -> str:
    return clean(" ".join(text.split()), newlines=False)
