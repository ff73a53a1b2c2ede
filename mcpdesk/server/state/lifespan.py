"""The function `lifespan` in a folder's `context.py`, a generator that must yield exactly once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

from mcpdesk.errors import HandlerError, ServerFailure

Function = Callable[[Any], AsyncGenerator[Any, None]]
CLOSE_TIMEOUT_S = 10.0
"""Maximum number of seconds for the code after the `yield`."""
_log = logging.getLogger(__name__)


class Lifespan:
    """Runs `lifespan(server)` once in a task of its own, from the first use until `close`.

    If `lifespan` fails before its `yield`, the next use runs it again.
    """

    def __init__(self, function: Function, location: str, folder: Path) -> None:
        """`location` is the function's location for messages. `folder` is the server folder."""
        self.function = function
        self._folder = folder
        self._location = location
        self._ready: asyncio.Future[Any] | None = None
        self._task: asyncio.Task[None] | None = None
        self._close_requested = asyncio.Event()

    def copy(self) -> Lifespan:
        """Return a new instance with the same function, for another loop."""
        return Lifespan(self.function, self._location, self._folder)

    async def state(self, server: object) -> Any:
        """Return the value that the generator yields.

        Raises: HandlerError with the line that failed, if `lifespan` fails before the `yield`.
        """
        if self._ready is None:
            self._ready = asyncio.get_running_loop().create_future()
            work = self._run(server, self._ready)
            self._task = asyncio.create_task(work, name=f"lifespan of {self._folder.name}")
        return await asyncio.shield(self._ready)

    async def close(self) -> None:
        """Run the code after the `yield`, and wait until it has ended."""
        self._close_requested.set()
        if self._task is None:
            return
        if self._ready is not None and not self._ready.done():
            self._task.cancel()
        await asyncio.wait([self._task], timeout=CLOSE_TIMEOUT_S)
        if not self._task.done():
            _log.warning(
                "%s: lifespan did not end within %g s after its yield", self._location, CLOSE_TIMEOUT_S
            )
            self._task.cancel()

    async def _run(self, server: object, ready: asyncio.Future[Any]) -> None:
        """Run the generator to its `yield`, wait for `close`, and run the rest."""
        generator = self.function(server)
        try:
            state = await anext(generator)
        except BaseException as error:
            self._ready = None
            ready.set_exception(self._failure(error))
            ready.exception()  # marks the exception as retrieved
            if isinstance(error, asyncio.CancelledError):
                raise
            return
        ready.set_result(state)
        await self._close_requested.wait()
        try:
            await anext(generator)
        except StopAsyncIteration:
            return
        except Exception:
            _log.exception("%s: lifespan failed after its yield", self._location)
            return
        _log.warning(
            "%s: lifespan yields more than once; the code after the second yield did not run", self._location
        )
        await generator.aclose()

    def _failure(self, error: BaseException) -> HandlerError:
        from mcpdesk.server.calls.outcomes import author_location, described

        if isinstance(error, StopAsyncIteration):
            return ServerFailure(f"{self._location}: lifespan ends without a yield")
        if isinstance(error, asyncio.CancelledError):
            return HandlerError("the server ends")
        location = author_location(error, self._folder) or self._location
        return ServerFailure(f"the server did not start: {location}: {described(error)}")
