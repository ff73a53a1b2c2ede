"""Requests of exchanges as curl commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mcpdesk.plain_text import clean, harmless
from mcpdesk.protocol import codec
from mcpdesk.recorder.exchange_text import heading
from mcpdesk.recorder.index.exchange import Exchange, ExchangeKind
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.recorder.masking import mask_text
from mcpdesk.recorder.readable_message import http, message
from mcpdesk.recorder.record import Direction

_OWN_HEADERS = frozenset({"host", "content-length", "connection", "accept-encoding", "user-agent"})
"""Headers that curl sends by itself."""
_STATELESS_FROM = "2026"
"""Beginning of the first revision without sessions."""


def curl(
    index: Index, number: int, url: str = "", headers: Mapping[str, str] | None = None, schema: Any = None
) -> str:
    """Return the request of an exchange as a curl command.

    If the exchange used HTTP, the command repeats the recorded request. Otherwise it uses `url` and
    `headers`. `schema` is the input schema of the called tool. Values that it marks as secret are masked too.
    """
    exchange = index.exchange(number)
    frame = exchange.request if exchange.request is not None else exchange.response
    if frame is None:
        return ""
    body = message(index, exchange, frame, schema).value
    http_note = http(index, exchange, frame)
    if http_note is None:
        sent_headers = {**_headers(exchange, body), **(headers or {})}
        return _command("POST", url or "http://127.0.0.1:3333/mcp", sent_headers.items(), body)
    request_line, recorded_headers = http_note
    method, _, path_and_version = request_line.partition(" ")
    path = path_and_version.rpartition(" ")[0] or path_and_version
    host = next((value for name, value in recorded_headers if name.lower() == "host"), "127.0.0.1:3333")
    kept_headers = [pair for pair in recorded_headers if pair[0].lower() not in _OWN_HEADERS]
    return _command(method, f"http://{host}{path}", kept_headers, body)


def curl_commands(index: Index, numbers: Iterable[int]) -> Iterator[bytes]:
    """Yield the requests of clients as curl commands, each after a comment that identifies the request."""
    for number in numbers:
        exchange = index.exchange(number)
        if (
            exchange.kind is ExchangeKind.REQUEST
            and exchange.direction is Direction.IN
            and exchange.request is not None
        ):
            title = clean(" ".join(heading(exchange).split()), newlines=False)
            yield f"# {number}. {title}\n{curl(index, number)}\n\n".encode("utf-8", "replace")


def _headers(exchange: Exchange, body: Any) -> dict[str, str]:
    """Return the headers that an HTTP client of the same revision would send."""
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if exchange.revision >= _STATELESS_FROM and isinstance(body, dict):
        headers |= {"MCP-Protocol-Version": exchange.revision, "Mcp-Method": exchange.method}
        if exchange.name:
            headers["Mcp-Name"] = mask_text(exchange.name)
    return headers


def _command(method: str, url: str, headers: Iterable[tuple[str, str]], body: Any) -> str:
    lines = [f"curl -X {shlex.quote(clean(method))} {shlex.quote(clean(url, newlines=False))}"]
    lines += [f"  -H {shlex.quote(clean(f'{name}: {value}', newlines=False))}" for name, value in headers]
    if body not in ("", None):
        text = body if isinstance(body, str) else codec.dumps(body).decode()
        lines.append(f"  --data {shlex.quote(harmless(text))}")
    return " \\\n".join(lines)
