"""From a token to its principal: the signature first, then issuer, audience and time, each time anew."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from mcpdesk.auth.key_source import KeySource
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


class Verifier:
    """Checks tokens for one server."""

    def __init__(self, terms: Terms, source: KeySource, clock: Callable[[], float] = time.time) -> None:
        self.terms = terms
        self._source = source
        self._clock = clock
        self._read: dict[str, tuple[Token, Principal]] = {}

    async def verify(self, text: str) -> Principal:
        """Who a token is of.

        Raises: Rejected with the reason; KeysMissing when nothing can be checked.
        """
        kept = self._read.get(text)
        token = read_token(text) if kept is None else kept[0]
        if token.algorithm not in self.terms.algorithms:
            raise Rejected("its algorithm is not allowed")
        checks = await self._source.find(token.algorithm, token.key_id)
        if not any(check(token.signed, token.signature) for check in checks):
            raise Rejected("its signature fits no key" if checks else "its key is not known")
        self._check(token.claims)
        if kept is None:
            if len(self._read) >= MOST_READ:
                self._read.clear()
            terms = self.terms
            principal = principal_of(token.claims, terms.includes, terms.leeway_s, terms.realm)
            kept = self._read[text] = (token, principal)
        return kept[1]

    def close(self) -> None:
        """Look for keys no more."""
        self._source.close()

    def _check(self, claims: Mapping[str, Any]) -> None:
        terms, now = self.terms, self._clock()
        expires: Any = claims.get("exp")
        if not _is_time(expires):
            raise Rejected("it does not say when it ends")
        if expires + terms.leeway_s <= now:
            raise Rejected("it has expired")
        for name in ("nbf", "iat"):
            begins: Any = claims.get(name)
            if begins is not None and (not _is_time(begins) or begins - terms.leeway_s > now):
                raise Rejected("it is not valid yet")
        if terms.issuer and claims.get("iss") != terms.issuer:
            raise Rejected("it is of another issuer")
        if terms.audiences:
            audience = claims.get("aud")
            named = audience if isinstance(audience, list) else [audience]
            if not any(isinstance(each, str) and each in terms.audiences for each in named):
                raise Rejected("it is for another audience")


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
