"""Resumption of an event stream on a new connection."""

from __future__ import annotations

from mcpdesk.client.answers.http_answers import EVENT_STREAM
from mcpdesk.protocol.framing import EventFramer

RETRY_S = 1.0
"""Pause before a stream is resumed, if the server does not specify one."""
MIN_RETRY_S = 0.1
"""Shortest pause before a stream is resumed, even if the server specifies a shorter one."""


def next_framer(framer: EventFramer) -> EventFramer:
    """Return a framer for the next connection of a stream. The server sends an incomplete event again."""
    new_framer = EventFramer(framer.limit)
    new_framer.last_id, new_framer.retry_ms = framer.last_id, framer.retry_ms
    return new_framer


def pause_s(framer: EventFramer) -> float:
    """Pause in seconds before a stream is resumed."""
    return RETRY_S if framer.retry_ms is None else max(MIN_RETRY_S, framer.retry_ms / 1000)


def resumption_headers(framer: EventFramer) -> dict[str, str]:
    """Return the headers of a request that resumes a stream."""
    position = {"Last-Event-ID": framer.last_id} if framer.last_id else {}
    return {"Accept": EVENT_STREAM, **position}


def resumption_failure(status: int, reason: str) -> str:
    """Return the message for a server that refuses to resume a stream."""
    explanation = f": {reason}" if reason else ""
    return f"the event stream ended without the answer; resuming it failed with HTTP {status}{explanation}"
