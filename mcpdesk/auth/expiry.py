"""What goes on for a caller ends when the caller's token does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext

from mcpdesk.auth.principal import Principal

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
