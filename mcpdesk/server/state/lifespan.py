"""What a server needs for as long as it runs: the part of `lifespan` in `context.py` before its `yield`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, Protocol

from mcpdesk.errors import HandlerError, ServerFailure

Function = Callable[[Any], AsyncGenerator[Any, None]]
CLOSE_S = 10.0
"""How long the part behind the `yield` may take."""
_log = logging.getLogger(__name__)


class _Place(Protocol):
    """The server that lives."""

    name: str
    folder: Path | None


class Lifespan:
    """Runs `lifespan(server)` once, from the first need until `close`, in a task of its own.

    Where it fails before its `yield`, whoever needs it next makes it run again.
    """

    def __init__(self, function: Function, place: str) -> None:
        self.function = function
        self._place = place
        self._ready: asyncio.Future[Any] | None = None
        self._task: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()

    def again(self) -> Lifespan:
        """The same function, to be run on another loop."""
        return Lifespan(self.function, self._place)

    async def state(self, server: _Place) -> Any:
        """Return what it yields. Raises: HandlerError naming its place when it fails before."""
        if self._ready is None:
            self._ready = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(
                self._run(server, self._ready), name=f"lifespan of {server.name}"
            )
        return await asyncio.shield(self._ready)

    async def close(self) -> None:
        """Let it go on behind its `yield`, and wait for its end."""
        self._ended.set()
        if self._task is None:
            return
        if self._ready is not None and not self._ready.done():
            self._task.cancel()
        await asyncio.wait([self._task], timeout=CLOSE_S)
        if not self._task.done():
            _log.warning("%s: lifespan did not end within %g s after its yield", self._place, CLOSE_S)
            self._task.cancel()

    async def _run(self, server: _Place, ready: asyncio.Future[Any]) -> None:
        running = self.function(server)
        try:
            state = await anext(running)
        except BaseException as error:
            self._ready = None
            ready.set_exception(self._failure(error, server))
            ready.exception()  # it may be that nobody waits for it any more
            if isinstance(error, asyncio.CancelledError):
                raise
            return
        ready.set_result(state)
        await self._ended.wait()
        try:
            await anext(running)
        except StopAsyncIteration:
            return
        except Exception:
            _log.exception("%s: lifespan failed after its yield", self._place)
            return
        _log.warning("%s: lifespan yields more than once; the rest of it did not run", self._place)
        await running.aclose()

    def _failure(self, error: BaseException, server: _Place) -> HandlerError:
        from mcpdesk.server.calls.outcomes import author_place, described

        if isinstance(error, StopAsyncIteration):
            return ServerFailure(f"{self._place}: lifespan ends without a yield")
        if isinstance(error, asyncio.CancelledError):
            return HandlerError("the server ends")
        place = author_place(error, server.folder) or self._place
        return ServerFailure(f"the server did not start: {place}: {described(error)}")
