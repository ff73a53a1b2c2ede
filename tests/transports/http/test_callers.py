"""Tokens in messages: found, taken out, and not recorded. What a request with one is answered: tests/auth."""

from __future__ import annotations

import time
from typing import Any

import orjson
import pytest

from mcpdesk.transports.http.callers import holds_token, recorded, take_token, unreadable
from tests.support.patience import WITHIN_S
from tests.support.tokens import token

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.mark.parametrize(
    ("more", "token", "rest"),
    [
        ({"jwt": "a"}, "a", {}),
        ({"data": {"jwt": "b"}}, "b", {"data": {}}),
        ({"jwt": "a", "data": {"jwt": "b", "x": 1}}, "a", {"data": {"x": 1}}),
        ({"jwt": None, "data": {"jwt": "b"}}, "b", {"data": {}}),
        ({"jwt": 5}, 5, {}),
        ({"jwt": None}, None, {}),
    ],
)
def test_a_token_is_taken_out_of_a_message(more: dict[str, Any], token: Any, rest: dict[str, Any]) -> None:
    message = PING | more
    assert holds_token(message)
    assert take_token(message) == (token, PING | rest)


@pytest.mark.parametrize(
    "message", [PING, PING | {"data": {"x": "jwt"}}, PING | {"data": "jwt"}, [], [PING], [[{"jwt": "a"}]], 5]
)
def test_a_message_without_one_is_left_alone(message: Any) -> None:
    assert not holds_token(message)


def test_the_first_token_of_a_batch_is_taken_and_none_of_them_is_recorded() -> None:
    batch = [PING, 5, PING | {"data": {"jwt": "secret-b"}}, PING | {"jwt": "secret-a"}, [PING]]
    assert holds_token(batch)
    assert take_token(batch) == ("secret-b", [PING, 5, PING | {"data": {}}, PING, [PING]])
    shown = [PING, 5, PING | {"data": {"jwt": "***"}}, PING | {"jwt": "***"}, [PING]]
    assert orjson.loads(recorded(batch)) == shown


def test_what_looks_like_a_token_is_not_kept_of_what_is_no_message() -> None:
    text = token("HS256").encode()
    assert unreadable(b'{"jwt": "' + text + b'", ') == b'{"jwt": "***", '
    assert unreadable(b'{"jwt": "' + text.rpartition(b".")[0]) == b'{"jwt": "***'
    assert unreadable(b"\xff eyes.only") == b"\xff eyes.only"


def test_what_only_begins_like_tokens_is_read_over_once() -> None:
    began = time.process_time()
    for text in (b"eyJ" * 100_000, b"eyJ-" * 100_000):
        assert unreadable(text) == text
    assert b"eyJ" not in unreadable(b"eyJa." * 300_000)
    assert time.process_time() - began < WITHIN_S


def test_what_is_recorded_of_a_message_has_all_but_the_token() -> None:
    message = PING | {"jwt": "secret-a", "data": {"jwt": "secret-b", "x": 1}}
    kept = recorded(message)
    assert b"secret" not in kept
    assert orjson.loads(kept) == PING | {"jwt": "***", "data": {"jwt": "***", "x": 1}}
    assert message["jwt"] == "secret-a"
