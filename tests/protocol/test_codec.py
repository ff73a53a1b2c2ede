"""JSON on the wire: compact, one line, and clear errors for values it cannot represent."""

from __future__ import annotations

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpdesk.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from mcpdesk.protocol import codec

ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=20,
)


@pytest.mark.slow
@given(ANY_JSON)
def test_what_is_encoded_decodes_to_the_same_on_one_line(value: object) -> None:
    frame = codec.encode(value)
    assert b"\n" not in frame
    assert codec.decode(frame) == value == json.loads(frame)


def is_json(data: bytes) -> bool:
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return True


@given(st.binary(max_size=60))
def test_any_bytes_decode_or_are_a_parse_error(data: bytes) -> None:
    try:
        codec.decode(data)
    except RemoteProtocolError as error:
        assert error.code == (-32600 if is_json(data) else -32700)


@pytest.mark.parametrize("value", [{1, 2}, object(), {1: 2}])
def test_values_json_cannot_carry_are_our_mistake(value: object) -> None:
    with pytest.raises(LocalProtocolError, match="JSON"):
        codec.encode(value)


@pytest.mark.parametrize("value", [2**70, -(2**63) - 1, {"a": [10**29, "ü", 1.5, None]}])
def test_integers_of_any_size_keep_their_digits(value: object) -> None:
    assert json.loads(codec.encode(value)) == value
    assert json.loads(codec.response(1, {"v": value})) == {"jsonrpc": "2.0", "id": 1, "result": {"v": value}}


@pytest.mark.requirement("2.1")
@pytest.mark.parametrize("identifier", [0, -5, "", 'a"b', "ü", 2**53])
def test_responses_echo_the_id_as_it_was(identifier: int | str) -> None:
    spliced = orjson.loads(codec.result_frame(identifier, b'{"tools":[]}'))
    assert spliced == {"jsonrpc": "2.0", "id": identifier, "result": {"tools": []}}
    assert type(spliced["id"]) is type(identifier)


def test_an_error_without_readable_id_has_none() -> None:
    message = orjson.loads(codec.error_response(None, ProtocolError(-32700, "no", {"at": 1})))
    assert message == {"jsonrpc": "2.0", "error": {"code": -32700, "message": "no", "data": {"at": 1}}}


def test_notifications_have_params_only_when_there_are_some() -> None:
    assert orjson.loads(codec.notification("notifications/x")) == {
        "jsonrpc": "2.0",
        "method": "notifications/x",
    }
    assert orjson.loads(codec.request(1, "ping", {"a": 1}))["params"] == {"a": 1}


def test_an_error_arrives_without_what_json_cannot_carry() -> None:
    odd = ProtocolError(-32603, "no file 'caf\udce9'", {"file": object()})
    body = orjson.loads(codec.error_response(1, odd))["error"]
    assert body["message"].startswith("no file 'caf?' (its data is left out: Not expressible as JSON")
    assert "data" not in body
    fine = ProtocolError(7, "größer", {"by": 2})
    assert codec.error_object(fine) == {"code": 7, "message": "größer", "data": {"by": 2}}


TWICE = [
    '{"a":1,"a":1}',
    '{"a":1,"a":2}',
    '{"a" :1, "a":2}',
    r'{"a":1,"\u0061":2}',
    r'{"\u0061":1,"\u0061":1}',
    '{"b":[0,{"c":{"a":1,"d":0,"a":2}}]}',
    '[{"a":1},{"a":{},"a":[]}]',
    '{"a":":::","a":":"}',
    r'{"b":"\u003a","a":1,"a":2}',
    r'{"b":"\u003A","a":1,"a":2}',
    '{"n":1e5,"a":1,"a":2}',
    '{"deep":' + "[" * 300 + "]" * 300 + ',"a":1,"a":2}',
]


@pytest.mark.parametrize("text", TWICE)
def test_a_key_that_is_given_twice_is_refused_and_named(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match="'a' is given more than once") as refused:
        codec.decode(text.encode())
    assert refused.value.code == -32600


@pytest.mark.slow
@given(ANY_JSON, st.sampled_from([None, 1]), st.booleans())
def test_whoever_writes_json_with_every_key_once_is_understood(
    value: object, indent: int | None, is_ascii: bool
) -> None:
    text = json.dumps([value, {"http://a:b": 1e5}], indent=indent, ensure_ascii=is_ascii)
    assert codec.decode(text.encode()) == [value, {"http://a:b": 1e5}]
