"""Authenticated callers.

Work for a caller ends when the caller's token expires: see `until_expired`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, Literal

from msgspec import Struct


class Principal(Struct, frozen=True):
    """One caller. Never contains a key or token, so that it may be shown, logged and stored."""

    kind: Literal["open", "key", "token"]
    name: str = ""
    """Display name: the subject of a token, or `key`. Empty for an anonymous caller."""
    claims: Mapping[str, Any] | None = None
    """Claims of a verified token. `sub`, `address`, `addr` and `tokenId` are always strings."""
    scopes: frozenset[str] = frozenset()
    """Scopes of the token, including implied ones."""
    expires: float | None = None
    """Unix time in seconds at which the token expires."""
    refused: str = ""
    """Reason why the caller's token is not valid, such as `it has expired`.

    Empty for a valid token, and for a caller without a token.
    """
    identity: str = ""
    """Identifies the caller as the owner of sessions, tasks and states. Empty for an anonymous caller."""

    @property
    def title(self) -> str:
        """Display text, such as `key` or `token of ada`. Empty for an anonymous caller."""
        return f"token of {self.name or '?'}" if self.kind == "token" else self.name

    def has_expired(self, now: float) -> bool:
        """Return True if the token has expired since it was verified. `now` is in Unix seconds."""
        return self.expires is not None and self.expires <= now


OPEN = Principal("open")
"""Anonymous caller, if no authentication is required."""
KEY = Principal("key", "key")
"""Caller with the API key. All holders of the key are the same principal."""

MAX_CLOCK_CHECK_S = 60.0
"""Maximum seconds between two checks of the clock.

A single timer until the expiry could fire late, because timers stop while the machine sleeps, and because the
clock can be adjusted.
"""


def until_expired(principal: Principal) -> AbstractAsyncContextManager[None]:
    """Return a context manager whose block is cancelled once the token of a caller expires.

    For callers without a token, the context manager does nothing.
    """
    return nullcontext() if principal.expires is None else _until(principal.expires)


@asynccontextmanager
async def _until(expires: float) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    timeout = asyncio.timeout(None)
    timer: asyncio.Handle

    def check_clock() -> None:
        nonlocal timer
        remaining_s = expires - time.time()
        if remaining_s > 0:
            timer = loop.call_later(min(remaining_s, MAX_CLOCK_CHECK_S), check_clock)
        else:
            timeout.reschedule(loop.time())

    timer = loop.call_soon(check_clock)
    try:
        async with timeout:
            try:
                yield
            finally:
                timer.cancel()
    except TimeoutError:
        if not timeout.expired():
            raise


TOKEN_VARIABLE = "MCPDESK_TOKEN"
"""Environment variable in which a client over stdio passes its bearer token."""
MISSING_TOKEN = "Unauthorized: missing JWT"
INVALID_TOKEN = "Unauthorized: invalid JWT"


class Rejected(Exception):
    """Raised for an invalid token. The text is the reason, which is meant for the operator of the server."""


def matches(key: str | None, expected: str) -> bool:
    """Return True if the given key equals the expected key. The comparison takes constant time."""
    import hmac

    return key is not None and hmac.compare_digest(
        key.encode("utf-8", "surrogateescape"), expected.encode("utf-8", "surrogateescape")
    )
