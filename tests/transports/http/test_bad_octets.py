"""Octets that are not UTF-8, and session ids of no valid form, over a raw socket: a 4xx, never a 500."""

from __future__ import annotations

import asyncio
import logging
from urllib.parse import urlsplit

import orjson
import pytest

from tests.support.features import having
from tests.support.gateway import gateway
from tests.support.patience import within

CALL = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
BAD = (b"\x92h", b"\xff\xfe", b"\xed\xa0\x80", b"\xc3")
READ_HEADERS = (
    "Mcp-Session-Id", "Last-Event-ID", "Mcp-Method", "Mcp-Name", "Mcp-Param-City", "MCP-Protocol-Version",
    "Authorization", "X-API-Key", "Cookie", "Accept", "Content-Type", "Content-Encoding", "Origin", "Expect",
    "If-None-Match", "If-Range", "Range", "Upgrade", "traceparent", "tracestate", "baggage", "Sec-Fetch-Site",
    "Access-Control-Request-Headers", "Access-Control-Request-Method", "Accept-Encoding",
)  # fmt: skip
"""Headers that are interpreted."""
PATHS = (
    "/", "/health", "/status", "/jobs", "/jobs/none", "/jobs/none/manifest", "/jobs/none/download",
    "/ws/jobs/none", "/mcp/progress/none", "/mcp/sample", "/mcp/sample/sse", "/nowhere",
    *having("gateway", "/v1/mcp"),
)  # fmt: skip


async def _status(url: str, request: bytes) -> tuple[int, bytes]:
    """The status and the body of the answer to a raw request."""
    place = urlsplit(url)
    async with within():
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        sizes = [int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length")]
        length = sizes[0] if sizes else 0
        body = await reader.readexactly(length)
        writer.close()
    return int(head.split()[1]), body


def _get(method: str, target: bytes, *lines: bytes) -> bytes:
    body = CALL if method == "POST" else b""
    kind = [b"Content-Type: application/json", b"Accept: application/json, text/event-stream"]
    given = {line.partition(b":")[0].lower() for line in lines}
    kind = [each for each in kind if each.partition(b":")[0].lower() not in given]
    head = [b"%b %b HTTP/1.1" % (method.encode(), target), b"Host: 127.0.0.1", *kind, *lines]
    return b"\r\n".join([*head, b"Content-Length: %d" % len(body), b"", b""]) + body


@pytest.mark.sampled(4)
@pytest.mark.parametrize("header", READ_HEADERS)
async def test_a_header_that_is_not_utf_8_is_refused_and_never_an_error_of_ours(
    header: str, caplog: pytest.LogCaptureFixture
) -> None:
    line = b"%b: %b" % (header.encode(), BAD[READ_HEADERS.index(header) % len(BAD)])
    async with gateway() as gate:
        for path in PATHS:
            for method in ("GET", "POST"):
                status, body = await _status(gate.served.url, _get(method, path.encode(), line))
                assert (status, b"The header %b is not UTF-8" % header.encode() in body) == (400, True), path
    _nothing_failed(caplog)


async def test_a_header_that_nobody_interprets_may_have_any_octets(caplog: pytest.LogCaptureFixture) -> None:
    async with gateway() as gate:
        for path in PATHS:
            for name in (b"User-Agent", b"X-Other"):
                status, _ = await _status(gate.served.url, _get("POST", path.encode(), name + b": \xe4\xff"))
                assert status < 500 and status != 400
    _nothing_failed(caplog)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("session", [b"\xc3\xa4", b"a b", b"a\tb", b"\x92h"])
@pytest.mark.parametrize("path", ["/jobs", "/mcp/sample", *having("gateway", "/v1/mcp"), "/mcp/sample/sse"])
async def test_a_session_id_of_no_valid_form_is_refused_with_a_sentence(session: bytes, path: str) -> None:
    async with gateway() as gate:
        for method in ("GET", "POST", "DELETE"):
            line = b"Mcp-Session-Id: " + session
            status, body = await _status(gate.served.url, _get(method, path.encode(), line))
            assert status == 400 and b"Mcp-Session-Id" in body


TARGETS = (
    b"/jobs/\x92h", b"/jobs/%92h", b"/mcp/%92", b"/mcp/\x92", b"/mcp/progress/%ff", b"/ws/jobs/%ed%a0%80",
    b"/jobs/none/download?file=%92", b"/jobs/none/download?file=\x92", b"/jobs/none?stream=%92&interval=%ff",
    b"/mcp/progress/none?after=%92", b"/mcp/sample?mode=%92",
    *having("gateway", b"/v1/mcp?server=%92", b"/v1/mcp?server=\x92"),
    b"/mcp/sample?stream=%ff", b"/mcp/sample/sse?connection=%92", b"/mcp/sample/messages?connection=\xff",
    b"/events?filter=%92", b"/jobs?x=%00", b"/jobs/%00", b"/mcp/sample?api_key=%92",
    b"/mcp/sample?api_key=\x92", b"/mcp/sample?access_token=\x92", b"/%92", b"/\xff",
)  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", TARGETS)
async def test_a_target_with_octets_that_are_not_utf_8_is_never_an_error_of_ours(
    target: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with gateway() as gate:
        for method in ("GET", "POST", "DELETE", "OPTIONS"):
            status, body = await _status(gate.served.url, _get(method, target))
            assert status < 500 and (status < 400 or body.strip()), body
            if not target.isascii():
                assert status == 400
    _nothing_failed(caplog)


def _nothing_failed(caplog: pytest.LogCaptureFixture) -> None:
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []
