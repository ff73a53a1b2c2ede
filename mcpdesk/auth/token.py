"""A JSON Web Token taken apart, and what its claims come to. Nothing here says that it is genuine.

Source: RFC 7519, RFC 8725. A token never becomes part of an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson
from msgspec import Struct

from mcpdesk.auth.principal import Principal
from mcpdesk.protocol.request_state import digest

LONGEST = 16 << 10
"""Characters of a token that are looked at."""
_COMPACT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


class Rejected(Exception):
    """A token that does not count, with the reason for whoever runs the server."""


class Token(Struct, frozen=True):
    """One token: what is signed, the signature, and what both are about."""

    algorithm: str
    key_id: str | None
    signed: bytes
    signature: bytes
    claims: Mapping[str, Any]
    """As they were sent."""


def read_token(text: str) -> Token:
    """Take a token apart. Raises: Rejected for what is none, and for one that asks for extensions."""
    import jwt

    if len(text) > LONGEST:
        raise Rejected(f"it is longer than {LONGEST} characters")
    if _COMPACT.fullmatch(text) is None:
        raise Rejected("it does not have the form of a token")
    try:
        parts = jwt.PyJWS().decode_complete(text, options={"verify_signature": False})
        claims = orjson.loads(parts["payload"])
    except (jwt.InvalidTokenError, ValueError, RecursionError):
        raise Rejected("it cannot be decoded") from None
    header = parts["header"]
    if "crit" in header or "b64" in header:
        raise Rejected("its header asks for extensions")
    if not isinstance(claims, dict) or not isinstance(header.get("alg"), str):
        raise Rejected("its parts are not those of a token")
    signed = text.rpartition(".")[0].encode()
    return Token(header["alg"], header.get("kid"), signed, parts["signature"], claims)


def principal_of(
    claims: Mapping[str, Any], includes: Mapping[str, frozenset[str]], leeway_s: float, realm: str = ""
) -> Principal:
    """The caller that claims describe. `includes` says which scopes a broader one stands for.

    Raises: Rejected for claims that name nobody and are too deep to be told from others.
    """
    known = normalised(claims)
    subject = known["sub"] or known["address"]
    issuer = _first(claims, "iss")
    whose = subject or _first(claims, "client_id", "azp", "jti")
    expires = claims.get("exp")
    return Principal(
        "token",
        name=subject or whose or "a token without a subject",
        claims=known,
        scopes=widened(scopes_of(claims), includes),
        expires=expires + leeway_s if isinstance(expires, int | float) else None,
        identity=f"principal:{digest([realm, issuer, bool(subject), whose or _fingerprint(claims)])}",
    )


def normalised(claims: Mapping[str, Any]) -> dict[str, Any]:
    """Claims as handlers get them: `sub`, `address`, `addr` and `tokenId` are texts, empty when unknown."""
    address = _first(claims, "address", "addr")
    return {
        **claims,
        "sub": _first(claims, "sub") or address,
        "address": address,
        "addr": _first(claims, "addr", "address"),
        "tokenId": _first(claims, "jti", "tokenId"),
    }


def scopes_of(claims: Mapping[str, Any]) -> frozenset[str]:
    """What a token says it allows: `scope` or `scp`, a text with spaces or a list."""
    found: set[str] = set()
    for name in ("scope", "scp"):
        value = claims.get(name)
        given = value.split() if isinstance(value, str) else value
        found |= {each for each in given if isinstance(each, str)} if isinstance(given, list) else set()
    return frozenset(found)


def widened(scopes: frozenset[str], includes: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """These scopes and all that they include, however often removed."""
    if includes.keys().isdisjoint(scopes):
        return scopes
    found, news = set(scopes), list(scopes)
    while news:
        more = includes.get(news.pop(), frozenset()) - found
        found |= more
        news += more
    return frozenset(found)


def _fingerprint(claims: Mapping[str, Any]) -> str:
    """For callers that do not say who they are: each is the same for as long as its token is."""
    try:
        return digest(claims)
    except TypeError:
        raise Rejected("it names nobody, and its claims are nested too deeply") from None


def _first(claims: Mapping[str, Any], *names: str) -> str:
    """The first of these claims that is a text or a whole number, as text."""
    for name in names:
        value = claims.get(name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
    return ""
