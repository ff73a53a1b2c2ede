"""`requestState` survives a client only unchanged."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from mcpdesk.errors import RemoteProtocolError
from mcpdesk.protocol.request_state import RequestState, binding, digest, seal, unseal

SECRET = b"k" * 32
BOUND = binding("s", "tools/call", {"name": "pay", "arguments": {"eur": 5}}, "ada")
STATE = RequestState("r1", BOUND, 100.0, {"who": {"action": "accept"}}, {"who": "d"})


def test_what_is_sealed_comes_back() -> None:
    assert unseal(seal(STATE, SECRET), [SECRET], BOUND, 99.0) == STATE


@pytest.mark.requirement("12.6")
def test_every_changed_character_is_noticed() -> None:
    token, chance = seal(STATE, SECRET), random.Random(7)
    for place in chance.sample(range(len(token)), 60):
        other = chance.choice([each for each in "abcXYZ019._-" if each != token[place]])
        with pytest.raises(RemoteProtocolError):
            unseal(token[:place] + other + token[place + 1 :], [SECRET], BOUND, 99.0)


@pytest.mark.parametrize("token", [None, 5, "", ".", "..", "v2..", "v2.e30=.x", "\ud800", [], "é.é.é"])
def test_what_is_no_token_is_refused(token: object) -> None:
    with pytest.raises(RemoteProtocolError) as refused:
        unseal(token, [SECRET], BOUND, 0.0)
    assert refused.value.code == -32602


@pytest.mark.requirement("7.9")
def test_another_key_time_or_operation_is_refused() -> None:
    token = seal(STATE, SECRET)
    for secret, bound, now in ((b"x", BOUND, 0.0), (SECRET, "other", 0.0), (SECRET, BOUND, 100.0)):
        with pytest.raises(RemoteProtocolError, match="not valid for this request"):
            unseal(token, [secret], bound, now)
    assert seal(replace(STATE, round="r2"), SECRET) != token


def test_while_keys_are_rotated_each_of_them_counts() -> None:
    old, new = b"o" * 32, b"n" * 32
    for secret in (old, new):
        assert unseal(seal(STATE, secret), [new, old], BOUND, 99.0) == STATE
    for kept in ([new], []):
        with pytest.raises(RemoteProtocolError, match="not valid for this request"):
            unseal(seal(STATE, old), kept, BOUND, 99.0)


@pytest.mark.requirement("7.9")
def test_a_binding_looks_at_everything_but_the_round() -> None:
    same = {"arguments": {"eur": 5}, "name": "pay", "_meta": {}, "inputResponses": {}, "requestState": "x"}
    assert binding("s", "tools/call", same, "ada") == BOUND
    for other in (
        binding("t", "tools/call", same, "ada"),
        binding("s", "prompts/get", same, "ada"),
        binding("s", "tools/call", same, "bob"),
        binding("s", "tools/call", same | {"arguments": {"eur": 6}}, "ada"),
    ):
        assert other != BOUND


def test_the_order_of_keys_does_not_matter() -> None:
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 1, "b": 3})
