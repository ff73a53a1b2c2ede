"""Unusual HTTP answers: each is used, or reported with advice, in a shell and at the desk."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from contextlib import suppress

import orjson
import pytest

from mcpdesk.client import hints
from mcpdesk.client.http_transports import StreamableHttp
from mcpdesk.errors import CallError, HttpError
from tests.client.test_odd_transports import DONE, call, connected, session
from tests.support.patience import until
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
    ("tls", lambda good, seen: b"\x15\x03\x01\x00\x02\x02\x46", "it speaks TLS", hints.OTHER_PROTOCOL),
    ("array", lambda good, seen: json([]), "but application/json: []", hints.BAD_BYTES),
    ("echo", lambda good, seen: http(200, seen.body), '"method":"tools/call"', hints.BAD_BYTES),
    (
        "other id",
        lambda good, seen: json({**orjson.loads(good), "id": 4711}),
        "request 4711, not",
        hints.OTHER_ID,
    ),
    ("no id", lambda good, seen: json({"jsonrpc": "2.0", "result": DONE}), "has no id", hints.OTHER_ID),
    ("loop", lambda good, seen: http(307, Location="/mcp"), "redirects to /mcp, and such", hints.REDIRECT),
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
    ("comments", lambda good, seen: stream(": hello", "", ": bye", ""), "ended without the", hints.NO_ANSWER),
    ("event", lambda good, seen: stream("data: {oops", ""), "an event is not JSON", hints.BAD_BYTES),
]


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
    assert at_desk == hints.AT_DESK.get(advice, advice) and "--" not in at_desk


USABLE: list[tuple[str, Odd, list[str]]] = [
    ("no length", lambda good, seen: raw(good), []),
    ("HTTP/1.0", lambda good, seen: raw(good).replace(b"HTTP/1.1", b"HTTP/1.0"), []),
    ("early hints", lambda good, seen: b"HTTP/1.1 103 Early Hints\r\n\r\n" + http(200, good), []),
    ("no type", lambda good, seen: http(200, good, ""), ["content-type"]),
    ("two objects", lambda good, seen: http(200, good + b"\n" + good), ["several-messages"]),
    ("BOM", lambda good, seen: http(200, b"\xef\xbb\xbf" + good), ["byte-order-mark"]),
    ("done", lambda good, seen: stream("data: [DONE]", "", event(orjson.loads(good))), ["text-around"]),
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


SILENT: list[tuple[str, bytes | None, str]] = [
    ("nothing", None, "the request was sent, and no response has begun"),
    ("body", begun("application/json", b'{"json'), "HTTP 200 began, and 6 bytes of its body came"),
    ("stream", begun("text/event-stream", b": a\n\n"), "has brought no event in 5 bytes, and not the answer"),
    (
        "data",
        begun("text/event-stream", b"data: x\n" * 9),
        "has brought no event in 72 bytes, and not the answer",
    ),
    ("events", begun("text/event-stream", b"data: x\n\n" * 2), "has brought 2 events, and not the answer"),
]


@pytest.mark.parametrize(("data", "words"), [each[1:] for each in SILENT], ids=[each[0] for each in SILENT])
async def test_what_came_instead_of_an_answer_is_known_while_it_is_awaited(
    data: bytes | None, words: str
) -> None:
    async with (
        scripted(session(lambda seen: data)) as server,
        connected(StreamableHttp(server.url, {})) as (connection, _),
    ):
        await connection.open()
        calling = asyncio.create_task(call(connection))
        await until(
            lambda: connection.silence.endswith(words) and server.seen[-1].message.get("id") is not None
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
