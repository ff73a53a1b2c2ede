"""A core on a thread of its own, so that whatever hosted code does, the screen goes on."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future

from mcpdesk.hosting import loops
from mcpdesk.hosting.host import Host

STOP_S = 5.0


class CoreThread:
    """Runs a host. `started` is done when it serves, or holds why it could not."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.started: Future[None] = Future()
        self._ended: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="mcpdesk-core", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the host, if it was started, and wait; a core that is stuck is left behind after a while."""
        if self._thread.ident is None:
            return
        self.host.call_soon(self._end)
        self._thread.join(STOP_S)

    def _end(self) -> None:
        if self._ended is not None:
            self._ended.set()

    def _run(self) -> None:
        loops.run(self._serve(), loops.loop_factory())

    async def _serve(self) -> None:
        self._ended = asyncio.Event()
        try:
            await self.host.start()
        except BaseException as error:
            # Whoever started the thread reports it; a thread has nobody to raise to.
            self.started.set_exception(error)
            await self.host.stop()
            return
        self.started.set_result(None)
        await self._ended.wait()
        await self.host.stop()
