"""Keys: algorithms each may check, and values that are not keys."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from mcpdesk.auth.keys import ALGORITHMS, MAX_KEYS, KeySet, jwk_keys, secret_keys
from mcpdesk.auth.tokens import read_token
from tests.support.tokens import SECRET, base64, jwk, jwks, pem, token

PUBLIC = tuple(name for name in ALGORITHMS if not name.startswith("HS"))


def fits(keys: KeySet, text: str) -> bool:
    read = read_token(text)
    return any(check(read.signed, read.signature) for check in keys.find(read.algorithm, read.key_id))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("algorithm", PUBLIC)
def test_a_public_key_checks_what_its_other_half_signed(algorithm: str) -> None:
    keys = jwk_keys(jwks(jwk(algorithm)), [algorithm], with_secrets=False)
    assert keys.complaints == ()
    assert fits(keys, token(algorithm))
    assert not fits(keys, token(algorithm, "other", header={"kid": "first"}))
    first, second = token(algorithm), token(algorithm, sub="eve")
    assert not fits(keys, second.rpartition(".")[0] + "." + first.rpartition(".")[2])


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_a_secret_checks_hashes_alone(algorithm: str) -> None:
    keys = secret_keys(SECRET.encode(), ALGORITHMS)
    assert fits(keys, token(algorithm))
    assert [name for name in ALGORITHMS if keys.find(name, None)] == ["HS256", "HS384", "HS512"]


def test_a_key_without_an_algorithm_of_its_own_serves_those_of_its_kind_that_are_allowed() -> None:
    keys = jwk_keys(jwks(jwk("RS256", alg=None)), ["RS256", "PS512", "ES256"], with_secrets=False)
    assert [name for name in ALGORITHMS if keys.find(name, None)] == ["RS256", "PS512"]


def test_a_key_is_found_by_its_id_or_tried_when_either_has_none() -> None:
    keys = jwk_keys(jwks(jwk("RS256"), jwk("RS256", "second", kid=None)), ["RS256"], with_secrets=False)
    assert [len(keys.find("RS256", name)) for name in ("first", "unknown", None)] == [2, 1, 2]


def test_a_public_key_is_no_secret() -> None:
    keys = secret_keys(pem("RS256"), ["HS256"])
    assert keys.keys == () and "another kind" in keys.complaints[0]


@pytest.mark.parametrize(("size", "left"), [(31, 0), (32, 1), (48, 2), (64, 3)])
def test_a_secret_shorter_than_the_hash_is_not_used_for_it(size: int, left: int) -> None:
    keys = secret_keys(b"x" * size, ["HS256", "HS384", "HS512"])
    assert sum(bool(keys.find(name, None)) for name in ("HS256", "HS384", "HS512")) == left
    assert len(keys.complaints) == 3 - left


def oct_key(secret: bytes, **more: Any) -> dict[str, Any]:
    return {"kty": "oct", "k": base64(secret).decode(), "kid": "shared", **more}


def test_a_secret_in_a_set_counts_only_where_others_cannot_read_it() -> None:
    document = jwks(oct_key(SECRET.encode()))
    assert fits(jwk_keys(document, ["HS256"], with_secrets=True), token("HS256", header={"kid": "shared"}))
    keys = jwk_keys(document, ["HS256"], with_secrets=False)
    assert keys.keys == () and "must not contain a secret" in keys.complaints[0]


def short_key() -> dict[str, Any]:
    public = rsa.generate_private_key(public_exponent=65537, key_size=1024).public_key()
    return {**RSAAlgorithm.to_jwk(public, as_dict=True), "key_ops": ["verify"]}


@pytest.mark.parametrize(
    ("member", "why"),
    [
        ("text", "not an object"),
        ({}, "allowed algorithms"),
        ({"kty": "EC", "crv": "P-257"}, "allowed algorithms"),
        ({"kty": "EC", "crv": ["P-256"]}, "allowed algorithms"),
        (jwk("RS256", use="enc"), "checking signatures"),
        (jwk("RS256") | {"key_ops": ["sign"]}, "checking signatures"),
        (jwk("RS256", alg="ES256"), "allowed algorithms"),
        (jwk("ES384"), "allowed algorithms"),
        (jwk("RS256") | {"key_ops": 5}, "checking signatures"),
        (short_key(), "at least 2048"),
        ({"kty": "RSA", "n": "AQAB", "e": "AQAB"}, "are not a valid key"),
        ({"kty": "RSA", "n": 5, "e": []}, "are not a valid key"),
        ({"kty": "RSA"}, "are not a valid key"),
        (jwk("ES256", x="AAAA"), "are not a valid key"),
        (oct_key(b"short"), "too short"),
    ],
)
def test_a_key_that_cannot_be_used_is_left_out_with_its_reason_and_the_rest_serves(
    member: Any, why: str
) -> None:
    allowed = ["RS256", "ES256", "HS256"]
    keys = jwk_keys(jwks(member, jwk("RS256", "good")), allowed, with_secrets=True)
    assert len(keys.keys) == 1 and fits(keys, token("RS256", "good"))
    assert keys.complaints[0].startswith("key 1 is left out: ") and why in keys.complaints[0]


def test_the_private_half_in_a_set_is_not_looked_at() -> None:
    keys = jwk_keys(jwks(jwk("RS256", d="AAAA", p="AAAA")), ["RS256"], with_secrets=False)
    assert fits(keys, token("RS256"))


@pytest.mark.parametrize(
    "document",
    [b"", b"nonsense", b"[]", b"{}", b'{"keys": 5}', json.dumps({"keys": [{}] * (MAX_KEYS + 1)}).encode()],
)
def test_what_is_no_key_set_is_refused_whole(document: bytes) -> None:
    with pytest.raises(ValueError, match="keys"):
        jwk_keys(document, ["RS256"], with_secrets=False)
