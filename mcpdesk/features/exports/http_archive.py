"""HTTP archives of exchanges. Source: HAR 1.2.

Unknown values are written as the format requires: -1 for sizes, 0 for durations of phases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from mcpdesk.features.exports.json_export import escaped
from mcpdesk.protocol import codec
from mcpdesk.recorder.exchange_text import held_line, moment_of
from mcpdesk.recorder.index.exchange import Exchange
from mcpdesk.recorder.index.traffic_index import Index, gaps_in_words
from mcpdesk.recorder.masking import mask_text
from mcpdesk.recorder.readable_message import held_messages, http, message
from mcpdesk.version import __version__

Pairs: TypeAlias = tuple[tuple[str, str], ...]

_HAR_START = b'{"log":{"version":"1.2","creator":{"name":"mcpdesk","version":"%b"},"comment":%b,"entries":['


def sent_over_http(index: Index, numbers: Iterable[int]) -> list[int]:
    """Return the numbers of exchanges whose request was sent over HTTP."""
    requests = ((number, index.exchange(number).request) for number in numbers)
    return [number for number, frame in requests if frame is not None and index.note(frame) is not None]


def har(index: Index, numbers: Iterable[int]) -> Iterator[bytes]:
    """Yield an HTTP archive with one entry for each exchange that passed over HTTP."""
    yield _HAR_START % (__version__.encode(), escaped(codec.dumps(gaps_in_words(index))))
    separator = b"\n"
    for number in sent_over_http(index, numbers):
        exchange = index.exchange(number)
        yield separator + escaped(codec.dumps(_har_entry(index, exchange), default=str))
        separator = b",\n"
    yield b"\n]}}\n"


def _har_entry(index: Index, exchange: Exchange) -> dict[str, Any]:
    response_frame = None if exchange.response is None else index.frame(exchange.response)
    ended = response_frame.time if response_frame else exchange.ended
    duration_ms = 0.0 if ended is None else max(0.0, round((ended - exchange.started) * 1000, 3))
    return {
        "startedDateTime": moment_of(exchange),
        "time": duration_ms,
        "request": _har_request(index, exchange),
        "response": _har_response(index, exchange),
        "cache": {},
        "timings": {"send": 0, "wait": duration_ms, "receive": 0},
        "comment": "; ".join(
            [
                f"{exchange.peer}: {exchange.method} {mask_text(exchange.name)}".strip(),
                *map(held_line, held_messages(index, exchange)),
            ]
        ),
    }


def _har_request(index: Index, exchange: Exchange) -> dict[str, Any]:
    assert exchange.request is not None
    request_line, headers = http(index, exchange, exchange.request) or ("", ())
    method, _, path_and_version = request_line.partition(" ")
    path, _, version = path_and_version.rpartition(" ")
    body, comment = _har_body(index, exchange, exchange.request)
    return {
        "method": method,
        "url": f"http://{_header(headers, 'host') or 'localhost'}{path}",
        "httpVersion": version,
        **_har_common(headers, body, comment),
        "queryString": [{"name": name, "value": value} for name, value in parse_qsl(_query(path), True)],
        "postData": {"mimeType": _header(headers, "content-type"), "text": body},
    }


def _har_response(index: Index, exchange: Exchange) -> dict[str, Any]:
    """Return the response. If it is missing or unknown, its status is 0, as in browsers."""
    frame = exchange.response
    status_line, headers = (http(index, exchange, frame) if frame is not None else None) or ("", ())
    version, _, status_and_text = status_line.partition(" ")
    status, _, status_text = status_and_text.partition(" ")
    body, comment = ("", "") if frame is None else _har_body(index, exchange, frame)
    content = {"size": len(body.encode("utf-8", "replace")), "text": body}
    return {
        "status": int(status) if len(status) == 3 and status.isdecimal() else 0,
        "statusText": status_text,
        "httpVersion": version,
        **_har_common(headers, body, comment),
        "content": {**content, "mimeType": _header(headers, "content-type") or "application/json"},
        "redirectURL": "",
    }


def _har_common(headers: Pairs, body: str, comment: str) -> dict[str, Any]:
    return {
        **({"comment": comment} if comment else {}),
        "cookies": [],
        "headers": [{"name": name, "value": value} for name, value in headers],
        "headersSize": -1,
        "bodySize": len(body.encode("utf-8", "replace")),
    }


def _har_body(index: Index, exchange: Exchange, frame: int) -> tuple[str, str]:
    """Return the recorded part of the body, and a comment on missing parts or ""."""
    value, problem = message(index, exchange, frame)
    return value if isinstance(value, str) else codec.dumps(value, default=str).decode(), problem


def _header(headers: Pairs, header_name: str) -> str:
    return next((value for name, value in headers if name.lower() == header_name), "")


def _query(path: str) -> str:
    try:
        return urlsplit(path).query
    except ValueError:
        return ""
