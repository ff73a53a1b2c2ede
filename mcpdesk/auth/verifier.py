"""From a token to its principal: the signature first, then issuer, audience and time, each time anew."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from mcpdesk.auth.key_source import KeySource
from mcpdesk.auth.keys import Check, KeySet
from mcpdesk.auth.principal import Principal
from mcpdesk.auth.token import Rejected, Token, principal_of, read_token

MOST_READ = 256
"""Tokens that are kept taken apart. None is kept as genuine."""


class Terms(Struct, frozen=True):
    """What a token has to say to count."""

    algorithms: frozenset[str]
    issuer: str = ""
    """Empty: anybody who has the key."""
    audiences: frozenset[str] = frozenset()
    """One of them is named by the token; empty: not looked at."""
    leeway_s: float = 0.0
    realm: str = ""
    """Whose callers they are: the same subject is another principal at another server."""
    includes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The scopes that a broader one stands for."""


class _Read(Struct, frozen=True):
    """A token that counted once: taken apart, with its time, and the keys it may be signed with."""

    token: Token
    principal: Principal
    begins: float
    ends: float
    keys: KeySet | None
    checks: Sequence[Check]


class Verifier:
    """Checks tokens for one server."""

    def __init__(self, terms: Terms, source: KeySource, clock: Callable[[], float] = time.time) -> None:
        self.terms = terms
        self._source = source
        self._clock = clock
        self._read: dict[str, _Read] = {}

    def recognize(self, text: str | None) -> Principal | None:
        """Who a token is of that was taken apart before: signature and time are checked again.

        None: it was not, or something about it has changed; `verify` says what.
        """
        read = self._read.get(text) if text is not None else None
        if read is None or read.keys is None or read.keys is not self._source.fresh():
            return None
        if not read.begins <= self._clock() < read.ends:
            return None
        for check in read.checks:
            if check(read.token.signed, read.token.signature):
                return read.principal
        return None

    async def verify(self, text: str) -> Principal:
        """Who a token is of.

        Raises: Rejected with the reason; KeysMissing when nothing can be checked.
        """
        read = self._read.get(text)
        token = read_token(text) if read is None else read.token
        if token.algorithm not in self.terms.algorithms:
            raise Rejected("its algorithm is not allowed")
        checks = await self._source.find(token.algorithm, token.key_id)
        if not any(check(token.signed, token.signature) for check in checks):
            raise Rejected("its signature fits no key" if checks else "its key is not known")
        begins, ends = self._check(token.claims)
        if read is None:
            terms = self.terms
            principal = principal_of(token.claims, terms.includes, terms.leeway_s, terms.realm)
        else:
            principal = read.principal
        if len(self._read) >= MOST_READ:
            self._read.clear()
        self._read[text] = _Read(token, principal, begins, ends, self._source.fresh(), checks)
        return principal

    def close(self) -> None:
        """Look for keys no more."""
        self._source.close()

    def _check(self, claims: Mapping[str, Any]) -> tuple[float, float]:
        """From when until when a token counts. Raises: Rejected."""
        terms, now = self.terms, self._clock()
        expires = _time(claims, "exp", "it does not say when it ends")
        if expires + terms.leeway_s <= now:
            raise Rejected("it has expired")
        not_yet = "it is not valid yet"
        begins = max(
            [_time(claims, name, not_yet) for name in ("nbf", "iat") if claims.get(name) is not None] or [0]
        )
        if begins - terms.leeway_s > now:
            raise Rejected(not_yet)
        if terms.issuer and claims.get("iss") != terms.issuer:
            raise Rejected("it is of another issuer")
        if terms.audiences:
            audience = claims.get("aud")
            named = audience if isinstance(audience, list) else [audience]
            if not any(isinstance(each, str) and each in terms.audiences for each in named):
                raise Rejected("it is for another audience")
        return begins - terms.leeway_s, expires + terms.leeway_s


def _time(claims: Mapping[str, Any], name: str, otherwise: str) -> float:
    """A claim that is a time, in Unix seconds. Raises: Rejected with these words."""
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Rejected(otherwise)
    return float(value)
