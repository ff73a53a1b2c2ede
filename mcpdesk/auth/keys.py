"""The keys tokens are checked with, prepared once. Each knows the algorithms it is for, and no other.

A shared secret serves HMAC alone, and a public key never does: a token cannot choose how it is checked.
Source: RFC 7517, 7518, RFC 8725 (3.1, 3.2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson
from msgspec import Struct

HMAC = ("HS256", "HS384", "HS512")
RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
CURVES = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512", "secp256k1": "ES256K",
          "Ed25519": "EdDSA", "Ed448": "EdDSA"}  # fmt: skip
ALGORITHMS = (*HMAC, *RSA, "ES256", "ES384", "ES512", "ES256K", "EdDSA")
SHORTEST_SECRET = {"HS256": 32, "HS384": 48, "HS512": 64}
"""Bytes: as many as the hash has. Source: RFC 7518, 3.2."""
SHORTEST_RSA = 2048
MOST_KEYS = 64
_PUBLIC = ("kty", "crv", "n", "e", "x", "y", "k")

Check = Callable[[bytes, bytes], bool]
"""Whether a signature, the second, fits what is signed."""


class Key(Struct, frozen=True, eq=False):
    """One key: under which id it is known, and a check for each algorithm it may be used with."""

    identifier: str | None
    checks: Mapping[str, Check]


class KeySet:
    """The keys of one place. `complaints` say what was left out, and why."""

    def __init__(self, keys: Iterable[Key], complaints: Sequence[str] = ()) -> None:
        self.keys = tuple(keys)
        self.complaints = tuple(complaints)

    def find(self, algorithm: str, identifier: str | None) -> list[Check]:
        """The checks for a token that names an algorithm, and perhaps a key."""
        return [
            key.checks[algorithm]
            for key in self.keys
            if algorithm in key.checks and (identifier is None or key.identifier in (identifier, None))
        ]


def secret_keys(secret: bytes, algorithms: Iterable[str]) -> KeySet:
    """A shared secret. Algorithms it is too short for are left out."""
    import jwt

    allowed = [name for name in algorithms if name in HMAC]
    try:
        for name in allowed[:1]:
            _algorithm(name).prepare_key(secret)
    except jwt.InvalidKeyError:
        return KeySet((), ["the secret is a key or certificate of another kind, which others may know"])
    short = [name for name in allowed if len(secret) < SHORTEST_SECRET[name]]
    checks = {name: _check(name, secret) for name in allowed if name not in short}
    complaints = [
        f"the secret has {len(secret)} bytes, {name} needs {SHORTEST_SECRET[name]}" for name in short
    ]
    return KeySet([Key(None, checks)] if checks else [], complaints)


def jwk_keys(document: bytes, algorithms: Iterable[str], with_secrets: bool) -> KeySet:
    """The keys of a JWK set. `with_secrets` takes shared secrets, too: not from places the world can read.

    Keys that cannot be used are left out. Raises: ValueError for what is no JWK set.
    """
    try:
        members = orjson.loads(document)["keys"]
    except (ValueError, KeyError, TypeError):
        raise ValueError('it is no JWK set: that is an object with "keys"') from None
    if not isinstance(members, list):
        raise ValueError('"keys" has to be a list')
    if len(members) > MOST_KEYS:
        raise ValueError(f"it has {len(members)} keys, {MOST_KEYS} are allowed")
    allowed = tuple(algorithms)
    keys, complaints = [], []
    for index, member in enumerate(members):
        try:
            keys.append(_jwk(member, allowed, with_secrets))
        except ValueError as error:
            complaints.append(f"key {index + 1} is left out: {error}")
    return KeySet(keys, complaints)


def _jwk(member: Any, allowed: Sequence[str], with_secrets: bool) -> Key:
    """One key. Raises: ValueError saying why it cannot be used."""
    import jwt

    if not isinstance(member, dict):
        raise ValueError("it is no object")
    uses = member.get("key_ops", ["verify"])
    if member.get("use", "sig") != "sig" or not isinstance(uses, list) or "verify" not in uses:
        raise ValueError("it is not for checking signatures")
    names = [name for name in _suited(member) if name in allowed]
    if member.get("alg") is not None:
        names = [name for name in names if name == member["alg"]]
    if not names:
        raise ValueError("it fits none of the allowed algorithms")
    if member.get("kty") == "oct" and not with_secrets:
        raise ValueError("a secret does not belong where others can read it")
    public = {name: member[name] for name in _PUBLIC if name in member}
    try:
        key = _algorithm(names[0]).from_jwk(public)
    except (jwt.InvalidKeyError, ValueError, TypeError, KeyError):
        raise ValueError("its numbers do not make a key") from None
    if member["kty"] == "RSA" and key.key_size < SHORTEST_RSA:
        raise ValueError(f"it has {key.key_size} bits, at least {SHORTEST_RSA} are needed")
    if member["kty"] == "oct":
        names = [name for name in names if len(key) >= SHORTEST_SECRET[name]]
        if not names:
            raise ValueError("the secret is too short")
    identifier = member.get("kid")
    return Key(
        identifier if isinstance(identifier, str) else None, {name: _check(name, key) for name in names}
    )


def _suited(member: Mapping[str, Any]) -> tuple[str, ...]:
    """The algorithms a key of that kind can serve."""
    match member.get("kty"):
        case "RSA":
            return RSA
        case "oct":
            return HMAC
        case "EC" | "OKP":
            curve = member.get("crv")
            return (CURVES[curve],) if isinstance(curve, str) and curve in CURVES else ()
    return ()


def _check(name: str, key: Any) -> Check:
    verify = _algorithm(name).verify

    def fits(signed: bytes, signature: bytes) -> bool:
        return bool(verify(signed, key, signature))

    return fits


def _algorithm(name: str) -> Any:
    from jwt.algorithms import get_default_algorithms

    return get_default_algorithms()[name]
