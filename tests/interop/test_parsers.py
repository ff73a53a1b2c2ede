"""Every parser accepts any bytes in any pieces, and returns the same value or documented error each time."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpdesk.auth.http_origin import check_host, check_origin
from mcpdesk.errors import DeskUserError, ManifestError, ProtocolError, RegistrationError, RemoteProtocolError
from mcpdesk.hosting.folder.manifest import read_manifest
from mcpdesk.protocol import codec
from mcpdesk.protocol.catalogue.front_matter import read_document
from mcpdesk.protocol.catalogue.uri_template import UriTemplate
from mcpdesk.protocol.event_store import EventStore, SharedEventBudget
from mcpdesk.protocol.framing import LineFramer, event
from mcpdesk.protocol.headers import check_parameters, decode_value, mirrored_arguments
from mcpdesk.protocol.jsonrpc import classify
from mcpdesk.protocol.request_state import RequestState, seal, unseal
from mcpdesk.protocol.revisions import V2026_07_28
from mcpdesk.protocol.stateless import admit
from mcpdesk.protocol.trace import read_trace
from mcpdesk.recorder.capture.capture_lines import line_bytes, line_frame, read_line
from mcpdesk.recorder.index.query import parse
from mcpdesk.server.offer.listing import OfferListing
from mcpdesk.settings import read_env_file
from mcpdesk.transports.http.responses import accepted
from mcpdesk.transports.unix import GreetingReader
from tests.support.served import Peer, make_server

SEED = 20260728
ROUNDS = 2_000
OFFERS = OfferListing(make_server())
TEMPLATE = UriTemplate("item://{a}/{b,c}{?q,r}{#f}")
ANNOTATED = mirrored_arguments(
    {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"},
                                      "count": {"type": "integer", "x-mcp-header": "Count"}}}
)  # fmt: skip
SECRET = b"s" * 32
EVENTS = EventStore[Any](1 << 20, 1000, SharedEventBudget(1 << 20))
EVENTS.open().put(b"{}")
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
    "cursor": (lambda data: OFFERS.page("tools/list", V2026_07_28, text_of(data)), RemoteProtocolError),
    "template": (lambda data: UriTemplate(data.decode("latin-1")), ValueError),
    "uri": (lambda data: TEMPLATE.match("item://" + data.decode("latin-1")), ValueError),
    "argument header": (lambda data: check_argument(text_of(data)), RemoteProtocolError),
    "request state": (lambda data: unseal(text_of(data), [SECRET], "b", 0.0), RemoteProtocolError),
    "signed request state": (lambda data: unseal(signed(data), [SECRET], "b", 0.0), RemoteProtocolError),
    "event id": (lambda data: EVENTS.find(text_of(data)), ValueError),
    "host": (lambda data: check_host(text_of(data), ["desk.example:8080"]), ValueError),
    "origin": (lambda data: check_origin(text_of(data), ["https://desk.example"]), ValueError),
    "greeting": (lambda data: GreetingReader().feed(data), ValueError),
    "front matter": (lambda data: read_document("---\n" + data.decode("latin-1"), "a.md"), RegistrationError),
    "filter": (lambda data: parse(data.decode("latin-1"), 0.0), DeskUserError),
    "capture line": (lambda data: read_capture(data), ValueError),
    "trace": (lambda data: read_trace({"traceparent": text_of(data), "baggage": text_of(data)}), ValueError),
}
"""A parser of bytes, and the only kind of error it may raise."""


def check_argument(value: str) -> None:
    headers = {"Mcp-Param-Region": value, "Mcp-Param-Count": value}
    check_parameters(ANNOTATED, {"region": value, "count": 5}, headers)


def signed(data: bytes) -> str:
    """A token of ours, its body changed."""
    token = seal(RequestState("r", "b", 1.0, {"a": {"action": "accept"}}, {"a": "q"}), SECRET)
    version, body, signature = token.split(".")
    return ".".join([version, body[: len(data) % len(body)] + text_of(data), signature])


def read_capture(data: bytes) -> None:
    line = read_line(data)
    line_bytes(line)
    line_frame(line)


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
        b"1:17",
        b"=?base64?SGVsbG8=?=",
        b"[::1]:3333",
        b"https://desk.example:443",
        b"title: A\narguments: [{name: topic, required: true}]\n---\nText {{topic}}\n",
        b'method:tools/call (peer:"a b" or !error) size>1k since:10:05 ms<=20 /x.*y/',
        b'{"n":1,"t":1764000000.1,"c":1,"d":"in","text":"{}","size":2}',
        b'{"n":1,"t":1764000000.1,"c":1,"d":"in","base64":"/w=="}',
        b'{"mcpdesk":1,"pid":7,"folder":"/tmp","mode":"","name":"client"}\n',
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


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", PARSERS)
def test_random_bytes_get_a_verdict(name: str) -> None:
    for data in random_bytes():
        verdict(*PARSERS[name], data)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", PARSERS)
@given(data=st.binary(max_size=80) | st.text(max_size=80).map(str.encode))
def test_anything_gets_a_verdict(name: str, data: bytes) -> None:
    verdict(*PARSERS[name], data)


@pytest.mark.slow
@given(JSON)
def test_any_json_is_a_message_or_an_invalid_one(value: Any) -> None:
    verdict(
        lambda data: classify(codec.decode(data)),
        ProtocolError,
        orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS),
    )


@pytest.mark.slow
@given(JSON)
def test_any_metadata_is_accepted_or_refused(value: Any) -> None:
    verdict(lambda _: admit("tools/list", {"_meta": value}, None), RemoteProtocolError, b"")


@pytest.mark.slow
@given(
    st.dictionaries(
        st.text(max_size=5) | st.sampled_from(["properties", "x-mcp-header", "type"]), JSON, max_size=5
    )
)
def test_any_schema_is_annotated_or_refused(schema: dict[str, Any]) -> None:
    verdict(lambda _: mirrored_arguments(schema), ValueError, b"")


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


@pytest.mark.slow
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


FOLDER_FILES = {
    "mcp.json": b'{"name": "a", "version": "1", "auth": {"jwt": {"algorithms": ["HS256"]}}'
    b', "commands": [{"stage": "a", "command": "b", "run": ["c"]}], "settings": {"port": 1}, "icons": []}',
    "mcpdesk-env.txt": b"# comment\nPORT=3333\nexport MCPDESK_MODEL='a b'\n",
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", FOLDER_FILES)
def test_random_files_of_a_folder_get_a_verdict(name: str, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    path = tmp_path / name
    for _ in range(ROUNDS // 4):
        changed = bytearray(FOLDER_FILES[name])
        for _ in range(chance.randrange(1, 5)):
            place = chance.randrange(len(changed))
            changed[place : place + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
        path.write_bytes(changed)
        with suppress(ManifestError, DeskUserError):
            read_manifest(tmp_path) if name == "mcp.json" else list(read_env_file(path))


LINES = st.lists(
    st.builds(
        lambda value: orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": value}), JSON
    )
    | st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"")),
    max_size=5,
)


@pytest.mark.slow
@settings(deadline=None)
@given(LINES, st.lists(st.integers(0, 300)))
def test_a_pipe_answers_the_same_in_every_split(lines: list[bytes], cuts: list[int]) -> None:
    data = b"\n".join([*lines, b""])

    def answers(pieces: list[bytes]) -> bytes:
        peer, written = Peer(), bytearray()
        pipe = peer.endpoint.pipe("unix", "t", written.extend, limit=200)
        for piece in pieces:
            pipe.feed(piece)
        pipe.close()
        return bytes(written)

    places = [0, *sorted(cut for cut in cuts if cut <= len(data)), len(data)]
    assert answers([data]) == answers([data[a:b] for a, b in pairwise(places)])


@given(st.binary(max_size=200), st.lists(st.integers(0, 200)))
def test_a_greeting_is_read_the_same_in_every_split(data: bytes, cuts: list[int]) -> None:
    whole = b'{"mcpdesk":1,"pid":7,"folder":"/tmp","mode":"","name":"client"}\n' + data
    places = [0, *sorted(cut for cut in cuts if cut <= len(whole)), len(whole)]
    greeting, rest, hello = GreetingReader(), b"", None
    for a, b in pairwise(places):
        if hello is not None:
            rest += whole[a:b]
        elif (started := greeting.feed(whole[a:b])) is not None:
            hello, rest = started
    assert (hello, rest) == GreetingReader().feed(whole)
