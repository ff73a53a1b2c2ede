"""A core that echoes every line, for tests of code that moves bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from mcpdesk.errors import DeskUserError
from mcpdesk.hosting.channel import Pipe
from mcpdesk.protocol.framing import LineFramer
from mcpdesk.transports.pipe import PipeRequest
from mcpdesk.transports.replay import ClientState


class EchoPipe:
    """Echoes lines; a line `wait` is answered only when the core releases it."""

    def __init__(self, server: str | None, transport: str, peer: str) -> None:
        self.server, self.transport, self.peer = server, transport, peer
        self.connection = 1
        self.send_bytes: Callable[[bytes], None] = lambda data: None
        self.lines: list[bytes] = []
        self.paused = asyncio.Event()
        self.ended = asyncio.Event()
        self.closed = asyncio.Event()
        self._framer = LineFramer(64 << 20)
        self._identified = asyncio.Event()
        self._identified.set()
        self._doubts = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def identify(self) -> None:
        await self._identified.wait()
        if self._doubts:
            self._doubts -= 1
            self._identified.clear()
            asyncio.get_running_loop().call_soon(self.trust)

    def doubt(self) -> None:
        """Accept no lines until `trust`."""
        self._identified.clear()

    def doubt_again(self) -> None:
        """Identify the peer, and find the token in doubt once more."""
        self._doubts = 1
        self.trust()

    def trust(self) -> None:
        """Identify the peer again."""
        self._identified.set()

    def feed(self, data: bytes) -> bool:
        if not self._identified.is_set():
            return False
        lines = self._framer.feed(data)
        self.lines += lines
        for line in lines:
            if line != b"wait":
                self.send(line + b"\n")
        if b"wait" in lines:
            self._idle.clear()
        return True

    def send(self, data: bytes) -> None:
        """Send bytes to the client."""
        self.send_bytes(data)

    def release(self) -> None:
        """Answer the waiting line."""
        self.send(b"waited\n")
        self._idle.set()

    def pause(self) -> None:
        self.paused.set()

    def resume(self) -> None:
        self.paused.clear()

    def eof(self) -> None:
        self.ended.set()

    async def drained(self) -> None:
        await self._idle.wait()

    def leave(self) -> ClientState | None:
        return None

    def close(self) -> None:
        self.closed.set()


class EchoCore:
    """Opens echo pipes and keeps them for inspection."""

    def __init__(self, kind: type[EchoPipe] = EchoPipe) -> None:
        self.pipes: asyncio.Queue[EchoPipe] = asyncio.Queue()
        self._kind = kind

    def open_pipe(self, request: PipeRequest, send: Callable[[bytes], None]) -> Pipe:
        if request.mode:
            raise DeskUserError(f"there is no mode {request.mode!r}")
        pipe = self._kind(request.server, request.transport, request.peer)
        pipe.send_bytes = send
        self.pipes.put_nowait(pipe)
        return cast("Pipe", pipe)
