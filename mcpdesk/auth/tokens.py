"""JSON Web Tokens: parsing, verification, and the principal that the claims describe.

A `Verifier` checks the signature first, then issuer, audience and time, for every request.

Source: RFC 7519, RFC 8725. A token never becomes part of an error.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
from msgspec import Struct, field

from mcpdesk.auth.keys import Check, KeySet, KeySource
from mcpdesk.auth.principal import Principal, Rejected
from mcpdesk.protocol.request_state import digest

MAX_TOKEN_LENGTH = 16 << 10
"""Maximum characters of a token."""
_COMPACT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


class Token(Struct, frozen=True):
    """A parsed token: the signed part, the signature, and metadata."""

    algorithm: str
    key_id: str | None
    signed: bytes
    signature: bytes
    claims: Mapping[str, Any]
    """Claims as they were sent."""


def read_token(text: str) -> Token:
    """Parse a token. Raises: Rejected for an invalid token, and for one that requires extensions."""
    import jwt

    if len(text) > MAX_TOKEN_LENGTH:
        raise Rejected(f"it is longer than {MAX_TOKEN_LENGTH} characters")
    if _COMPACT.fullmatch(text) is None:
        raise Rejected("it does not have the form of a token")
    try:
        parts = jwt.PyJWS().decode_complete(text, options={"verify_signature": False})
        claims = orjson.loads(parts["payload"])
    except (jwt.InvalidTokenError, ValueError, RecursionError):
        raise Rejected("it cannot be decoded") from None
    header = parts["header"]
    if "crit" in header or "b64" in header:
        raise Rejected("its header requires extensions")
    if not isinstance(claims, dict) or not isinstance(header.get("alg"), str):
        raise Rejected("its parts are invalid")
    signed = text.rpartition(".")[0].encode()
    return Token(header["alg"], header.get("kid"), signed, parts["signature"], claims)


def principal_of(
    claims: Mapping[str, Any], includes: Mapping[str, frozenset[str]], leeway_s: float, realm: str = ""
) -> Principal:
    """Return the principal described by claims. `includes` maps a broad scope to the scopes that it implies.

    Raises: Rejected if the claims name no subject, and are nested too deeply for a fingerprint.
    """
    handler_claims = claims_for_handlers(claims)
    subject = handler_claims["sub"] or handler_claims["address"]
    issuer = _first_claim(claims, "iss")
    subject_name = subject or _first_claim(claims, "client_id", "azp", "jti")
    expires = claims.get("exp")
    return Principal(
        "token",
        name=subject or subject_name or "a token without a subject",
        claims=handler_claims,
        scopes=with_implied_scopes(scopes_of(claims), includes),
        expires=expires + leeway_s if isinstance(expires, int | float) else None,
        identity=f"principal:{digest([realm, issuer, bool(subject), subject_name or _fingerprint(claims)])}",
    )


def claims_for_handlers(claims: Mapping[str, Any]) -> dict[str, Any]:
    """Return claims for handlers: `sub`, `address`, `addr` and `tokenId` are strings, empty if unknown."""
    address = _first_claim(claims, "address", "addr")
    return {
        **claims,
        "sub": _first_claim(claims, "sub") or address,
        "address": address,
        "addr": _first_claim(claims, "addr", "address"),
        "tokenId": _first_claim(claims, "jti", "tokenId"),
    }


def scopes_of(claims: Mapping[str, Any]) -> frozenset[str]:
    """Return the scopes of a token, from the claims `scope` and `scp`: a string with spaces, or a list."""
    scopes: set[str] = set()
    for name in ("scope", "scp"):
        value = claims.get(name)
        values = value.split() if isinstance(value, str) else value
        if isinstance(values, list):
            scopes.update(scope for scope in values if isinstance(scope, str))
    return frozenset(scopes)


def with_implied_scopes(scopes: frozenset[str], includes: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return these scopes and all scopes that they imply, directly or indirectly."""
    if includes.keys().isdisjoint(scopes):
        return scopes
    merged, unprocessed = set(scopes), list(scopes)
    while unprocessed:
        added = includes.get(unprocessed.pop(), frozenset()) - merged
        merged |= added
        unprocessed += added
    return frozenset(merged)


def _fingerprint(claims: Mapping[str, Any]) -> str:
    """Return an identity for claims without a subject. It is the same for each use of the token."""
    try:
        return digest(claims)
    except TypeError:
        raise Rejected("it has no subject, and its claims are nested too deeply") from None


def _first_claim(claims: Mapping[str, Any], *names: str) -> str:
    """Return the first of these claims that is a string or an integer, as a string."""
    for name in names:
        value = claims.get(name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
    return ""


MAX_CACHED_TOKENS = 256
"""Maximum number of parsed tokens in the cache. Their signatures are still verified each time."""


class TokenTerms(Struct, frozen=True):
    """Requirements for a valid token."""

    algorithms: frozenset[str]
    issuer: str = ""
    """Required issuer. Empty to accept any."""
    audiences: frozenset[str] = frozenset()
    """Accepted audiences. The token must name one of them. Empty to accept any."""
    leeway_s: float = 0.0
    realm: str = ""
    """Namespace of the principals, so that the same subject is a different principal at each server."""
    includes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Implied scopes, by the broader scope that implies them."""


class _VerifiedToken(Struct, frozen=True):
    """Cached result of verifying a token.

    `begins` and `ends` are Unix times in seconds. `checks` verify the signature with each key that may have
    signed the token. `keys` is the key set that contains these keys.
    """

    token: Token
    principal: Principal
    begins: float
    ends: float
    keys: KeySet | None
    checks: Sequence[Check]


class Verifier:
    """Verifies tokens for one server."""

    def __init__(self, terms: TokenTerms, source: KeySource, clock: Callable[[], float] = time.time) -> None:
        self.terms = terms
        self._source = source
        self._clock = clock
        self._verified_tokens: dict[str, _VerifiedToken] = {}

    def recognize(self, text: str | None) -> Principal | None:
        """Return the principal of a token that was verified before. Signature and time are checked again.

        Return None if `verify` must decide: the token is unknown or not valid, or the keys must be reloaded.
        """
        cached = self._verified_tokens.get(text) if text is not None else None
        if cached is None or cached.keys is None or cached.keys is not self._source.fresh_keys():
            return None
        if not cached.begins <= self._clock() < cached.ends:
            return None
        for check in cached.checks:
            if check(cached.token.signed, cached.token.signature):
                return cached.principal
        return None

    async def verify(self, text: str) -> Principal:
        """Return the principal of a token.

        Raises: Rejected with the reason; KeysMissing if no keys are available.
        """
        cached = self._verified_tokens.get(text)
        token = read_token(text) if cached is None else cached.token
        if token.algorithm not in self.terms.algorithms:
            raise Rejected("its algorithm is not allowed")
        checks = await self._source.find(token.algorithm, token.key_id)
        if not any(check(token.signed, token.signature) for check in checks):
            raise Rejected("its signature matches no key" if checks else "its key is not known")
        begins, ends = self._checked_validity(token.claims)
        if cached is None:
            terms = self.terms
            principal = principal_of(token.claims, terms.includes, terms.leeway_s, terms.realm)
        else:
            principal = cached.principal
        if len(self._verified_tokens) >= MAX_CACHED_TOKENS:
            self._verified_tokens.clear()
        self._verified_tokens[text] = _VerifiedToken(
            token, principal, begins, ends, self._source.fresh_keys(), checks
        )
        return principal

    def close(self) -> None:
        """Stop fetching keys."""
        self._source.close()

    def _checked_validity(self, claims: Mapping[str, Any]) -> tuple[float, float]:
        """Check the claims of a token. Return the start and end of its validity in Unix seconds.

        Raises: Rejected.
        """
        terms, now = self.terms, self._clock()
        expires = _time_claim(claims, "exp", "it has no expiry time")
        if expires + terms.leeway_s <= now:
            raise Rejected("it has expired")
        not_yet_message = "it is not valid yet"
        begins = 0.0
        for name in ("nbf", "iat"):
            if claims.get(name) is not None:
                begins = max(begins, _time_claim(claims, name, not_yet_message))
        if begins - terms.leeway_s > now:
            raise Rejected(not_yet_message)
        if terms.issuer and claims.get("iss") != terms.issuer:
            raise Rejected("it is from another issuer")
        if terms.audiences:
            audience = claims.get("aud")
            audiences = audience if isinstance(audience, list) else [audience]
            if not any(isinstance(each, str) and each in terms.audiences for each in audiences):
                raise Rejected("it is for another audience")
        return begins - terms.leeway_s, expires + terms.leeway_s


def _time_claim(claims: Mapping[str, Any], name: str, message: str) -> float:
    """Return a claim as Unix time in seconds. Raises: Rejected with `message` if it is not a number."""
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Rejected(message)
    return float(value)
