"""A call read at once says what decoding it whole says, and nothing that decoding would refuse is taken."""

from __future__ import annotations

import random
from typing import Any

import orjson
import pytest

from mcpdesk.protocol.usual_call import UsualCall, read_call

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "traceparent": "00-é\n"}
PLAIN: list[Any] = [
    None,
    True,
    "",
    'é\n\\"\x1f\ue000',
    0,
    -1,
    2**63 - 1,
    -(2**63) + 1,
    0.5,
    -1e300,
    "x" * 5000,
]


def frame(**members: Any) -> bytes:
    """A usual call, but for some members; those that are None are left out."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "e", "arguments": {}}}
    message |= members
    return orjson.dumps({name: value for name, value in message.items() if value is not None})


def told(call: UsualCall) -> dict[str, Any]:
    """The message a call was read from."""
    params: dict[str, Any] = {"name": call.params.name, "arguments": call.params.arguments}
    if call.params.meta:
        params["_meta"] = orjson.loads(memoryview(call.params.meta))
    return {"jsonrpc": call.jsonrpc, "id": call.id, "method": call.method, "params": params}


@pytest.mark.parametrize("identifier", [1, -5, 2**63 - 1, "", "a", "é\n"])
@pytest.mark.parametrize("meta", [None, {}, META])
def test_what_is_read_is_what_was_said(identifier: Any, meta: Any) -> None:
    arguments = {f"key {place} é": value for place, value in enumerate(PLAIN)}
    params = {"name": "é", "arguments": arguments} | ({} if meta is None else {"_meta": meta})
    said = frame(id=identifier, params=params)
    for spelt in (said, said.replace(b'":', b'" :\t').replace(b',"', b' ,\r "')):
        call = read_call(spelt)
        assert call is not None
        assert repr(told(call)) == repr(orjson.loads(spelt))


@pytest.mark.parametrize(
    "data",
    [
        frame(id=1.0),
        frame(id=True),
        frame(id=2**63),
        frame(id=[]),
        frame(id=None),
        frame(jsonrpc="1.0"),
        frame(jsonrpc=None),
        frame(method="tools/list"),
        frame(params=[]),
        frame(params={"name": "e"}),
        frame(params={"name": 5, "arguments": {}}),
        frame(params={"name": "e", "arguments": []}),
        frame(params={"name": "e", "arguments": {}, "task": {}}),
        frame(params={"name": "e", "arguments": {"a": {"b": 1}}}),
        frame(params={"name": "e", "arguments": {"a": [1]}}),
        frame(params={"name": "e", "arguments": {"a": 2**63}}),
        frame(result={}),
        frame() + b"{}",
        frame()[:-1],
        b"\xef\xbb\xbf" + frame(),
        frame(params={"name": "e", "arguments": {"a": "b"}}).replace(b'"b"', b'"\xff"'),
        frame(params={"name": "e", "arguments": {"a": "b"}}).replace(b'"b"', b'"\\ud800"'),
        frame(params={"name": "e", "arguments": {"a": "b"}}).replace(b'"b"', b"01"),
        frame(params={"name": "e", "arguments": {"a": "b"}}).replace(b'"b"', b"1e999"),
        frame(params={"name": "e", "arguments": {"a": "b"}}).replace(b'"b"', b"NaN"),
        b"[" * 100_000,
        b"",
    ],
)
def test_what_is_wrong_or_uncommon_is_not_read(data: bytes) -> None:
    assert read_call(data) is None


@pytest.mark.parametrize(
    ("usual", "twice"),
    [
        (b'"id":1', b'"id":1,"id":2'),
        (b'"name":"b"', b'"name":"a","name":"b"'),
        (b'"x":1', b'"x":1,"x":1'),
        (b'"x":1', b'"x" :1 , "x":":"'),
        (b'"x":1', b'"y":"\\u003a","x":1,"x":1'),
        (b'"_meta":{}', b'"_meta":{"a":1},"_meta":{}'),
    ],
)
def test_a_call_with_a_member_said_twice_is_left_to_who_refuses_it(usual: bytes, twice: bytes) -> None:
    params = b'{"name":"b","arguments":{"x":1,"url":"http://h:1"},"_meta":{}}'
    said = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b}' % params
    assert read_call(said) is not None
    assert read_call(said.replace(usual, twice)) is None


def test_what_is_spoilt_is_read_as_it_decodes_or_not_at_all() -> None:
    """But for metadata, whose bytes are handed on."""
    dice = random.Random(5)
    params = {"name": "ec", "arguments": {"a": 1.5, "b": [1], "c": "é\n", "d": -7}}
    whole = frame(params=params).replace(b"[1]", b"12")
    for _ in range(20_000):
        spoilt = bytearray(whole)
        for _ in range(dice.randint(1, 3)):
            spoilt[dice.randrange(len(spoilt))] = dice.choice(b'{}[]",:\\0123456789.eE+-tfnu \n\x00\xff\xc3a')
        call = read_call(bytes(spoilt))
        if call is not None:
            assert repr(told(call)) == repr(orjson.loads(bytes(spoilt)))
