"""Connections answer every form of HTTP/1 request as aiohttp would, whichever way a request takes."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast
from urllib.parse import urlsplit

import orjson
import pytest
from aiohttp import web

from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.tool import Tool
from mcpdesk.transports.base import Rules
from tests.support.patience import within
from tests.support.rude import connected_socket
from tests.support.site import Served, serving
from tests.transports.http.listening import listening


class Wire:
    """A raw connection to a listener."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def post(self, text: str, *headers: str, version: str = "1.1", tool: str = "echo") -> None:
        """Send one call of the echo tool."""
        self.writer.write(call(text, *headers, version=version, tool=tool))

    async def answer(self) -> tuple[bytes, bytes]:
        """The head and the body of the next answer."""
        async with within():
            head = await self.reader.readuntil(b"\r\n\r\n")
            lengths = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
            size = int(lengths[0].partition(b":")[2]) if lengths else 0
            return head, await self.reader.readexactly(size)

    async def text(self) -> str:
        """Result of the echo tool."""
        head, body = await self.answer()
        assert head.startswith(b"HTTP/1."), head
        text: str = orjson.loads(body)["result"]["content"][0]["text"]
        return text

    async def is_closed(self) -> bool:
        """Whether the server ends the connection without a further word."""
        async with within():
            return await self.reader.read() == b""


def call(text: str, *headers: str, version: str = "1.1", tool: str = "echo") -> bytes:
    """The bytes of one call."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    body = orjson.dumps(message | {"params": {"name": tool, "arguments": {"text": text}}})
    return head(*headers, f"Content-Length: {len(body)}", version=version) + body


def head(*headers: str, version: str = "1.1") -> bytes:
    """A request's line and headers."""
    lines = (
        f"POST /mcp/sample HTTP/{version}",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        *headers,
    )
    return "\r\n".join([*lines, "\r\n"]).encode()


@asynccontextmanager
async def wired(served: Served) -> AsyncIterator[Wire]:
    place = urlsplit(served.url)
    reader, writer = await asyncio.open_connection(
        sock=connected_socket(str(place.hostname), int(place.port or 0))
    )
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()


async def test_a_kept_connection_is_answered_again_and_again() -> None:
    async with serving() as served, wired(served) as wire:
        for number in range(5):
            wire.post(f"call {number}")
            assert await wire.text() == f"call {number}"


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with serving() as served, wired(served) as wire:
        wire.writer.write(b"".join(call(str(number)) for number in range(40)))
        assert [await wire.text() for _ in range(40)] == [str(number) for number in range(40)]
        wire.post("after")
        assert await wire.text() == "after"


async def test_a_request_behind_a_running_one_waits_for_its_turn() -> None:
    async with serving() as served, wired(served) as wire:
        begun, go = asyncio.Event(), asyncio.Event()

        async def slow(arguments: dict[str, Any], ctx: Context) -> str:
            begun.set()
            await go.wait()
            return "slow"

        tools = served.hosted.server.tools
        tools.replace([*tools, Tool("slow", slow, {"type": "object"})])
        wire.post("", tool="slow")
        await begun.wait()
        wire.post("second")
        wire.post("third")
        go.set()
        assert [await wire.text() for _ in range(3)] == ["slow", "second", "third"]
        wire.post("fourth")
        assert await wire.text() == "fourth"


async def test_http_1_0_is_answered_and_closed_unless_asked_otherwise() -> None:
    async with serving() as served:
        async with wired(served) as wire:
            wire.post("old", version="1.0")
            assert await wire.text() == "old"
            assert await wire.is_closed()
        async with wired(served) as wire:
            for _ in range(2):
                wire.post("kept", "Connection: keep-alive", version="1.0")
                answered, body = await wire.answer()
                assert b"\r\nConnection: keep-alive\r\n" in answered
                assert b"kept" in body


async def test_connection_close_is_heeded_and_said() -> None:
    async with serving() as served, wired(served) as wire:
        wire.post("last", "Connection: close")
        answered, body = await wire.answer()
        assert b"\r\nConnection: close\r\n" in answered
        assert b"last" in body
        assert await wire.is_closed()


async def test_head_has_no_body() -> None:
    async with serving() as served, wired(served) as wire:
        wire.writer.write(b"HEAD /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        async with within():
            assert (await wire.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        wire.post("next")
        assert await wire.text() == "next"


async def test_the_same_headers_on_another_path_are_another_request() -> None:
    async with serving() as served, wired(served) as wire:
        for path, status in (("/mcp/sample", 200), ("/mcp/nobody", 404), ("/mcp/sample", 200)):
            wire.writer.write(call("x").replace(b"/mcp/sample", path.encode()))
            answered, _ = await wire.answer()
            assert answered.startswith(b"HTTP/1.1 %d " % status)


async def test_a_chunked_body_counts_as_one() -> None:
    async with serving() as served, wired(served) as wire:
        body = call("chunked").partition(b"\r\n\r\n")[2]
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:20], body[20:]))
        for _ in range(2):
            wire.writer.write(head("Transfer-Encoding: chunked") + chunks + b"0\r\n\r\n")
            assert await wire.text() == "chunked"


async def test_a_body_that_comes_in_pieces_is_waited_for() -> None:
    whole = call("pieces")
    async with serving() as served, wired(served) as wire:
        for cut in (10, len(whole) // 2, len(whole) - 1):
            wire.writer.write(whole[:cut])
            # Another connection's answer shows that the first piece was read.
            async with wired(served) as other:
                other.post("meanwhile")
                assert await other.text() == "meanwhile"
            wire.writer.write(whole[cut:])
            assert await wire.text() == "pieces"


async def test_who_expects_continue_is_told_to() -> None:
    async with serving() as served, wired(served) as wire:
        whole = call("expected", "Expect: 100-continue")
        above, below = whole.split(b"\r\n\r\n", 1)
        wire.writer.write(above + b"\r\n\r\n")
        async with within():
            assert await wire.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        wire.writer.write(below)
        assert await wire.text() == "expected"


async def test_nonsense_is_refused_and_the_connection_closed() -> None:
    async with serving() as served, wired(served) as wire:
        wire.writer.write(b"\x16\x03\x01 nothing of HTTP\r\n\r\n")
        async with within():
            assert (await wire.reader.read()).startswith(b"HTTP/1.")


async def test_a_handler_that_raises_is_an_internal_error_and_the_next_connection_works(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(request: web.BaseRequest) -> web.StreamResponse:
        raise LookupError("no such thing")

    async with listening(broken) as connect:
        for _ in range(2):
            wire = Wire(*await connect())
            wire.post("anything")
            answered, _ = await wire.answer()
            assert answered.startswith(b"HTTP/1.1 500 ")
            assert await wire.is_closed()
    assert "no such thing" in caplog.text


async def test_a_handler_that_does_not_end_is_cancelled_when_the_listener_stops() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def stubborn(request: web.BaseRequest) -> web.StreamResponse:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    async with within():
        async with listening(stubborn, patience_s=0.05) as connect:
            reader, writer = await connect()
            Wire(reader, writer).post("anything")
            await begun.wait()
        await ended.wait()


def reading(wire: Wire) -> asyncio.Transport:
    return cast(asyncio.Transport, wire.writer.transport)  # uvloop's transport does not inherit from it


@pytest.mark.slow
async def test_a_client_that_reads_nothing_is_not_written_to_without_end() -> None:
    async with serving() as served, wired(served) as wire:
        reading(wire).pause_reading()
        text, sent = "x" * 60_000, 0
        async with within():
            while not wire.writer.transport.get_write_buffer_size() and sent < 10_000:
                wire.post(text)
                sent += 1
                await asyncio.sleep(0)
        reading(wire).resume_reading()
        assert [await wire.text() for _ in range(sent)] == [text] * sent


async def test_a_session_id_that_is_not_utf_8_is_refused_and_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving() as served, wired(served) as wire:
        wire.writer.write(call("a", "Mcp-Session-Id: X").replace(b"X", b"\x9b", 1))
        refused, _ = await wire.answer()
        assert refused.startswith(b"HTTP/1.1 400")
        wire.post("b")
        assert await wire.text() == "b"
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


async def test_a_page_given_twice_is_refused_whichever_comes_first() -> None:
    async with serving() as served, wired(served) as wire:
        local, foreign = f"Origin: {served.url}", "Origin: http://evil.example"
        wire.writer.write(call("a", local))
        assert await wire.text() == "a"
        for given in ((local, foreign), (foreign, local), (local, local)):
            wire.writer.write(call("b", *given))
            refused, _ = await wire.answer()
            assert refused.startswith(b"HTTP/1.1 400")


PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


@pytest.mark.parametrize(
    "headers",
    [("Content-Length: 99999999999",), ("Content-Length: 99999999999", "Expect: 100-continue")],
)
async def test_a_body_said_to_be_too_large_is_refused_before_it_is_sent(headers: tuple[str, ...]) -> None:
    async with serving(Rules(max_body_bytes=1000)) as served, wired(served) as wire:
        wire.writer.write(head(*headers))
        answered, body = await wire.answer()
        assert answered.startswith(b"HTTP/1.1 413 ") and b"99999999999" in body and b"1000" in body


async def test_a_body_of_exactly_the_limit_is_taken_and_one_in_chunks_measured_as_it_comes() -> None:
    async with serving(Rules(max_body_bytes=len(PING))) as served, wired(served) as wire:
        assert (await served.post(PING)).status == 200
        assert (await served.post(PING + b" ")).status == 413
        wire.writer.write(head("Transfer-Encoding: chunked") + b"400\r\n" + b"x" * 0x400 + b"\r\n0\r\n\r\n")
        assert (await wire.answer())[0].startswith(b"HTTP/1.1 413 ")


async def test_compressed_bodies_are_not_unfolded() -> None:
    async with serving() as served:
        for coding in ("gzip", "br", "deflate"):
            assert (await served.post(gzip.compress(PING), Content_Encoding=coding)).status == 415
        assert (await served.post(PING, Content_Encoding="identity")).status == 200
