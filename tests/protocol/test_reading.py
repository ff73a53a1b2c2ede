"""Frames that are almost JSON-RPC are read, with remarks that name the fault and its position."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpdesk.protocol.reading import lenient_json
from mcpdesk.protocol.reading.message import has_lone_surrogate, read_frame, same_id, unknown_id_remark
from mcpdesk.protocol.reading.message_framer import MessageFramer
from mcpdesk.protocol.reading.remark import RemarkKind


def response(text: str = "Größe", **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 4, "result": {"content": [{"type": "text", "text": text}], **more}}


PLAIN = json.dumps(response(), ensure_ascii=False)
WRONG: list[tuple[str, bytes, dict[str, Any]]] = [
    ("encoding", PLAIN.encode("latin-1"), response()),
    ("encoding", b'{"jsonrpc":"2.0","id":4,"result":{"a":"\x80 \x93x\x94"}}', {"a": "€ “x”"}),
    ("encoding", b'{"jsonrpc":"2.0","id":4,"result":{"a":"\xc3\xbc \xe2\x82"}}', {"a": "ü ��"}),
    ("surrogate", b'{"jsonrpc":"2.0","id":4,"result":{"a":"\xed\xa0\xbd\xed\xb8\x80"}}', {"a": "😀"}),
    (
        "surrogate",
        rb'{"jsonrpc":"2.0","id":4,"result":{"a":"x\udfff","b":"\ud83d\ude00"}}',
        {"a": "x�", "b": "😀"},
    ),
    ("surrogate", rb'{"jsonrpc":"2.0","id":4,"result":{"k\ud800":1}}', {"k�": 1}),
    (
        "number",
        b'{"jsonrpc":"2.0","id":4,"result":{"mean":NaN,"n":[1,-Infinity]}}',
        {"mean": None, "n": [1, None]},
    ),
    ("number", b'{"jsonrpc":"2.0","id":4,"result":{"mean":nan,"max":inf}}', {"mean": None, "max": None}),
    ("number", b'{"jsonrpc":"2.0","id":4,"result":{"big":1e999}}', {"big": None}),
    ("byte-order-mark", b"\xef\xbb\xbf" + PLAIN.encode(), response()),
    ("utf-16", PLAIN.encode("utf-16"), response()),
    ("utf-16", PLAIN.encode("utf-16-le"), response()),
    ("utf-16", PLAIN.encode("utf-16-be"), response()),
    ("nul", PLAIN.encode() + b"\0", response()),
    ("nul", b"\0" + PLAIN.encode(), response()),
    ("control-character", b'{"jsonrpc":"2.0","id":4,"result":{"a":"x\ty"}}', {"a": "x\ty"}),
    ("syntax", b'{"jsonrpc":"2.0","id":4,"result":{"a":[1,2,],},}', {"a": [1, 2]}),
    ("syntax", b'{"jsonrpc":"2.0",/* why */"id":4,"result":{"a":"//"}}', {"a": "//"}),
    (
        "syntax",
        repr(response(ok=True, none=None, said='it\'s "so"')).encode(),
        response(ok=True, none=None, said='it\'s "so"'),
    ),
    ("syntax", b'{jsonrpc: "2.0", id: 4, result: {a: +1, b: .5, c: 1_000}}', {"a": 1, "b": 0.5, "c": 1000}),
    ("several-lines", json.dumps(response(), indent=2).encode(), response()),
    ("content-length", b"Content-Length: 9\r\nContent-Type: x/y\r\n\r\n" + PLAIN.encode(), response()),
    ("jsonrpc", b'{"id":4,"result":{"a":1}}', {"a": 1}),
    ("jsonrpc", b'{"jsonrpc":2.0,"id":4,"result":{"a":1}}', {"a": 1}),
    ("duplicate-key", b'{"jsonrpc":"2.0","id":4,"id":4,"result":{"a":1}}', {"a": 1}),
    ("text-around", b"ready\x1b[0m " + PLAIN.encode(), response()),
    ("text-around", PLAIN.encode() + b" [done]", response()),
]


@pytest.mark.parametrize(("kind", "frame", "expected"), WRONG)
def test_what_is_almost_a_message_is_read_with_a_remark(
    kind: str, frame: bytes, expected: dict[str, Any]
) -> None:
    read = read_frame(frame, is_line=True)
    assert read.value == (
        expected if "jsonrpc" in expected else {"jsonrpc": "2.0", "id": 4, "result": expected}
    )
    assert read.fault is None and kind in [each.kind for each in read.remarks]
    assert all("\n" not in each.text and each.text for each in read.remarks)


@pytest.mark.parametrize(
    ("frame", "at", "words"),
    [
        (b'{"jsonrpc":"2.0","id":4,"result":{"mean":NaN}}', 41, '"mean" is NaN at byte 41'),
        (b'{"jsonrpc":"2.0","id":4,"result":{"\xfc":1}}', 35, "byte 0xFC at offset 35 is not UTF-8"),
        (b'{"jsonrpc":"2.0","id":4,"result":{"\xc3\xbc":"\\ud801"}}', 40, "at byte 40"),
        (b'{"jsonrpc":"2.0","id":4,"result":{"\xfc":[1,]}}', 40, "closing bracket at byte 40"),
        ('{"jsonrpc":"2.0","id":4,"result":{"ü":NaN}}'.encode("utf-16-le"), 76, "at byte 76"),
    ],
)
def test_a_remark_names_the_position_in_bytes(frame: bytes, at: int, words: str) -> None:
    last = read_frame(frame).remarks[-1]
    assert last.at == at and words in last.text


@pytest.mark.parametrize("id_member", [b'"id":4,', b'"x":{"id":9},"id":4,'])
@pytest.mark.parametrize(
    ("end", "kind", "words"),
    [
        (b'"result":{"a":1,"a":2}}', "duplicate-key", 'the key "a"'),
        (b'"result":{"a":[}', "unreadable", "Expecting value at byte"),
        (b'"result":' + b"[" * 3_000 + b"]" * 3_000 + b"}", "unreadable", "nested too deeply"),
        (b'"result":' + b'{"a":[' * 1_500 + b"]}" * 1_500 + b"}", "unreadable", "nested too deeply"),
    ],
)
def test_a_message_without_a_clear_meaning_is_a_fault_with_its_id(
    id_member: bytes, end: bytes, kind: str, words: str
) -> None:
    read = read_frame(b'{"jsonrpc":"2.0",' + id_member + end)
    assert read.value is None and read.fault is not None and read.fault.is_fault
    assert read.fault.kind == kind and words in read.fault.text
    assert (read.id, read.is_response) == (4, True)
    batch = read_frame(b'[{"jsonrpc":"2.0",' + id_member + end + b',{"jsonrpc":"2.0","method":"x"}]')
    assert batch.fault is not None and batch.fault.kind == kind
    assert (batch.id, batch.is_response) == (None, True)


@pytest.mark.parametrize(
    "noise",
    [
        b"Server running",
        b'{"level":30,"method":"GET","msg":"x"}',
        b'[INFO] got {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}',
        b"{ message: 'hi' }",
        b"<html></html>",
        b"[1, 2]",
        b"\xff\xfe",
        b"{",
        b"",
    ],
)
def test_text_that_was_not_meant_as_a_message_is_none(noise: bytes) -> None:
    read = read_frame(noise, is_line=True)
    assert not read.is_message and not read.remarks


def test_messages_in_a_row_and_in_an_array_are_all_read() -> None:
    twice = read_frame(PLAIN.encode() + b" " + PLAIN.encode())
    assert twice.messages == [response(), response()]
    assert [each.kind for each in twice.remarks] == [RemarkKind.SEVERAL_MESSAGES]
    assert read_frame(b"[" + PLAIN.encode() + b"]").value == [response()]


@pytest.mark.parametrize("spaced", [True, False])
@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**30, 10**18 + 1, 2**63])
def test_integers_of_any_size_keep_their_digits(number: int, spaced: bool) -> None:
    message = response(n=number, also=[number, 1.5])
    frame = json.dumps(message, separators=None if spaced else (",", ":")).encode()
    read = read_frame(frame)
    assert read.value == message and not read.remarks


@given(st.binary(max_size=80))
def test_any_bytes_can_be_read(data: bytes) -> None:
    for frame in (data, b'{"jsonrpc":"2.0","id":1,"result":' + data + b"}"):
        read = read_frame(frame, is_line=True)
        assert read.fault is None or read.value is None


@pytest.mark.parametrize(
    ("given_id", "identifier", "is_same"),
    [
        ("4", 4, True),
        (4.0, 4, True),
        ("4.0", 4, True),
        (4, "4", True),
        (True, 1, False),
        (None, 1, False),
        ("04x", 4, False),
        ("4", "4.0", False),
        (4.5, 4, False),
    ],
)
def test_an_id_of_another_type_is_the_same_if_its_number_is(
    given_id: Any, identifier: int | str, is_same: bool
) -> None:
    assert same_id(given_id, identifier) is is_same


def test_only_half_a_pair_is_a_lone_surrogate() -> None:
    assert not has_lone_surrogate(rb"\ud83d\ude00 \u00fc")
    assert has_lone_surrogate(rb"\ud83d \ude00") and has_lone_surrogate(rb"\ude00\ud83d")


STREAMS: list[tuple[bytes, list[bytes]]] = [
    (b'{"a":1}\r\n\n{"b":2}\n', [b'{"a":1}', b'{"b":2}']),
    (b'Ready\nLoaded: {\n  x: 1\n}\n{"a":1}\n', [b"Ready", b"Loaded: {", b"x: 1", b"}", b'{"a":1}']),
    (
        b'{\n  "a": "}\\"{",\n\n  "b": [\n  ]\n}\n{"c":1}\n',
        [b'{\n  "a": "}\\"{",\n\n  "b": [\n  ]\n}', b'{"c":1}'],
    ),
    (b'{"a":"x\ny"}\n', [b'{"a":"x\ny"}']),
    (
        b'{\n"a": 1,\n{"jsonrpc":"2.0","id":1,"result":{}}\n',
        [b"{", b'"a": 1,', b'{"jsonrpc":"2.0","id":1,"result":{}}'],
    ),
    (
        b'Content-Length: 7\r\n\r\n{"a":1}Content-Length: 7\r\n\r\n{"b":2}',
        [b'Content-Length: 7\r\n\r\n{"a":1}', b'Content-Length: 7\r\n\r\n{"b":2}'],
    ),
    (b'content-length: 99\n\n{"a":"}"}\n{"b":2}\n', [b'content-length: 99\n\n{"a":"}"}', b'{"b":2}']),
    (b"\xef\xbb\xbf{\n}\n", [b"\xef\xbb\xbf{\n}"]),
    (
        '{"ੴ":"Ċ"}\r\n{\n}\n'.encode("utf-16-le"),
        ['{"ੴ":"Ċ"}'.encode("utf-16-le"), "{\n}".encode("utf-16-le")],
    ),
    ('{"ੴ":1}\n'.encode("utf-16-be"), ['{"ੴ":1}'.encode("utf-16-be")]),
    (b"no newline", [b"no newline"]),
    (b"{\n", [b"{"]),
]


@pytest.mark.parametrize("step", [1, 3, 1_000])
@pytest.mark.parametrize(("data", "frames"), STREAMS)
def test_output_is_cut_into_messages_and_lines(data: bytes, frames: list[bytes], step: int) -> None:
    framer, found = MessageFramer(), list[bytes]()
    for start in range(0, len(data), step):
        found += framer.feed(data[start : start + step])
    assert found + framer.close() == frames


def test_a_message_that_does_not_go_on_is_given_up_as_lines() -> None:
    framer = MessageFramer()
    assert framer.feed(b'{"jsonrpc":"2.0","id":1,\n') == [] and framer.is_within_message
    assert framer.give_up() == [b'{"jsonrpc":"2.0","id":1,'] and not framer.is_within_message
    assert framer.feed(b'{"a":1}\n') == [b'{"a":1}']


def test_a_repaired_message_in_one_line_has_no_remark_about_several_lines() -> None:
    one = read_frame(b'ready {"jsonrpc":"2.0","id":4,"result":{}}', is_line=True)
    several = read_frame(b'ready {"jsonrpc":"2.0",\n"id":4,"result":{}}', is_line=True)
    assert [each.kind for each in one.remarks] == [RemarkKind.TEXT_AROUND]
    assert [each.kind for each in several.remarks] == [RemarkKind.TEXT_AROUND, RemarkKind.SEVERAL_LINES]


def test_frames_beyond_the_limit_are_dropped_and_counted() -> None:
    framer = MessageFramer(limit=10)
    assert framer.feed(b'{"a":"0123456789"}\n{}\n') == [b"", b"{}"]
    assert framer.feed(b"{" + b" " * 20) == [] and framer.feed(b"}\n{}\n") == [b"", b"{}"]
    assert framer.feed(b"content-length: 99\n\n{" + b" " * 20) == [b""]
    assert framer.dropped == 3


BEGUN = b'{"jsonrpc":"2.0","id":4,"result":[1,'
LONG_WORK = [
    b"/**/" * 400 + b"x]}",
    b"//" * 400 + b"x\n y]}",
    b",/*" * 30_000,
    b"/* " * 50_000,
    b'"' + b'\\"' * 100_000,
    b"'" + b"\\'" * 100_000,
    b"{" + b",".join(b'"k%d":1,"k%d":1' % (each, each) for each in range(10_000)) + b"},]}",
]
"""Ends of a message that a backtracking reader would read for minutes, or without end."""


@pytest.mark.slow
@pytest.mark.parametrize("end", LONG_WORK, ids=range(len(LONG_WORK)))
def test_the_time_to_read_a_message_grows_with_its_size_only(end: bytes) -> None:
    read = read_frame(BEGUN + end)
    assert read.is_message
    assert len(read.remarks) <= 5


def test_few_keys_that_are_given_twice_have_a_remark() -> None:
    pairs = b",".join(b'"k%d":1,"k%d":1' % (each, each) for each in range(10))
    read = read_frame(b'{"jsonrpc":"2.0","id":4,"result":{' + pairs + b",}}")
    assert [each.kind for each in read.remarks].count(RemarkKind.DUPLICATE_KEY) == 3


def test_a_text_of_very_many_parts_is_not_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lenient_json, "MAX_TOKENS", 1_000)
    assert read_frame(BEGUN + b"1," * 100 + b"]}").value is not None
    read = read_frame(BEGUN + b"1," * 1_000 + b"]}")
    assert read.value is None
    assert read.fault is not None


@pytest.mark.parametrize("depth", [400, 900, 2_000, 50_000])
def test_a_message_of_any_depth_is_read_or_has_a_fault(depth: int) -> None:
    half = b"[" * depth + rb'"\ud800"' + b"]" * depth
    assert read_frame(b'{"jsonrpc":"2.0","id":4,"result":' + half + b",}").is_message
    assert read_frame(b'{"jsonrpc":' + half + b',"id":4,"result":{}}').is_message


@pytest.mark.parametrize("value", [{"a": "x" * 10_000}, [[1]], "x" * 10_000, 10**3_000])
def test_a_remark_quotes_little_of_what_a_server_sent(value: Any) -> None:
    assert len(unknown_id_remark(value).text) < 150
    frame = json.dumps({"jsonrpc": value, "id": 4, "result": {}}).encode()
    assert all(len(each.text) < 150 for each in read_frame(frame).remarks)


@pytest.mark.parametrize("step", [1, 2, 3, 7, 64])
def test_a_long_line_in_utf16_is_dropped_once_and_the_next_one_is_read(step: int) -> None:
    framer = MessageFramer(limit=100)
    data = ("\ufeff" + json.dumps({"a": "x" * 200}) + '\n{"id":1}\n').encode("utf-16-le")
    frames = [each for at in range(0, len(data), step) for each in framer.feed(data[at : at + step])]
    assert frames == [b"", '{"id":1}'.encode("utf-16-le")]
    assert (framer.dropped, framer.unread) == (1, 0)


@pytest.mark.slow
def test_a_line_in_utf16_that_comes_in_many_pieces_is_joined_once() -> None:
    line = (json.dumps({"a": "x" * (8 << 20)}) + "\n").encode("utf-16-le")
    framer = MessageFramer(limit=1 << 30)
    frames = [each for at in range(0, len(line), 4096) for each in framer.feed(line[at : at + 4096])]
    assert [len(each) for each in frames] == [len(line) - 2]
