"""One exchange in full as JSON: both messages, what HTTP said, what came along. Secrets are masked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from mcpdesk.link.board_lines import row_json
from mcpdesk.recorder.export.exchange_text import curl
from mcpdesk.recorder.index.exchange import Exchange, Status
from mcpdesk.recorder.index.traffic_index import Index, last_round
from mcpdesk.recorder.readable_message import http, message

MOST_TEXT = 200_000
"""Characters of one message; the whole can be exported on the desk."""
CAME_ALONG = 100
"""Notifications, and exchanges that are parts of this one; the newest."""


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
