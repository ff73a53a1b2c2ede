"""Unusual HTTP answers: each is used, or reported with advice, in a shell and at the desk."""

from __future__ import annotations

import asyncio
import gzip
import socket
import struct
from collections.abc import Callable
from contextlib import suppress

import orjson
import pytest

from mcpdesk.client import hints, http_transports
from mcpdesk.client.answers import http_answers
from mcpdesk.client.http_transports import HttpRequests, StreamableHttp
from mcpdesk.errors import CallError, HttpError, InvalidAnswer
from tests.client.test_odd_transports import ABOUT, DONE, call, connected, session
from tests.support.patience import until, within
from tests.support.scripted import Seen, event, http, json, result, scripted, stream

Odd = Callable[[bytes, Seen], bytes]
"""The answer of the server for the JSON of the right one."""


def begun(kind: str, body: bytes) -> bytes:
    """A response that is shorter than its announced length."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: 5000\r\n\r\n"
    return head.encode() + body


def raw(body: bytes, more: bytes = b"") -> bytes:
    """A response without a length, closed at its end."""
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + more + b"\r\n" + body


FAULTS: list[tuple[str, Odd, str, str]] = [
    ("empty", lambda good, seen: http(200), "HTTP 200 with an empty answer", hints.EMPTY),
    ("202", lambda good, seen: http(202), "HTTP 202 with an empty answer", hints.EMPTY),
    ("204", lambda good, seen: b"HTTP/1.1 204 No Content\r\n\r\n", "204 with an empty answer", hints.EMPTY),
    (
        "plain",
        lambda good, seen: http(200, good, Content_Encoding="gzip"),
        "Content-Encoding",
        hints.BAD_ENCODING,
    ),
    (
        "unasked",
        lambda good, seen: http(200, b"\x8b\x03", Content_Encoding="br"),
        "Content-Enc",
        hints.BAD_ENCODING,
    ),
    (
        "hidden gzip",
        lambda good, seen: http(200, gzip.compress(good)),
        "compressed with gzip",
        hints.BAD_ENCODING,
    ),
    (
        "cut",
        lambda good, seen: raw(b"20\r\n{", b"Transfer-Encoding: chunked\r\n"),
        "broke before",
        hints.CLOSED,
    ),
    (
        "chunk",
        lambda good, seen: raw(b"zz\r\n{", b"Transfer-Encoding: chunked\r\n"),
        "not HTTP",
        hints.BROKEN_HTTP,
    ),
    ("header", lambda good, seen: raw(good, b"no colon\r\n"), "is not HTTP", hints.BROKEN_HTTP),
    ("bare", lambda good, seen: good, "the answer is not HTTP", hints.OTHER_PROTOCOL),
    ("ssh", lambda good, seen: b"SSH-2.0-OpenSSH_9.6\r\n", "SSH-2.0", hints.OTHER_PROTOCOL),
    ("tls", lambda good, seen: b"\x15\x03\x01\x00\x02\x02\x46", "it is TLS", hints.OTHER_PROTOCOL),
    ("array", lambda good, seen: json([]), "but application/json: []", hints.BAD_BYTES),
    ("echo", lambda good, seen: http(200, seen.body), '"method":"tools/call"', hints.BAD_BYTES),
    (
        "other id",
        lambda good, seen: json({**orjson.loads(good), "id": 4711}),
        "request 4711, not",
        hints.OTHER_ID,
    ),
    ("no id", lambda good, seen: json({"jsonrpc": "2.0", "result": DONE}), "has no id", hints.OTHER_ID),
    (
        "loop",
        lambda good, seen: http(307, Location="/mcp"),
        "to /mcp, so its redirects never",
        hints.ENDLESS_REDIRECT,
    ),
    (
        "away",
        lambda good, seen: http(308, Location="http://192.0.2.1/"),
        "to http://192.0.2.1/",
        hints.REDIRECT,
    ),
    ("nowhere", lambda good, seen: http(302), "redirects without a Location", hints.REDIRECT),
    (
        "busy",
        lambda good, seen: http(503, "busy", "text/plain", Retry_After="7"),
        "Retry-After: 7",
        hints.BUSY,
    ),
    (
        "result with an error status",
        lambda good, seen: http(500, good),
        "HTTP 500: the answer has a result",
        hints.FAILED,
    ),
    (
        "revision",
        lambda good, seen: http(400, "Unsupported protocol version: use 2025-03-26", "text/plain"),
        "use 2025-03-26",
        f"{hints.REVISION}: --revision 2025-03-26.",
    ),
    ("comments", lambda good, seen: stream(": hello", "", ": bye", ""), "ended without the", hints.NO_ANSWER),
    (
        "error event",
        lambda good, seen: stream("event: error", 'data: {"error": "no database"}', ""),
        'its last event was {"error": "no database"}',
        hints.NO_ANSWER,
    ),
    ("event", lambda good, seen: stream("data: {oops", ""), "an event is not JSON", hints.BAD_BYTES),
]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("odd", "words", "advice"), [each[1:] for each in FAULTS], ids=[each[0] for each in FAULTS]
)
async def test_what_cannot_be_used_is_named_with_what_to_do(odd: Odd, words: str, advice: str) -> None:
    def answer(seen: Seen) -> bytes:
        return odd(orjson.dumps(result(seen, DONE)), seen)

    async with (
        scripted(session(answer)) as server,
        connected(StreamableHttp(server.url, {})) as (connection, _),
    ):
        with pytest.raises(CallError) as failed:
            await call(connection)
    assert words in failed.value.message and "\n" not in failed.value.message
    assert hints.hint(failed.value) == advice
    at_desk = hints.desk_hint(failed.value)
    is_about_revision = advice.startswith(hints.REVISION)
    expected = hints.REVISION_AT_DESK if is_about_revision else hints.AT_DESK.get(advice, advice)
    assert at_desk == expected and "--" not in at_desk


USABLE: list[tuple[str, Odd, list[str]]] = [
    ("no length", lambda good, seen: raw(good), []),
    ("HTTP/1.0", lambda good, seen: raw(good).replace(b"HTTP/1.1", b"HTTP/1.0"), []),
    ("early hints", lambda good, seen: b"HTTP/1.1 103 Early Hints\r\n\r\n" + http(200, good), []),
    ("no type", lambda good, seen: http(200, good, ""), ["content-type"]),
    ("two objects", lambda good, seen: http(200, good + b"\n" + good), ["several-messages"]),
    ("BOM", lambda good, seen: http(200, b"\xef\xbb\xbf" + good), ["byte-order-mark"]),
    ("done", lambda good, seen: stream("data: [DONE]", "", event(orjson.loads(good))), ["text-around"]),
    ("large header", lambda good, seen: http(200, good, X_Policy="p" * 30_000), []),
    ("ping", lambda good, seen: stream("data: ping", "", event(orjson.loads(good))), ["text-around"]),
]


@pytest.mark.parametrize(("odd", "expected"), [each[1:] for each in USABLE], ids=[each[0] for each in USABLE])
async def test_what_other_clients_can_use_is_used(odd: Odd, expected: list[str]) -> None:
    async with (
        scripted(session(lambda seen: odd(orjson.dumps(result(seen, DONE)), seen))) as server,
        connected(StreamableHttp(server.url, {})) as (connection, kinds),
    ):
        assert await call(connection) == DONE
    assert kinds == expected


ENDLESS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("length", lambda good: raw(good, b"Content-Length: %d\r\n" % (len(good) + 9))),
    ("chunks", lambda good: raw(b"%x\r\n%b\r\n" % (len(good), good), b"Transfer-Encoding: chunked\r\n")),
]


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("body", [each[1] for each in ENDLESS], ids=[each[0] for each in ENDLESS])
async def test_an_answer_in_a_body_without_end_is_used_with_a_remark(
    body: Callable[[bytes], bytes], is_closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_answers, "OWN_ANSWER_S", 0.05)

    # The scripted server leaves the connection open after an answer with the word content-length.
    header = b"Connection: close" if is_closed else b"X-Open: content-length"

    def answer(seen: Seen) -> bytes:
        return body(orjson.dumps(result(seen, DONE))).replace(b"\r\n", b"\r\n%b\r\n" % header, 1)

    async with (
        scripted(session(answer)) as server,
        connected(StreamableHttp(server.url, {})) as (connection, kinds),
    ):
        assert await call(connection) == DONE
    assert kinds == ["unterminated"]


async def test_a_pause_within_a_body_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_answers, "OWN_ANSWER_S", 0.01)
    value = orjson.dumps({"jsonrpc": "2.0", "id": 1, "result": DONE})
    cut = value.index(b"}") + 1
    came = asyncio.Event()

    async def pieces(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(raw(value[:cut], b"Content-Length: %d\r\n" % len(value)))
        await came.wait()
        writer.write(value[cut:])
        await reader.read()
        writer.close()

    server = await asyncio.start_server(pieces, "127.0.0.1", 0)
    requests = HttpRequests(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp", {})
    asyncio.get_running_loop().call_later(0.1, came.set)
    async with server, within():
        reply = await requests.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, {})
        await requests.close()
    assert reply.message["result"] == DONE and not reply.remarks


async def test_a_reset_connection_is_not_called_unreachable() -> None:
    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        writer.close()

    server = await asyncio.start_server(reset, "127.0.0.1", 0)
    requests = HttpRequests(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp", {})
    async with server, within():
        with pytest.raises(HttpError) as failed:
            await requests.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, {})
        await requests.close()
    assert "broke before" in failed.value.message and hints.hint(failed.value) == hints.CLOSED


async def test_a_stream_that_cannot_be_resumed_is_reported_with_the_reason() -> None:
    def answer(seen: Seen) -> bytes:
        if seen.method == "GET":
            return http(410, "events expired", "text/plain")
        return stream("id: 1", "retry: 0", "data:", "")

    async with (
        scripted(session(answer)) as server,
        connected(StreamableHttp(server.url, {})) as (connection, _),
    ):
        with pytest.raises(InvalidAnswer, match="resuming it failed with HTTP 410: events expired") as failed:
            await call(connection)
    assert hints.hint(failed.value) == hints.NO_ANSWER


async def test_a_refused_end_of_the_handshake_is_remarked() -> None:
    def answer(seen: Seen) -> bytes:
        if seen.message.get("method") == "notifications/initialized":
            return http(404, "no such method", "text/plain")
        value = ABOUT if seen.message["method"] == "initialize" else DONE
        return json(result(seen, value))

    async with (
        scripted(answer) as server,
        connected(StreamableHttp(server.url, {})) as (connection, kinds),
    ):
        assert await call(connection) == DONE
    assert kinds == ["session"]


@pytest.mark.parametrize("is_silent", [True, False])
async def test_a_probe_without_an_answer_leads_to_a_handshake(
    is_silent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_transports, "PROBE_S", 0.05 if is_silent else 60)
    done = session(lambda seen: json(result(seen, DONE)))

    def answer(seen: Seen) -> bytes | None:
        if seen.body and seen.message.get("method") == "server/discover":
            return None if is_silent else b""
        return done(seen)

    async with (
        scripted(answer) as server,
        connected(StreamableHttp(server.url, {}), None) as (connection, _),
    ):
        assert await call(connection) == DONE


SILENT: list[tuple[str, bytes | None, str]] = [
    ("nothing", None, "the request was sent, but no response has begun"),
    ("body", begun("application/json", b'{"json'), "HTTP 200 began, and 6 bytes of its body arrived"),
    ("stream", begun("text/event-stream", b": a\n\n"), "5 bytes arrived, but no event"),
    (
        "data",
        begun("text/event-stream", b"data: x\n" * 9),
        "72 bytes arrived, but no event",
    ),
    ("events", begun("text/event-stream", b"data: x\n\n" * 2), "2 events arrived, but not the answer"),
]


@pytest.mark.parametrize(("data", "words"), [each[1:] for each in SILENT], ids=[each[0] for each in SILENT])
async def test_what_came_instead_of_an_answer_is_known_while_it_is_awaited(
    data: bytes | None, words: str
) -> None:
    async with (
        scripted(session(lambda seen: data if seen.body else http(200))) as server,
        connected(StreamableHttp(server.url, {})) as (connection, _),
    ):
        await connection.open()
        calling = asyncio.create_task(call(connection))
        await until(
            lambda: (
                connection.unexpected_bytes.endswith(words) and server.seen[-1].message.get("id") is not None
            )
        )
        calling.cancel()
        with suppress(asyncio.CancelledError):
            await calling


def test_hints_for_a_shell_name_no_option_at_the_desk() -> None:
    refused = (
        HttpError("x", status=status, body=body)
        for status in (400, 401, 403)
        for body in ("", "bad version 2026-07-28", "host")
    )
    advice = {hints.desk_hint(error, is_first=is_first) for error in refused for is_first in (True, False)}
    assert advice and not any("--" in each for each in advice)
