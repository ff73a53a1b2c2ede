"""Keys that verify tokens. Each key is prepared once and allows only certain algorithms.

A shared secret is used only for HMAC, and a public key is never used for HMAC. A token therefore cannot
choose how it is verified. A `KeySource` loads keys from a file or URL, and reloads them, because they may
change while the server runs. Source: RFC 7517, 7518, RFC 8725 (3.1, 3.2).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson
from msgspec import Struct

HMAC = ("HS256", "HS384", "HS512")
RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
CURVES = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512", "secp256k1": "ES256K",
          "Ed25519": "EdDSA", "Ed448": "EdDSA"}  # fmt: skip
"""Algorithm by curve."""
ALGORITHMS = (*HMAC, *RSA, "ES256", "ES384", "ES512", "ES256K", "EdDSA")
MIN_SECRET_BYTES = {"HS256": 32, "HS384": 48, "HS512": 64}
"""Minimum bytes of a secret: the size of the hash. Source: RFC 7518, 3.2."""
MIN_RSA_BITS = 2048
MAX_KEYS = 64
_VERIFYING_MEMBERS = ("kty", "crv", "n", "e", "x", "y", "k")
"""Members of a JWK that verification needs: those of a public key, and the shared secret `k`."""

Check = Callable[[bytes, bytes], bool]
"""Function that takes the signed bytes and a signature. It returns True if the signature is valid."""


class Key(Struct, frozen=True, eq=False):
    """One key: its id, and a check for each allowed algorithm."""

    identifier: str | None
    checks: Mapping[str, Check]


class KeySet:
    """Keys of one source. `complaints` has a reason for each rejected key."""

    def __init__(self, keys: Iterable[Key], complaints: Sequence[str] = ()) -> None:
        self.keys = tuple(keys)
        self.complaints = tuple(complaints)

    def find(self, algorithm: str, identifier: str | None) -> list[Check]:
        """Return the checks for a token with this algorithm and, if given, key id."""
        return [
            key.checks[algorithm]
            for key in self.keys
            if algorithm in key.checks and (identifier is None or key.identifier in (identifier, None))
        ]


def secret_keys(secret: bytes, algorithms: Iterable[str]) -> KeySet:
    """Return a key set with a shared secret. Algorithms that need a longer secret are omitted."""
    import jwt

    allowed = [name for name in algorithms if name in HMAC]
    try:
        if allowed:
            _algorithm(allowed[0]).prepare_key(secret)
    except jwt.InvalidKeyError:
        return KeySet((), ["the secret is a key or certificate of another kind, which may be public"])
    too_strong = [name for name in allowed if len(secret) < MIN_SECRET_BYTES[name]]
    checks = {name: _check(name, secret) for name in allowed if name not in too_strong}
    complaints = [
        f"the secret has {len(secret)} bytes, {name} needs {MIN_SECRET_BYTES[name]}" for name in too_strong
    ]
    return KeySet([Key(None, checks)] if checks else [], complaints)


def jwk_keys(document: bytes, algorithms: Iterable[str], with_secrets: bool) -> KeySet:
    """Return the keys of a JWK set. Unusable keys are omitted. Raises: ValueError for an invalid set.

    `with_secrets` is True if the set may contain shared secrets. A published set must not.
    """
    try:
        members = orjson.loads(document)["keys"]
    except (ValueError, KeyError, TypeError):
        raise ValueError('it is not a JWK set, which is an object with "keys"') from None
    if not isinstance(members, list):
        raise ValueError('"keys" must be a list')
    if len(members) > MAX_KEYS:
        raise ValueError(f"it has {len(members)} keys, {MAX_KEYS} are allowed")
    allowed = tuple(algorithms)
    keys, complaints = [], []
    for index, member in enumerate(members):
        try:
            keys.append(_jwk(member, allowed, with_secrets))
        except ValueError as error:
            complaints.append(f"key {index + 1} is left out: {error}")
    return KeySet(keys, complaints)


def _jwk(member: Any, allowed: Sequence[str], with_secrets: bool) -> Key:
    """Return one key. Raises: ValueError with the reason why it cannot be used."""
    import jwt

    if not isinstance(member, dict):
        raise ValueError("it is not an object")
    key_operations = member.get("key_ops", ["verify"])
    can_verify = isinstance(key_operations, list) and "verify" in key_operations
    if member.get("use", "sig") != "sig" or not can_verify:
        raise ValueError("it is not intended for checking signatures")
    algorithms = [name for name in _supported_algorithms(member) if name in allowed]
    if member.get("alg") is not None:
        algorithms = [name for name in algorithms if name == member["alg"]]
    if not algorithms:
        raise ValueError("it matches none of the allowed algorithms")
    if member.get("kty") == "oct" and not with_secrets:
        raise ValueError("a public key set must not contain a secret")
    verifying_members = {name: member[name] for name in _VERIFYING_MEMBERS if name in member}
    try:
        key = _algorithm(algorithms[0]).from_jwk(verifying_members)
    except (jwt.InvalidKeyError, ValueError, TypeError, KeyError):
        raise ValueError("its parameters are not a valid key") from None
    if member["kty"] == "RSA" and key.key_size < MIN_RSA_BITS:
        raise ValueError(f"it has {key.key_size} bits, at least {MIN_RSA_BITS} are needed")
    if member["kty"] == "oct":
        algorithms = [name for name in algorithms if len(key) >= MIN_SECRET_BYTES[name]]
        if not algorithms:
            raise ValueError("the secret is too short")
    identifier = member.get("kid")
    checks = {name: _check(name, key) for name in algorithms}
    return Key(identifier if isinstance(identifier, str) else None, checks)


def _supported_algorithms(member: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the algorithms that a key of the same kind as this JWK supports."""
    match member.get("kty"):
        case "RSA":
            return RSA
        case "oct":
            return HMAC
        case "EC" | "OKP":
            curve = member.get("crv")
            return (CURVES[curve],) if isinstance(curve, str) and curve in CURVES else ()
    return ()


def _check(algorithm: str, key: Any) -> Check:
    verify = _algorithm(algorithm).verify

    def is_valid(signed: bytes, signature: bytes) -> bool:
        return bool(verify(signed, key, signature))

    return is_valid


def _algorithm(name: str) -> Any:
    from jwt.algorithms import get_default_algorithms

    return get_default_algorithms()[name]


Load = Callable[[], Awaitable[KeySet | None]]
"""Function that loads the keys. It returns None if the keys have not changed.

Raises: OSError or ValueError with a reason.
"""


class KeysMissing(Exception):
    """No keys are available to verify a token now."""


class RefreshPace(Struct, frozen=True):
    """Intervals of loading keys, in seconds."""

    fresh_s: float
    """Maximum age of keys that are used without reloading."""
    pause_s: float
    """Minimum time between two loads for the same reason: keys that are too old, or an unknown key."""
    trusted_s: float = float("inf")
    """Keys are no longer used if the last successful load was longer ago than this time."""
    waits: bool = False
    """True if keys that are not fresh must be reloaded before a token is verified with them."""


CONSTANT = RefreshPace(fresh_s=float("inf"), pause_s=float("inf"))
FILE = RefreshPace(fresh_s=1.0, pause_s=0.1, waits=True)
URL = RefreshPace(fresh_s=600.0, pause_s=30.0, trusted_s=86_400.0)


class KeySource:
    """Keys of one location. Only one load runs at a time.

    `on_problem` receives error messages. A message that repeats the previous one is omitted.
    """

    def __init__(
        self,
        load: Load,
        pace: RefreshPace,
        on_problem: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._pace = pace
        self._on_problem = on_problem
        self._clock = clock
        self._keys: KeySet | None = None
        self._last_load = float("-inf")
        """Time of the last successful load."""
        self._last_attempt = float("-inf")
        """Time of the last attempt to load."""
        self._last_search = float("-inf")
        """Time of the last load because of an unknown key."""
        self._last_problem = ""
        self._refresh_task: asyncio.Task[None] | None = None

    def fresh_keys(self) -> KeySet | None:
        """Return the keys if they can be used without loading. Return None if `find` must load them first."""
        return self._keys if self._clock() - self._last_load <= self._pace.fresh_s else None

    async def find(self, algorithm: str, identifier: str | None) -> Sequence[Check]:
        """Return the checks for a token. Reload if the key is unknown. Raises: KeysMissing."""
        now = self._clock()
        if self._keys is None or now - self._last_load > self._pace.fresh_s:
            load_task = self._refresh(now)
            if load_task is not None and (self._keys is None or self._pace.waits):
                await asyncio.wait({load_task})
        checks = self._trusted_keys(now).find(algorithm, identifier)
        if not checks and (load_task := self._reload_for_unknown_key(now)) is not None:
            await asyncio.wait({load_task})
            checks = self._trusted_keys(now).find(algorithm, identifier)
        return checks

    def close(self) -> None:
        """Stop loading keys."""
        if self._refresh_task is not None:
            self._refresh_task.cancel()

    def _trusted_keys(self, now: float) -> KeySet:
        """Return the keys. Raises: KeysMissing if no keys were loaded within the last `trusted_s` seconds."""
        if self._keys is None or now - self._last_load > self._pace.trusted_s:
            raise KeysMissing(self._last_problem or "no keys were found yet")
        return self._keys

    def _reload_for_unknown_key(self, arrival: float) -> asyncio.Task[None] | None:
        """Return the task of a reload for a token with an unknown key, or None if it is too early to reload.

        `arrival` is the time when the token arrived. Keys that were loaded before may be outdated, even if
        they were loaded recently. Constant keys are never reloaded.
        """
        last_load_succeeded = self._last_load >= self._last_attempt
        may_search = arrival - self._last_search > self._pace.pause_s
        if last_load_succeeded and self._last_load < arrival and may_search:
            self._last_search = arrival
            self._last_attempt = float("-inf")  # so that `_refresh` loads at once
        return self._refresh(self._clock())

    def _refresh(self, now: float) -> asyncio.Task[None] | None:
        """Return the task of the running or a new load, or None if the last attempt was too recent."""
        if self._refresh_task is not None:
            return self._refresh_task
        if now - self._last_attempt < self._pace.pause_s:
            return None
        self._last_attempt = now
        self._refresh_task = asyncio.get_running_loop().create_task(self._load_keys())
        return self._refresh_task

    async def _load_keys(self) -> None:
        """Load the keys. If this fails, keep the present ones and report the reason."""
        try:
            keys = await self._load()
        except (OSError, ValueError) as error:
            self._report(str(error))
        else:
            self._keys = self._keys if keys is None else keys
            self._last_load = self._clock()
            if keys is not None:
                self._report("; ".join(keys.complaints))
        finally:
            self._refresh_task = None

    def _report(self, problem: str) -> None:
        if problem and problem != self._last_problem:
            self._on_problem(problem)
        self._last_problem = problem


def constant(keys: KeySet) -> Load:
    """Return a loader of keys that do not change."""

    async def load() -> KeySet:
        return keys

    return load
