"""Authenticated callers, and the access rules of a server.

Work for a caller ends when the caller's token expires: see `until_expired`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, Literal, Protocol

from msgspec import Struct


class Principal(Struct, frozen=True):
    """One caller. Never contains a key or token, so that it may be shown, logged and stored."""

    kind: Literal["open", "key", "token"]
    name: str = ""
    """Display name: the subject of a token, or `key`; empty for an anonymous caller."""
    claims: Mapping[str, Any] | None = None
    """Claims of a verified token. `sub`, `address`, `addr` and `tokenId` are always strings."""
    scopes: frozenset[str] = frozenset()
    """Scopes of the token, including implied ones."""
    expires: float | None = None
    """Unix time in seconds at which the token expires."""
    refused: str = ""
    """Reason its token is not valid, in words that follow `it`; empty for a valid token and for none."""
    identity: str = ""
    """Owner key of sessions, tasks and states; empty for an anonymous caller."""

    @property
    def title(self) -> str:
        """Display text: `key`, `token of ada`; empty for an anonymous caller."""
        return f"token of {self.name or '?'}" if self.kind == "token" else self.name

    def has_expired(self, now: float) -> bool:
        """Return True if the token has expired since it was verified; `now` in Unix seconds."""
        return self.expires is not None and self.expires <= now


OPEN = Principal("open")
"""Anonymous caller, if no authentication is required."""
KEY = Principal("key", "key")
"""Caller with the API key. All holders of the key are the same principal."""

LOOK_S = 60.0
"""Maximum seconds of one timer, because timers stop while the machine sleeps, and clocks are adjusted."""


def until_expired(principal: Principal) -> AbstractAsyncContextManager[None]:
    """Return a context manager whose block is cancelled once the token of a caller expires.

    It costs nothing for callers without a token.
    """
    return nullcontext() if principal.expires is None else _until(principal.expires)


@asynccontextmanager
async def _until(expires: float) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    limit = asyncio.timeout(None)
    timer: asyncio.Handle

    def look() -> None:
        nonlocal timer
        left_s = expires - time.time()
        if left_s > 0:
            timer = loop.call_later(min(left_s, LOOK_S), look)
        else:
            limit.reschedule(loop.time())

    timer = loop.call_soon(look)
    try:
        async with limit:
            try:
                yield
            finally:
                timer.cancel()
    except TimeoutError:
        if not limit.expired():
            raise


WELL_KNOWN = "/.well-known/oauth-protected-resource"
TOKEN_VARIABLE = "MCPDESK_TOKEN"
"""Environment variable of a client over stdio with its bearer token."""
MISSING = "Unauthorized: missing JWT"
INVALID = "Unauthorized: invalid JWT"


class TokenCheck(Protocol):
    """Interface to verify tokens."""

    def recognize(self, text: str | None) -> Principal | None:
        """Return the principal of a token that was verified before and is valid; None to call `verify`."""

    async def verify(self, text: str) -> Principal:
        """Return the principal of a token.

        Raises: Rejected with the reason; KeysMissing if no keys are available.
        """

    def close(self) -> None:
        """Stop fetching keys."""


class Access(Struct, frozen=True, eq=False):
    """Access rules of one server. Tools may require more."""

    requires_token: bool = False
    verifier: TokenCheck | None = None
    """None if tokens are ignored."""
    scopes: frozenset[str] = frozenset()
    """Scopes that every request with a token needs."""
    authorization_servers: tuple[str, ...] = ()
    scopes_supported: tuple[str, ...] = ()
    resource: str = ""
    """URI of this server as a resource; empty to use the requested URL."""

    @property
    def is_asked(self) -> bool:
        """True if tokens are evaluated."""
        return self.requires_token or self.verifier is not None

    def recognize(self, token: str | None) -> Principal | None:
        """Return the principal of a token that was verified before and is admitted; None to verify it."""
        principal = self.verifier.recognize(token) if self.verifier is not None else None
        return principal if principal is not None and self.scopes <= principal.scopes else None

    async def verify(self, token: str) -> Principal:
        """Return the principal of a token.

        Raises: Rejected with the reason; KeysMissing if no keys are available.
        """
        if self.verifier is None:
            from mcpdesk.auth.tokens import Rejected

            raise Rejected("no token counts here")
        return await self.verifier.verify(token)

    def admits(self, principal: Principal) -> bool:
        """Return True if a caller meets the requirements of every request."""
        if principal.claims is None:
            return not self.requires_token
        return self.scopes <= principal.scopes

    def metadata(self, url: str, name: str) -> dict[str, Any]:
        """Return the protected resource metadata; `url` is the requested one. Source: RFC 9728."""
        found: dict[str, Any] = {
            "resource": self.resource or url,
            "authorization_servers": list(self.authorization_servers),
            "bearer_methods_supported": ["header"],
            "resource_name": name,
        }
        return found | ({"scopes_supported": list(self.scopes_supported)} if self.scopes_supported else {})

    def challenge(
        self, metadata_url: str, error: str = "", scopes: Iterable[str] = (), description: str = ""
    ) -> str:
        """Return the value of `WWW-Authenticate`. Source: RFC 6750 (3), RFC 9728 (5.1)."""
        parts = {
            "error": error,
            "error_description": description,
            "scope": " ".join(sorted({*self.scopes, *scopes})),
            "resource_metadata": metadata_url if self.authorization_servers else "",
        }
        said = ", ".join(f'{name}="{_quoted(value)}"' for name, value in parts.items() if value)
        return "Bearer " + (said or 'realm="mcpdesk"')


NOTHING_ASKED = Access()


def _quoted(text: str) -> str:
    return "".join(each for each in text if each.isprintable() and each not in '"\\')


def matches(given: str | None, expected: str) -> bool:
    """Return True if the given key is the expected one, in constant time."""
    import hmac

    return given is not None and hmac.compare_digest(
        given.encode("utf-8", "surrogateescape"), expected.encode("utf-8", "surrogateescape")
    )
