"""Heads are parsed from any bytes, without exceptions."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpdesk.recorder.index.exchange import ExchangeKind
from mcpdesk.recorder.index.message_heads import MALFORMED, Head, read_heads
from tests.support.traffic import asks, call, error, notification, progress, request, result, retry, text


def head(data: bytes) -> Head:
    (only,) = read_heads(data)
    return only


def test_a_request_tells_its_method_name_and_token() -> None:
    asked = head(call(7, "Bash", {"command": "ls"}, _meta={"progressToken": "p"}))
    assert (asked.kind, asked.id, asked.method, asked.name) == (ExchangeKind.REQUEST, 7, "tools/call", "Bash")
    assert asked.token == "p"


def test_a_stateless_request_tells_its_revision() -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    assert head(request(1, "tools/list", {"_meta": meta})).revision == "2026-07-28"


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"uri": "file:///a"}, "file:///a"),
        ({"name": "p"}, "p"),
        ({"taskId": "t1"}, "t1"),
        ({"stage": "visualize", "command": "heatmap"}, "visualize-heatmap"),
        ({"stage": "visualize"}, ""),
        ({}, ""),
    ],
)
def test_what_a_method_is_about(params: dict[str, str], name: str) -> None:
    assert head(request(1, "x/y", params)).name == name


def test_ids_keep_their_types() -> None:
    assert head(request(1, "ping")).id == 1
    assert head(request("1", "ping")).id == "1"


def test_responses_tell_how_they_ended() -> None:
    assert head(text(1, "x")) == Head(ExchangeKind.RESPONSE, 1, tokens=8)
    assert head(text(1, "x", is_error=True)).is_tool_error
    assert head(error(1)).is_error
    assert head(error(None)).id is None
    assert head(b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}').kind is ExchangeKind.RESPONSE
    assert head(result(1, {"protocolVersion": "2025-06-18"})).revision == "2025-06-18"


def test_notifications_tell_token_and_cancelled_id() -> None:
    assert head(progress(5, 1)).token == 5
    cancelled = head(notification("notifications/cancelled", {"requestId": "a"}))
    assert (cancelled.kind, cancelled.cancelled_id) == (ExchangeKind.NOTIFICATION, "a")


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"null",
        b"3",
        b"[]",
        b"{}",
        b'{"id":true,"method":"ping"}',
        b'{"id":null,"method":"ping"}',
        b'{"id":{},"result":{}}',
        b'{"id":1,"method":3}',
        b'\xff{"id":1,"method":"ping"}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"id":1,"method":"ping","params":' + b'{"a":' * 100_000,
    ],
)
def test_what_is_no_message_is_malformed(data: bytes) -> None:
    assert read_heads(data) == [MALFORMED]


def test_members_of_wrong_types_are_left_out_and_the_rest_is_taken() -> None:
    odd = head(b'{"id":1,"method":"tools/call","params":{"name":5,"uri":"u","_meta":{"progressToken":[]}}}')
    assert (odd.method, odd.name, odd.token) == ("tools/call", "u", None)
    assert head(b'{"id":1,"method":"m","params":[1,2]}').method == "m"
    assert head(b'{"id":1,"result":{"isError":"yes"}}') == Head(ExchangeKind.RESPONSE, 1, is_remarked=True)
    assert head(b'{"jsonrpc":"2.0","id":1,"result":5}') == Head(ExchangeKind.RESPONSE, 1)


def test_a_batch_has_a_head_for_every_message() -> None:
    batch = b"  [" + request(1, "ping") + b"," + notification("n") + b", 5]"
    assert [one.kind for one in read_heads(batch)] == [
        ExchangeKind.REQUEST,
        ExchangeKind.NOTIFICATION,
        ExchangeKind.MALFORMED,
    ]


def test_an_array_without_end_is_one_thing() -> None:
    assert read_heads(b"[" + b"1," * 100_000 + b"1]") == [MALFORMED]


@given(st.binary(max_size=100))
def test_random_bytes_have_a_head(data: bytes) -> None:
    assert len(read_heads(data)) >= 1


def test_mutilated_messages_have_a_head() -> None:
    chance = random.Random(7)
    whole = call("id", "Bash", {"command": "ls"}, _meta={"progressToken": 3})
    for _ in range(500):
        at = chance.randrange(len(whole))
        assert len(read_heads(whole[:at] + bytes([chance.randrange(256)]) + whole[at + 1 :])) >= 1


def test_what_links_rounds_and_tasks_is_in_the_head() -> None:
    asked = head(asks(1, "v1.state", who="Who?"))
    assert (asked.needs_input, asked.state, asked.is_error) == (True, "v1.state", False)
    assert head(retry(2, "a", "v1.state")).state == "v1.state"
    assert head(result(1, {"resultType": "task", "taskId": "t"})).task == "t"
    assert head(result(1, {"task": {"taskId": "t"}})).task == "t"
    related = {"io.modelcontextprotocol/related-task": {"taskId": "t"}}
    assert head(request(1, "elicitation/create", {"_meta": related})).task == "t"
    odd = head(b'{"id":1,"result":{"resultType":[],"requestState":5,"taskId":{},"task":"t","isError":true}}')
    assert odd == Head(ExchangeKind.RESPONSE, 1, is_tool_error=True, is_remarked=True)
