"""Parsing of tokens, and the principals of their claims."""

from __future__ import annotations

import random
from typing import Any

import pytest

from mcpdesk.auth.principal import Rejected
from mcpdesk.auth.tokens import (
    MAX_TOKEN_LENGTH,
    claims_for_handlers,
    principal_of,
    read_token,
    scopes_of,
    with_implied_scopes,
)
from tests.support.tokens import SECRET, base64, claims, signed, token


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a.b",
        "a.b.c",
        "a.b.c.d",
        "..",
        "é.é.é",
        "a b.c.d",
        "=.=.=",
        "a" * (MAX_TOKEN_LENGTH + 1),
        f"{token()}\n",
        f"{token()}.{token()}",
        token().replace(".", "..", 1),
        f"{base64(b'[]').decode()}.{base64(b'{}').decode()}.AAAA",
        f"{base64(b'nonsense').decode()}.{base64(b'{}').decode()}.AAAA",
        f"{base64(b'[' * 5000).decode()}.{base64(b'{}').decode()}.AAAA",
        signed("HS256", SECRET.encode(), {"alg": "HS256"}, b"[1]"),
        signed("HS256", SECRET.encode(), {"alg": "HS256"}, b'{"exp": NaN}'),
        signed("HS256", SECRET.encode(), {"alg": 5}, claims()),
        signed("HS256", SECRET.encode(), {"typ": "JWT"}, claims()),
        signed("HS256", SECRET.encode(), {"alg": "HS256", "kid": 5}, claims()),
        signed("HS256", SECRET.encode(), {"alg": "HS256", "crit": ["exp"]}, claims()),
        signed("HS256", SECRET.encode(), {"alg": "HS256", "b64": True}, claims()),
    ],
)
def test_what_is_no_token_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(Rejected) as refused:
        read_token(text)
    assert len(text) < 3 or text not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "known"),
    [
        ({}, ("", "", "", "")),
        ({"sub": "ada"}, ("ada", "", "", "")),
        ({"sub": 42, "jti": 7}, ("42", "", "", "7")),
        ({"sub": None, "address": "0xA"}, ("0xA", "0xA", "0xA", "")),
        ({"sub": "ada", "addr": "0xB"}, ("ada", "0xB", "0xB", "")),
        ({"sub": "ada", "address": "0xA", "addr": "0xB", "jti": "t"}, ("ada", "0xA", "0xB", "t")),
        ({"sub": {"a": 1}, "address": True, "addr": ["0xB"], "tokenId": "t"}, ("", "", "", "t")),
    ],
)
def test_subject_address_and_token_id_are_always_texts(given: dict[str, Any], known: tuple[str, ...]) -> None:
    found = claims_for_handlers({**given, "role": ["x"]})
    assert (found["sub"], found["address"], found["addr"], found["tokenId"]) == known
    assert found["role"] == ["x"]


@pytest.mark.parametrize(
    ("given", "scopes"),
    [
        ({}, set()),
        ({"scope": "read  write"}, {"read", "write"}),
        ({"scope": ["read", 5], "scp": "admin"}, {"read", "admin"}),
        ({"scope": {"read": True}, "scp": None}, set()),
    ],
)
def test_scopes_come_as_a_text_or_a_list(given: dict[str, Any], scopes: set[str]) -> None:
    assert scopes_of(given) == scopes


def test_a_broad_scope_stands_for_narrower_ones_in_any_depth_and_in_circles() -> None:
    includes = {"all": frozenset({"write"}), "write": frozenset({"read", "all"})}
    assert with_implied_scopes(frozenset({"all"}), includes) == {"all", "write", "read"}
    assert with_implied_scopes(frozenset({"read"}), includes) == {"read"}


def who(**given: Any) -> str:
    return principal_of(claims(**given), {}, 0).identity


def test_two_tokens_of_a_subject_are_one_principal_and_others_are_others() -> None:
    assert who() == who(jti="another", exp=1, scope="more")
    nameless = [who(sub=None), who(sub=None, jti="u"), who(sub=None, client_id="ada")]
    everybody = [who(), who(sub="bob"), who(iss="https://other.example"), who(iss=None), *nameless]
    assert len(set(everybody)) == len(everybody)
    assert principal_of(claims(), {}, 0, "wallet").identity not in everybody


def test_tokens_that_name_nobody_are_of_different_callers() -> None:
    nobody: list[dict[str, Any]] = [
        {"exp": 1},
        {"exp": 2},
        {"exp": 1, "sub": {"a": 1}},
        {"exp": 1, "sub": ["a"]},
    ]
    assert len({principal_of(each, {}, 0).identity for each in nobody}) == len(nobody)
    assert (
        principal_of({"a": 1, "exp": 1}, {}, 0).identity == principal_of({"exp": 1, "a": 1}, {}, 0).identity
    )
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    with pytest.raises(Rejected, match="it has no subject"):
        principal_of({"sub": deep}, {}, 0)
    assert principal_of({"sub": "ada", "more": deep}, {}, 0).name == "ada"


def test_a_principal_is_named_and_ends_with_its_token_and_the_leeway() -> None:
    principal = principal_of({"sub": "ada", "exp": 100, "scope": "read"}, {}, 5)
    assert (principal.kind, principal.name, principal.expires) == ("token", "ada", 105)
    assert principal.has_expired(105) and not principal.has_expired(104)
    assert principal.scopes == {"read"}
    assert principal_of({"exp": 1}, {}, 0).name == "a token without a subject"


def test_whatever_is_sent_is_taken_apart_or_refused() -> None:
    chance, whole = random.Random(11), token("HS256", scope="a b")
    signs = "".join(map(chr, range(32, 127))) + "\0\n\udcffé…"
    read = 0
    for _ in range(3000):
        text = list(whole)
        for _ in range(chance.choice((1, 1, 2, 20))):
            place = chance.randrange(len(text))
            text[place : place + chance.choice((0, 1, 3, 40))] = chance.choice(signs) * chance.choice(
                (0, 1, 5)
            )
        try:
            principal_of(read_token("".join(text)).claims, {}, 0)
        except Rejected:
            continue
        read += 1
    assert 0 < read < 3000


@pytest.mark.sampled(16)
@pytest.mark.parametrize("value", [None, True, 0, -5, 1.5, 10**30, "", "x", [], ["a", 1], {}, {"a": 1}])
@pytest.mark.parametrize("name", ["sub", "iss", "aud", "exp", "jti", "scope", "scp", "address", "client_id"])
def test_a_claim_of_any_kind_makes_a_principal(name: str, value: Any) -> None:
    principal = principal_of({**claims(), name: value}, {}, 0)
    assert principal.name and principal.identity.startswith("principal:")
