"""Every parser takes anything in every split: a value or the error it promises, the same ones each time."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpdesk.errors import ProtocolError, RemoteProtocolError
from mcpdesk.protocol import codec
from mcpdesk.protocol.framing import LineFramer
from mcpdesk.protocol.headers import decode_value
from mcpdesk.protocol.jsonrpc import classify
from mcpdesk.protocol.param_headers import mirrored
from mcpdesk.protocol.revisions import R5
from mcpdesk.protocol.stateless import admit
from mcpdesk.protocol.trace import read_trace
from mcpdesk.protocol.uri_template import UriTemplate
from mcpdesk.server.offers import Offers
from mcpdesk.transports.http.answers import accepted
from mcpdesk.transports.http.stream import event
from tests.support.served import make_server

SEED = 20260728
ROUNDS = 2_000
OFFERS = Offers(make_server())
TEMPLATE = UriTemplate("item://{a}/{b,c}{?q,r}{#f}")
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


def text_of(data: bytes) -> str:
    """Bytes as header values are handed over."""
    return data.decode("utf-8", "surrogateescape")


PARSERS: dict[str, tuple[Callable[[bytes], object], type[Exception]]] = {
    "codec": (codec.decode, ProtocolError),
    "message": (lambda data: classify(codec.decode(data)), ProtocolError),
    "header value": (lambda data: decode_value(text_of(data)), ValueError),
    "sentinel": (lambda data: decode_value(f"=?base64?{text_of(data)}?="), ValueError),
    "accept": (lambda data: accepted(text_of(data)), ValueError),
    "cursor": (lambda data: OFFERS.page("tools/list", R5, text_of(data)), RemoteProtocolError),
    "template": (lambda data: UriTemplate(data.decode("latin-1")), ValueError),
    "uri": (lambda data: TEMPLATE.match("item://" + data.decode("latin-1")), ValueError),
    "trace": (lambda data: read_trace({"traceparent": text_of(data), "baggage": text_of(data)}), ValueError),
}
"""A parser of bytes, and the only kind of error it may raise."""


def verdict(parse: Callable[[bytes], object], error: type[Exception], data: bytes) -> None:
    with suppress(error):
        parse(data)


def random_bytes() -> Iterator[bytes]:
    """Noise, and valid messages with a few bytes changed."""
    chance = random.Random(SEED)
    seeds = [
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"b":[1,2.5,null]}}}',
        b"application/json;q=0.5, text/event-stream, */*;q=0",
        b"item://{a}/{+b}{?c,d*}{#e:3}",
        b"WzEwMCwiYSIsImIiXQ==",
        b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    ]
    for _ in range(ROUNDS):
        if chance.random() < 0.5:
            yield chance.randbytes(chance.randrange(64))
            continue
        changed = bytearray(chance.choice(seeds))
        for _ in range(chance.randrange(1, 4)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        yield bytes(changed)


@pytest.mark.parametrize("name", PARSERS)
def test_random_bytes_get_a_verdict(name: str) -> None:
    for data in random_bytes():
        verdict(*PARSERS[name], data)


@pytest.mark.parametrize("name", PARSERS)
@given(data=st.binary(max_size=80) | st.text(max_size=80).map(str.encode))
def test_anything_gets_a_verdict(name: str, data: bytes) -> None:
    verdict(*PARSERS[name], data)


@given(JSON)
def test_any_json_is_a_message_or_an_invalid_one(value: Any) -> None:
    verdict(
        lambda data: classify(codec.decode(data)),
        ProtocolError,
        orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS),
    )


@given(JSON)
def test_any_metadata_is_accepted_or_refused(value: Any) -> None:
    verdict(lambda _: admit("tools/list", {"_meta": value}, None), RemoteProtocolError, b"")


@given(
    st.dictionaries(
        st.text(max_size=5) | st.sampled_from(["properties", "x-mcp-header", "type"]), JSON, max_size=5
    )
)
def test_any_schema_is_annotated_or_refused(schema: dict[str, Any]) -> None:
    verdict(lambda _: mirrored(schema), ValueError, b"")


@given(st.lists(st.binary(max_size=30).filter(lambda line: b"\n" not in line)), st.lists(st.integers(0, 200)))
def test_lines_are_the_same_in_every_split(lines: list[bytes], cuts: list[int]) -> None:
    data = b"\n".join(lines)
    whole = LineFramer()
    expected = [*whole.feed(data), whole.close()]
    framer, found, start = LineFramer(), [], 0
    for cut in sorted(cut for cut in cuts if cut <= len(data)):
        found += framer.feed(data[start:cut])
        start = cut
    assert [*found, *framer.feed(data[start:]), framer.close()] == expected


def read_events(data: bytes) -> Iterator[tuple[str, str]]:
    """Type and data of each event, as a browser reads a stream."""
    kind, lines = "message", list[str]()
    for line in data.decode().replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if not line:
            if lines:
                yield kind, "\n".join(lines)
            kind, lines = "message", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            kind = value
        elif field == "data":
            lines.append(value)


@given(st.lists(JSON))
def test_events_are_read_as_they_were_written(values: list[Any]) -> None:
    messages = [
        codec.notification("notifications/message", {"data": value}) for value in values if sendable(value)
    ]
    stream = b": keep-alive\n\n".join([b"", *map(event, messages)])
    assert list(read_events(stream)) == [("message", message.decode()) for message in messages]


def sendable(value: Any) -> bool:
    try:
        codec.encode(value)
    except ProtocolError:
        return False
    return True
