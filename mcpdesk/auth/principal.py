"""Who calls, as far as the transport could tell, and what a server asks of its callers.

What goes on for a caller ends when the caller's token does: see `until_expired`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, Literal, Protocol

from msgspec import Struct


class Principal(Struct, frozen=True):
    """One caller. Never holds a key or a token, so that it may be shown, logged and kept."""

    kind: Literal["open", "key", "token"]
    name: str = ""
    """For people to read: the subject of a token, `key`; empty for anybody."""
    claims: Mapping[str, Any] | None = None
    """The claims of a verified token: `sub`, `address`, `addr` and `tokenId` are texts whatever it said."""
    scopes: frozenset[str] = frozenset()
    """What its token allows, and what that includes."""
    expires: float | None = None
    """When its token ends, Unix time in seconds."""
    refused: str = ""
    """Reason its token is not valid, in words that follow `it`; empty for a valid token and for none."""
    identity: str = ""
    """What sessions, tasks and states that belong to it are marked with; empty: nobody in particular."""

    @property
    def title(self) -> str:
        """What a person is shown: `key`, `token of ada`; empty for anybody."""
        return f"token of {self.name or '?'}" if self.kind == "token" else self.name

    def has_expired(self, now: float) -> bool:
        """Whether its token has ended since it was checked; `now` in Unix seconds."""
        return self.expires is not None and self.expires <= now


OPEN = Principal("open")
"""Anybody: nothing was asked for."""
KEY = Principal("key", "key")
"""Whoever has the key. All who have it are alike."""

LOOK_S = 60.0
"""How long to rely on a timer: it stands still while the machine sleeps, and clocks are set."""


def until_expired(principal: Principal) -> AbstractAsyncContextManager[None]:
    """A block that is left, whatever it waits for, once the token of a caller has expired.

    Callers without a token cost nothing.
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
    """What says who a token is of."""

    def recognize(self, text: str | None) -> Principal | None:
        """Who a token is of that was seen before and still counts; None: `verify` it."""

    async def verify(self, text: str) -> Principal:
        """Who a token is of. Raises: Rejected with the reason; KeysMissing when nothing can be checked."""

    def close(self) -> None:
        """Look for keys no more."""


class Access(Struct, frozen=True, eq=False):
    """What holds for one server. Tools may ask for more."""

    requires_token: bool = False
    verifier: TokenCheck | None = None
    """None: tokens are not looked at, and nobody has one."""
    scopes: frozenset[str] = frozenset()
    """What every request of a token has to be allowed."""
    authorization_servers: tuple[str, ...] = ()
    scopes_supported: tuple[str, ...] = ()
    resource: str = ""
    """The URI this server is known under; empty: where it was asked."""

    @property
    def is_asked(self) -> bool:
        """Whether tokens make a difference here."""
        return self.requires_token or self.verifier is not None

    def recognize(self, token: str | None) -> Principal | None:
        """Whoever a token is of that was seen before and still counts here; None: look closer."""
        principal = self.verifier.recognize(token) if self.verifier is not None else None
        return principal if principal is not None and self.scopes <= principal.scopes else None

    async def verify(self, token: str) -> Principal:
        """Who a token is of. Raises: Rejected with the reason; KeysMissing when nothing can be checked."""
        if self.verifier is None:
            from mcpdesk.auth.tokens import Rejected

            raise Rejected("no token counts here")
        return await self.verifier.verify(token)

    def admits(self, principal: Principal) -> bool:
        """Whether a caller has what every request needs."""
        if principal.claims is None:
            return not self.requires_token
        return self.scopes <= principal.scopes

    def metadata(self, url: str, name: str) -> dict[str, Any]:
        """The description of the protected resource. `url` is where it was asked. Source: RFC 9728."""
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
        """The value of `WWW-Authenticate`. Source: RFC 6750 (3), RFC 9728 (5.1)."""
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
