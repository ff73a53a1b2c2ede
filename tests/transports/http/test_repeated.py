"""A head that came before is known by its bytes: anything, in any split, is answered as by aiohttp alone."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Iterator
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp.http import HttpVersion10, RawRequestMessage
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict, CIMultiDictProxy

from mcpdesk.transports.base import Rules
from mcpdesk.transports.http import repeated
from mcpdesk.transports.http.connection import Connection
from mcpdesk.transports.http.head import SESSION_HEADER, Head
from mcpdesk.transports.http.repeated import Known, Patterns, Repeated, Track, size_after
from tests.support.site import Served, serving

SEED = 20260728
ROUNDS = 120
LONGEST_STREAM = 9
GOOD = 14
"""The first of `requests`, after which a connection goes on."""
LINE = b"POST /mcp/sample HTTP/1.1\r\nHost: 127.0.0.1\r\n"
USUAL = LINE + b"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
HANDSHAKE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}


class Wire(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.is_over = False

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self.written += data

    def writelines(self, pieces: Any) -> None:
        self.written += b"".join(pieces)

    def is_closing(self) -> bool:
        return self.is_over

    def close(self) -> None:
        self.is_over = True

    abort = close

    def pause_reading(self) -> None:
        """Whoever feeds it goes on."""

    resume_reading = pause_reading


class Fed:
    """A connection of a listener that is fed by hand."""

    def __init__(self, connection: Connection) -> None:
        self.wire = Wire()
        self.connection = connection
        connection.connection_made(self.wire)

    async def feed(self, *pieces: bytes) -> bytes:
        """What it says to that, without what differs from one time to another."""
        before = len(self.wire.written)
        await self._rest()
        for piece in pieces:
            if self.wire.is_over:
                break
            self.connection.data_received(piece)
            await self._rest()
        said = bytes(self.wire.written[before:])
        return re.sub(rb"(Date: |Mcp-Session-Id: )[^\r]*", rb"\1", said)

    async def session(self) -> bytes:
        """The id of a session it opened."""
        await self.feed(posted(orjson.dumps(HANDSHAKE)))
        found: list[bytes] = re.findall(rb"Mcp-Session-Id: ([^\r]*)", self.wire.written)
        return found[-1]

    def end(self) -> None:
        self.connection.connection_lost(None)

    async def _rest(self) -> None:
        """Nothing has to be waited for but turns of the loop."""
        quiet, said = 0, -1
        while quiet < 12:
            await asyncio.sleep(0)
            quiet, said = (quiet + 1 if len(self.wire.written) == said else 0), len(self.wire.written)


def quick(served: Served) -> Fed:
    """A connection that knows heads."""
    listener = served.service._listener
    assert listener is not None
    connection = listener()
    assert isinstance(connection, Connection)
    return Fed(connection)


def plain(served: Served) -> Fed:
    """A connection that leaves everything to aiohttp."""
    listener = served.service._listener
    assert listener is not None
    made = Connection(
        listener,
        loop=asyncio.get_running_loop(),
        budget=listener.budget,
        leave=listener._leave,
        **listener._kwargs,
    )
    return Fed(made)


def posted(
    body: bytes, headers: bytes = b"", line: bytes = USUAL, length: bytes = b"Content-Length"
) -> bytes:
    return b"%b%b%b: %d\r\n\r\n%b" % (line, headers, length, len(body), body)


def call(text: str, identifier: int = 7) -> bytes:
    params = {"name": "echo", "arguments": {"text": text}}
    return orjson.dumps({"jsonrpc": "2.0", "id": identifier, "method": "tools/call", "params": params})


def requests(session: bytes) -> list[bytes]:
    """Requests as clients send them, and as no client should."""
    inside = b"Mcp-Session-Id: %b\r\nMCP-Protocol-Version: 2025-11-25\r\n" % session
    body = call("x")
    lower = USUAL.replace(b"Content-Type", b"content-type").replace(b"Accept", b"accept")
    return [
        posted(body),
        posted(body),
        posted(call("another", 8)),
        posted(call("y" * 300)),
        posted(call("z" * 2_000)),
        posted(body, inside),
        posted(call("in a session"), inside),
        posted(b'{"jsonrpc":"2.0","method":"notifications/initialized"}', inside),
        posted(body, b"mcp-session-id: %b\r\n" % session, lower, b"content-length"),
        posted(body, b"Mcp-Session-Id: \r\n"),
        posted(body, b"Mcp-Session-Id: nobody\r\n"),
        posted(body, b"Mcp-Session-Id: no/body\r\n"),
        posted(b"{"),
        posted(b""),
        posted(b"[]"),
        posted(body, line=USUAL.replace(b"/mcp/sample", b"/mcp/nobody")),
        posted(body, line=USUAL.replace(b"127.0.0.1", b"evil.example")),
        posted(body, line=USUAL.replace(b"Host: ", b"Host:")),
        posted(body, line=LINE + b"Content-Type: text/plain\r\n"),
        posted(body, length=b"CONTENT-LENGTH"),
        posted(body, length=b"Content-Length : 5\r\nX"),
        posted(body, b"Content-Length: 5\r\n"),
        posted(body, b"content-length: %d\r\n" % len(body)),
        posted(body, b"Expect: 100-continue\r\n"),
        posted(body, b"X-Folded: a\r\n b\r\n"),
        posted(body, b"X-Inside: Content-Length: 3\r\n"),
        posted(body, b"Connection: keep-alive\r\n"),
        posted(body, b"Connection: close\r\n"),
        posted(body, line=USUAL.replace(b"HTTP/1.1", b"HTTP/1.0")),
        posted(USUAL + b"Content-Length: 2\r\n\r\n{}"),
        USUAL + b"Content-Length: 0002\r\n\r\n{}",
        USUAL + b"Content-Length: +2\r\n\r\n{}",
        USUAL + b"Content-Length: 99999999999\r\n\r\n{}",
        USUAL + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body),
        USUAL + b"\r\n",
        USUAL.replace(b"POST", b"DELETE") + b"\r\n",
        USUAL.replace(b"POST", b"DELETE") + b"Content-Length: 0\r\n\r\n",
        USUAL.replace(b"POST", b"GET") + b"\r\n",
        USUAL.replace(b"POST", b"PUT") + b"\r\n",
        LINE.replace(b"POST /mcp/sample", b"GET /health") + b"\r\n",
        b"\r\n" + posted(body),
        b"nonsense\r\n\r\n",
    ]


def pieces_of(stream: bytes, chance: random.Random) -> Iterator[bytes]:
    """The stream in pieces, cut anywhere."""
    cuts = sorted(chance.sample(range(1, len(stream)), min(len(stream) - 1, chance.choice((0, 1, 3, 12)))))
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        yield stream[start:stop]


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> list[Known]:
    """The heads of all requests that were not parsed."""
    seen: list[Known] = []
    original = Repeated.__init__

    def noted(self: Repeated, known: Known, *others: Any) -> None:
        seen.append(known)
        original(self, known, *others)

    monkeypatch.setattr(Repeated, "__init__", noted)
    return seen


async def test_any_stream_in_any_split_is_answered_as_by_aiohttp_alone(known: list[Known]) -> None:
    chance = random.Random(SEED)
    async with serving() as served:
        for _ in range(ROUNDS):
            one, other = quick(served), plain(served)
            kinds = [requests(await fed.session()) for fed in (one, other)]
            chosen = [chance.randrange(len(kinds[0])) for _ in range(chance.randrange(1, LONGEST_STREAM))]
            if chance.random() < 0.7:
                # What ends a connection comes late.
                chosen.sort(key=lambda kind: kind >= GOOD)
            streams = [[kind[number] for number in chosen] for kind in kinds]
            if chance.random() < 0.4:
                cut = [streams[0], streams[1]]
            else:
                state = chance.getstate()
                cut = [list(pieces_of(b"".join(streams[0]), chance))]
                chance.setstate(state)
                cut.append(list(pieces_of(b"".join(streams[1]), chance)))
            said = [await fed.feed(*each) for fed, each in zip((one, other), cut, strict=True)]
            assert said[0] == said[1], cut[0]
            assert one.wire.is_over == other.wire.is_over, cut[0]
            one.end()
            other.end()
    assert len(known) > ROUNDS


async def test_every_place_a_usual_request_can_be_cut_at(known: list[Known]) -> None:
    whole = posted(call("cut"))
    async with serving() as served:
        fed = quick(served)
        usual = await fed.feed(whole)
        assert b"cut" in usual
        for place in range(1, len(whole)):
            assert await fed.feed(whole[:place], whole[place:]) == usual
        assert await fed.feed(whole + whole) == 2 * usual
        fed.end()
    assert len(known) >= len(call("cut"))


async def test_other_connections_lengths_and_sessions_need_no_parser(known: list[Known]) -> None:
    async with serving() as served:
        first = quick(served)
        session = await first.session()
        inside = b"Mcp-Session-Id: %b\r\n"
        await first.feed(posted(call("x"), inside % session))
        other = quick(served)
        before = len(known)
        own = await other.session()
        assert own != session
        assert b"longer" in await other.feed(posted(call("longer"), inside % own))
        assert [each.head.session for each in known[before:]] == [None, own.decode()]
        note = served.recorder.notes[-1]
        assert dict(note.headers)["Content-Length"] == str(len(call("longer")))
        first.end()
        other.end()


async def test_a_session_is_nobody_elses(known: list[Known]) -> None:
    async with serving() as served:
        fed = quick(served)
        session = await fed.session()
        await fed.feed(posted(call("x"), b"Mcp-Session-Id: %b\r\n" % session))
        await fed.feed(posted(call("x"), b"Mcp-Session-Id: \r\n"))
        assert {each.head.session for each in known} <= {session.decode(), None}
        assert b"404" in await fed.feed(posted(call("x"), b"Mcp-Session-Id: %b\r\n" % session.swapcase()))
        fed.end()


async def test_heads_pass_again_under_the_rules_of_now_alone() -> None:
    async with serving() as served:
        fed = quick(served)
        for rules, status in ((Rules(), b"200"), (Rules(api_key="k"), b"403"), (Rules(), b"200")):
            served.rules = rules
            assert (await fed.feed(posted(call("x")))).startswith(b"HTTP/1.1 %b " % status)
        fed.end()


async def test_a_body_over_the_limit_of_now_is_refused_before_it_came() -> None:
    async with serving() as served:
        fed = quick(served)
        whole = posted(call("x"))
        assert (await fed.feed(whole)).startswith(b"HTTP/1.1 200 ")
        served.rules = Rules(max_body_bytes=10)
        assert (await fed.feed(whole[:-5])).startswith(b"HTTP/1.1 413 ")
        fed.end()


async def test_a_client_without_a_name_is_called_by_its_address_however_often_it_came(
    known: list[Known],
) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    async with serving() as served:
        for _ in range(3):
            async with (
                aiohttp.ClientSession(skip_auto_headers=["User-Agent"]) as client,
                client.post(f"{served.url}/mcp/sample", json=request, headers=headers) as answer,
            ):
                assert "result" in await answer.json()
        assert [info.peer for info in served.recorder.connections.values()] == ["127.0.0.1"] * 3
    assert len(known) == 2


async def test_what_aiohttp_knows_of_a_request_is_there_for_whoever_asks(known: list[Known]) -> None:
    body = call("seen")
    async with serving() as served:
        seen: list[Any] = []
        fed = quick(served)
        await fed.feed(posted(body))
        handler = fed.connection._request_handler

        async def looking(request: Any) -> Any:
            seen.extend((request.method, request.path, request.headers["Host"], request.content_length))
            seen.append(await request.read())
            return await handler(request)  # type: ignore[misc]

        fed.connection._request_handler = looking
        assert b"seen" in await fed.feed(posted(body))
        fed.end()
    assert seen == ["POST", "/mcp/sample", "127.0.0.1", len(body), body]
    assert len(known) == 1


def split(line: bytes) -> tuple[bytes, bytes, bytes]:
    return line.partition(b": ")


def parsed(raw: bytes, version: Any = None) -> RawRequestMessage:
    """What aiohttp makes of a head."""
    lines = raw.split(b"\r\n")[1:-2]
    headers = CIMultiDict([(name.decode(), value.decode()) for name, _, value in map(split, lines)])
    message: Any = make_mocked_request("POST", "/mcp/sample", headers)._message
    raw_headers = tuple((name.encode(), value.encode()) for name, value in headers.items())
    changed = {"headers": CIMultiDictProxy(headers), "raw_headers": raw_headers, "should_close": False}
    whole: RawRequestMessage = message._replace(**changed, **({"version": version} if version else {}))
    return whole


def test_a_head_tells_where_its_request_ends_when_it_is_its_parts_written_out() -> None:
    head = USUAL + b"Content-Length: 12\r\n\r\n"
    assert size_after(head, parsed(head)) == 12
    assert size_after(USUAL + b"\r\n", parsed(USUAL + b"\r\n")) == 0
    assert size_after(head.replace(b": 12", b":12"), parsed(head)) is None
    assert size_after(head, parsed(head, HttpVersion10)) is None
    for special in (b"Expect: 100-continue", b"Transfer-Encoding: chunked", b"Content-Length: 12"):
        twice = head[:-2] + special + b"\r\n\r\n"
        assert size_after(twice, parsed(twice)) is None


def test_the_place_between_two_requests_is_known_or_lost_for_good() -> None:
    head = USUAL + b"Content-Length: 4\r\n\r\n"
    track = Track()
    for piece in (head[:10], head[10:] + b"12"):
        track.count(piece)
        assert not track.is_between
    assert track.parsed(parsed(head)) == head
    assert not track.is_between
    track.count(b"34")
    assert track.is_between
    track.count(head + b"1234" + head)
    assert track.parsed(parsed(head)) == head
    assert not track.is_between
    track.count(b"1234")
    assert track.parsed(parsed(head)) is None
    assert not track.is_between


def test_patterns_and_their_heads_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated, "MOST_PATTERNS", 3)
    monkeypatch.setattr(repeated, "MOST_KNOWN", 2)
    patterns = Patterns()
    for number in range(5):
        raw = USUAL + b"X-Client: %d\r\nContent-Length: 4\r\n\r\n" % number
        patterns.learn(raw, Head(make_mocked_request("POST", "/", parsed(raw).headers)), parsed(raw))
    assert len(patterns) == 3
    for size in range(9):
        longer = patterns.find(raw.replace(b"h: 4", b"h: %d" % size))
        assert longer is not None and longer.size == size
    pattern = next(iter(patterns._patterns.values()))
    assert len(pattern._known) <= 2
    assert patterns.find(USUAL + b"X-Client: 0\r\nContent-Length: 4\r\n\r\n") is None


def test_long_heads_are_remembered_in_smaller_numbers() -> None:
    patterns = Patterns()
    raw = USUAL + b"X-Long: %b\r\nContent-Length: 4\r\n\r\n" % (b"x" * 3000)
    patterns.learn(raw, Head(make_mocked_request("POST", "/", parsed(raw).headers)), parsed(raw))
    for size in range(100):
        assert patterns.find(raw.replace(b"h: 4\r", b"h: %d\r" % size)) is not None
    (pattern,) = patterns._patterns.values()
    assert sum(len(known.raw) for known in pattern._known.values()) <= repeated.KEPT_BYTES


def test_a_head_with_two_sessions_is_not_remembered() -> None:
    raw = USUAL + b"Mcp-Session-Id: a\r\nmcp-session-id: a\r\n\r\n"
    patterns = Patterns()
    patterns.learn(raw, Head(make_mocked_request("POST", "/", parsed(raw).headers)), parsed(raw))
    assert not len(patterns)
    assert SESSION_HEADER in parsed(raw).headers
