"""A token counts when its signature, issuer, audience and time are right, each time it is shown."""

from __future__ import annotations

import time
from typing import Any

import pytest

from mcpdesk.auth.keys import CONSTANT, Key, KeySet, KeySource, constant, jwk_keys, secret_keys
from mcpdesk.auth.principal import Rejected
from mcpdesk.auth.tokens import TokenTerms, Verifier
from tests.support.tokens import AUDIENCE, ISSUER, SECRET, jwk, jwks, token

TERMS = TokenTerms(frozenset({"RS256"}), ISSUER, frozenset({AUDIENCE, "spare"}), leeway_s=10)


def verifier(terms: TokenTerms = TERMS, keys: KeySet | None = None, clock: Any = time.time) -> Verifier:
    found = keys or jwk_keys(jwks(jwk("RS256"), jwk("RS256", "second")), terms.algorithms, with_secrets=False)
    return Verifier(terms, KeySource(constant(found), CONSTANT), clock)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"exp": 1}, "expired"),
        ({"exp": None}, "expiry time"),
        ({"exp": "soon"}, "expiry time"),
        ({"exp": True}, "expiry time"),
        ({"nbf": 1 << 40}, "not valid yet"),
        ({"nbf": "later"}, "not valid yet"),
        ({"iat": 1 << 40}, "not valid yet"),
        ({"iss": "https://issuer.example/"}, "another issuer"),
        ({"iss": None}, "another issuer"),
        ({"iss": [ISSUER]}, "another issuer"),
        ({"aud": "https://other.example"}, "another audience"),
        ({"aud": None}, "another audience"),
        ({"aud": []}, "another audience"),
        ({"aud": {AUDIENCE: 1}}, "another audience"),
        ({"aud": [5, AUDIENCE.upper()]}, "another audience"),
    ],
)
async def test_a_claim_that_is_wrong_is_named_to_the_server(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(Rejected, match=why):
        await verifier().verify(token(**changes))


async def test_a_token_seen_before_is_checked_again() -> None:
    now = [1000.0]
    terms = TokenTerms(frozenset({"HS256"}))
    source = KeySource(constant(secret_keys(SECRET.encode(), ["HS256"])), CONSTANT)
    checker = Verifier(terms, source, lambda: now[0])
    text = token("HS256", exp=2000, iat=900)
    assert await checker.verify(text) is await checker.verify(text)
    source._keys = KeySet(())
    with pytest.raises(Rejected, match="key is not known"):
        await checker.verify(text)
    source._keys = secret_keys(SECRET.encode(), ["HS256"])
    now[0] = 2000
    with pytest.raises(Rejected, match="expired"):
        await checker.verify(text)


async def test_a_token_is_recognized_as_long_as_its_keys_and_its_time_are_the_same() -> None:
    now = [1000.0]
    keys = secret_keys(SECRET.encode(), ["HS256"])
    source = KeySource(constant(keys), CONSTANT)
    checker = Verifier(TokenTerms(frozenset({"HS256"}), leeway_s=5), source, lambda: now[0])
    text = token("HS256", exp=2000, iat=900)
    assert checker.recognize(text) is None and checker.recognize(None) is None
    principal = await checker.verify(text)
    assert checker.recognize(text) is principal
    for now[0], is_known in ((894.0, False), (895.0, True), (2004.0, True), (2005.0, False)):
        assert (checker.recognize(text) is principal) is is_known
    now[0] = 1000.0
    source._keys = secret_keys(SECRET.encode(), ["HS256"])
    assert checker.recognize(text) is None, "keys that are new are looked at closely"
    assert await checker.verify(text) is principal and checker.recognize(text) is principal


async def test_the_signature_is_checked_each_time_a_token_is_recognized() -> None:
    checked: list[bytes] = []

    def check(signed: bytes, signature: bytes) -> bool:
        checked.append(signature)
        return len(checked) < 3

    source = KeySource(constant(KeySet([Key(None, {"HS256": check})])), CONSTANT)
    checker = Verifier(TokenTerms(frozenset({"HS256"})), source)
    text = token("HS256")
    await checker.verify(text)
    assert checker.recognize(text) is not None
    assert checker.recognize(text) is None
    assert len(checked) == 3
