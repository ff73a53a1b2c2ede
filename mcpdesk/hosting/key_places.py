"""The places keys are read from: the environment, a file, an address. None of them holds up the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

from mcpdesk.auth.key_source import CONSTANT, FILE, URL, KeySource, Load, constant
from mcpdesk.auth.keys import KeySet, jwk_keys, secret_keys
from mcpdesk.hosting.manifest_auth import Jwt

LARGEST = 256 << 10
"""Bytes of a document with keys."""

Fetch = Callable[[str, int], Awaitable[bytes]]
"""Gets at most so many bytes of a document. Raises: OSError or ValueError with a reason."""


def key_source(
    jwt: Jwt, folder: Path, environment: Mapping[str, str], told: Callable[[str], None], fetch: Fetch
) -> KeySource:
    """The keys a manifest names. `told` hears of trouble with them; no word of it holds a secret."""
    allowed = tuple(jwt.algorithms)
    if jwt.secret_env:
        place, pace = f"secret_env {jwt.secret_env}", CONSTANT
        secret = environment.get(jwt.secret_env, "")
        keys = secret_keys(secret.encode(), allowed) if secret else KeySet(())
        if keys.complaints:
            told(f"auth.jwt: {place}: {'; '.join(keys.complaints)}")
        load = constant(KeySet(keys.keys))
    elif jwt.jwks_file:
        place, pace = f"jwks_file {jwt.jwks_file}", FILE
        load = file_keys(folder / jwt.jwks_file, allowed)
    else:
        place, pace = f"jwks_url {jwt.jwks_url}", URL
        load = url_keys(jwt.jwks_url, allowed, fetch)
    return KeySource(load, pace, lambda trouble: told(f"auth.jwt: {place}: {trouble}"))


def file_keys(path: Path, algorithms: Iterable[str]) -> Load:
    """Reads a JWK set from a file, again whenever the file is another one."""
    seen: tuple[int, int, int] | None = None
    allowed = tuple(algorithms)

    def read() -> KeySet | None:
        nonlocal seen
        try:
            status = path.stat()
            mark = (status.st_ino, status.st_mtime_ns, status.st_size)
            if mark == seen:
                return None
            with path.open("rb") as file:
                data = file.read(LARGEST + 1)
        except OSError as error:
            seen = None
            raise OSError(f"it cannot be read: {error.strerror}") from None
        seen = mark
        return _parsed(data, allowed, with_secrets=True)

    async def load() -> KeySet | None:
        return await asyncio.to_thread(read)

    return load


def url_keys(url: str, algorithms: Iterable[str], fetch: Fetch) -> Load:
    """Reads a JWK set from an address."""
    allowed = tuple(algorithms)

    async def load() -> KeySet:
        return _parsed(await fetch(url, LARGEST), allowed, with_secrets=False)

    return load


def _parsed(data: bytes, allowed: tuple[str, ...], with_secrets: bool) -> KeySet:
    if len(data) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST} bytes")
    return jwk_keys(data, allowed, with_secrets)
