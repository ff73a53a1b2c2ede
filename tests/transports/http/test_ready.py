"""Answers put together here carry what aiohttp's own would."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from mcpdesk.transports.base import Rules
from mcpdesk.transports.http.listener import Listener
from mcpdesk.transports.http.ready import ONE_WRITE, Ready
from tests.support.patience import WITHIN_S

SESSION = {"Mcp-Session-Id": "abc"}


async def answered(answer: web.StreamResponse, asked: bytes) -> bytes:
    """All the bytes that come for one request."""

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        return answer

    listener = Listener(handler, Rules)
    server = await asyncio.get_running_loop().create_server(listener, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(asked)
    async with asyncio.timeout(WITHIN_S):
        head = await reader.readuntil(b"\r\n\r\n")
        sizes = [int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")]
        body = await reader.readexactly(sum(sizes))
    writer.close()
    server.close()
    await listener.shutdown(1)
    return head + body


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("connection", ["close", "keep-alive"])
@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (200, b"{}", {}),
        (200, b"x" * (ONE_WRITE + 1), {}),
        (200, b"{}", SESSION),
        (400, b'{"error":{}}', {}),
        (202, None, {}),
        (204, None, {}),
    ],
)
async def test_it_is_what_aiohttp_would_have_sent(
    version: str, connection: str, status: int, body: bytes | None, headers: dict[str, str]
) -> None:
    lines = (f"POST / HTTP/{version}", "Host: x", f"Connection: {connection}", "Content-Length: 0", "\r\n")
    asked = "\r\n".join(lines).encode()
    theirs = headers | ({"Content-Type": "application/json"} if body else {})
    ours = await answered(Ready(status, body, headers or None), asked)
    expected = await answered(web.Response(status=status, body=body, headers=theirs), asked)
    assert _said(ours) == _said(expected)


async def test_answers_of_one_second_have_their_own_lengths() -> None:
    asked = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
    for body in (b"1", b"22"):
        _, headers, sent = _said(await answered(Ready(200, body), asked))
        assert (headers["Content-Length"], sent) == (str(len(body)), body)


def _said(answer: bytes) -> tuple[str, dict[str, str], bytes]:
    """Status, headers without the date and the version (which aiohttp repeats for HTTP/1.0), and body."""
    head, _, body = answer.partition(b"\r\n\r\n")
    line, *fields = head.decode().split("\r\n")
    named = dict(field.split(": ", 1) for field in fields)
    assert named.pop("Date").endswith("GMT")
    return line.partition(" ")[2], named, body


async def test_what_is_to_be_done_afterwards_is_done_once_whether_the_client_is_there_or_not() -> None:
    done: list[str] = []
    whole = await answered(
        Ready(204, None, after=lambda: done.append("there")), b"DELETE / HTTP/1.1\r\nHost: a\r\n\r\n"
    )
    assert whole.startswith(b"HTTP/1.1 204 ") and done == ["there"]
    gone = Ready(200, b"{}", after=lambda: done.append("gone"))
    with pytest.raises(ConnectionResetError):
        gone.write_to(None)
    assert done == ["there", "gone"]
