"""Who calls, as far as the transport could tell: anybody, whoever has the key, or the subject of a token.

What goes on for a caller ends when the caller's token does: see `until_expired`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, Literal

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
