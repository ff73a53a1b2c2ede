"""MCP over a Unix socket, for pumps that forward a client's pipes and for other clients."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from mcpdesk.errors import DeskError, OtherEnvironmentError
from mcpdesk.transports import rendezvous
from mcpdesk.transports.pipe import (
    GRACE_S,
    HIGH_WATER,
    LOW_WATER,
    OpenPipe,
    PipeRequest,
    finish_calls,
    start_accepting,
    stop_accepting,
)
from mcpdesk.transports.pump import ACCEPTED, ALONE, LEAVE, REFUSAL
from mcpdesk.transports.unread_answers import UNREAD, WRITE_LIMIT

if TYPE_CHECKING:
    from mcpdesk.hosting.channel import Pipe

log = logging.getLogger(__name__)

GREETING_PREFIX = b'{"mcpdesk":'
SESSION_ID_PATTERN = re.compile("[0-9a-f]{16,64}")
MAX_GREETING_BYTES = 8 << 20
"""Maximum size of a greeting in bytes."""


class PumpGreeting(Struct, frozen=True):
    """Greeting of a pump, with data about its client. It comes before the first frame."""

    folder: str
    """Absolute path of the requested folder."""
    mode: str
    """Requested mode. Empty for none."""
    pid: int
    """Process id of the client, which is the parent of the pump."""
    name: str
    """Name of that process; may be empty."""
    leaves: bool = False
    """True if the pump understands `LEAVE`."""
    session: str = ""
    """Id of the client's session. It stays the same from server to server. Empty for an older pump."""
    environment: dict[str, str] | None = None
    """Environment of the client's process. None for an older pump, which expects only frames."""


class GreetingReader:
    """Reads the beginning of a connection, in pieces. Clients without a pump send no greeting."""

    def __init__(self) -> None:
        self._start = b""

    def feed(self, data: bytes) -> tuple[PumpGreeting | None, bytes] | None:
        """Return the greeting or None, and the bytes after it. Return only None if more bytes are needed.

        Raises: ValueError for a malformed greeting.
        """
        self._start += data
        if not self._start.startswith(GREETING_PREFIX[: len(self._start)]):
            return None, self._start
        line, newline, rest = self._start.partition(b"\n")
        if newline:
            return parse_greeting(line), rest
        if len(line) > MAX_GREETING_BYTES:
            raise ValueError(f"a greeting of more than {MAX_GREETING_BYTES} bytes")
        return None


def refusal_line(reason: str) -> bytes:
    """Return the line that is sent instead of frames to a pump that cannot be served."""
    return REFUSAL + " ".join(reason.split()).encode() + b"\n"


def parse_greeting(line: bytes) -> PumpGreeting:
    """Parse a greeting. Raises: ValueError."""
    import json

    fields = json.loads(line)
    match fields:
        case {"mcpdesk": 1, "folder": str(folder), "mode": str(mode), "pid": int(pid), "name": str(name)}:
            session = fields.get("session")
            if not isinstance(session, str) or SESSION_ID_PATTERN.fullmatch(session) is None:
                session = ""
            variables = fields.get("environment")
            environment = None
            if isinstance(variables, dict):
                environment = {key: value for key, value in variables.items() if isinstance(value, str)}
            return PumpGreeting(folder, mode, pid, name, fields.get("leaves") is True, session, environment)
    raise ValueError(f"not a greeting of this version: {line[:200]!r}")


CLOSE_S = 1.0
"""Seconds for which the peer may read answers after this process closes a connection."""


class UnixListener:
    """Accepts connections of this user on one Unix socket.

    `server` is the name of the server, or None for the first one.
    """

    def __init__(
        self, listening_socket: rendezvous.ListeningSocket, open_pipe: OpenPipe, server: str | None = None
    ) -> None:
        self.listening_socket = listening_socket
        self._open_pipe = open_pipe
        self._server_name = server
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()

    async def start(self) -> None:
        """Begin to accept connections, on the running loop."""
        loop = asyncio.get_running_loop()
        start_coroutine = loop.create_unix_server(self._connection, sock=self.listening_socket.listener)
        self._server = await start_accepting(start_coroutine)

    async def close(self) -> None:
        """Delete the socket's file, accept no more connections, and close all open ones."""
        await asyncio.to_thread(self.listening_socket.withdraw)
        if self._server is not None:
            await stop_accepting(self._server)
        self.listening_socket.listener.close()
        connections = tuple(self._connections)
        for connection in connections:
            connection.end()
        if connections:
            await asyncio.wait([connection.closed_future for connection in connections])

    async def send_away(self, within_s: float) -> None:
        """Delete the socket's file, and ask each pump to use another server after its calls have ended."""
        await asyncio.to_thread(self.listening_socket.withdraw)
        closed_futures = [each.closed_future for each in self._connections if each.send_away()]
        if closed_futures:
            await asyncio.wait(closed_futures, timeout=within_s)

    def disconnect(self, connection: int) -> bool:
        """Close one connection. Return False if the number is unknown."""
        connections = [each for each in self._connections if each.number == connection]
        for each in connections:
            each.end()
        return bool(connections)

    def _connection(self) -> _Connection:
        return _Connection(self._open_pipe, self._server_name, self._connections)


class _Connection(asyncio.Protocol):
    """One accepted connection: a greeting, then frames in both directions."""

    def __init__(self, open_pipe: OpenPipe, server: str | None, open_connections: set[_Connection]) -> None:
        self.closed_future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open_pipe = open_pipe
        self._server = server
        self._open_connections = open_connections
        self._greeting = GreetingReader()
        self._pipe: Pipe | None = None
        self._finish_task: asyncio.Task[None] | None = None
        self._identify_task: asyncio.Task[None] | None = None
        self._understands_leave = False
        self._is_backed_up = False
        """True while the peer reads too slowly."""

    @property
    def number(self) -> int | None:
        """Number of the connection in the recorder, or None before the greeting."""
        return None if self._pipe is None else self._pipe.connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Transports of other loops have the methods, but another base class.
        self._transport = cast(asyncio.Transport, transport)
        self._open_connections.add(self)
        UNREAD.add(self)
        self._transport.set_write_buffer_limits(high=HIGH_WATER, low=LOW_WATER)
        self._pid, uid = rendezvous.peer_credentials(transport.get_extra_info("socket"))
        if uid not in (None, os.getuid()):
            log.warning("refused a connection of user %s to the Unix socket", uid)
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._pipe is None:
            data = self._greet(data)
            if self._pipe is None:
                return
        self._handle(self._pipe, data)

    def _handle(self, pipe: Pipe, data: bytes) -> None:
        """Pass bytes to the pipe. Stop reading while the peer's token is being checked."""
        if not pipe.feed(data):
            self._identify_task = asyncio.get_running_loop().create_task(self._identify(pipe, data))
            self._update_reading()

    def eof_received(self) -> bool:
        if self._pipe is None:
            return False
        if self._finish_task is not None:
            return True
        self._finish_task = asyncio.get_running_loop().create_task(self._finish(self._pipe))
        return True

    def pause_writing(self) -> None:
        self._is_backed_up = True
        self._update_reading()
        if self._pipe is not None:
            self._pipe.pause()

    def resume_writing(self) -> None:
        self._is_backed_up = False
        self._update_reading()
        if self._pipe is not None:
            self._pipe.resume()

    def _update_reading(self) -> None:
        """Read, unless too many answers are unread or the peer is being identified."""
        if self._is_backed_up or self._identify_task is not None:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    @property
    def unread(self) -> int:
        """Number of bytes in the transport that the peer has not read."""
        return self._transport.get_write_buffer_size()

    def give_up(self) -> None:
        """Close at once. Unread data is lost."""
        self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        UNREAD.remove(self)
        for task in (self._finish_task, self._identify_task):
            if task is not None:
                task.cancel()
        if self._pipe is not None:
            self._pipe.close()
        self._open_connections.discard(self)
        if not self.closed_future.done():
            self.closed_future.set_result(None)

    def send_away(self) -> bool:
        """Ask a pump to use another server. Return False if the peer does not support this."""
        if self._understands_leave:
            self._write(LEAVE)
        return self._understands_leave

    def end(self) -> None:
        """Close when the answers so far are written, but at the latest after `CLOSE_S` seconds."""
        if self._pipe is not None:
            self._pipe.close()
        self._transport.close()
        asyncio.get_running_loop().call_later(CLOSE_S, self._abort_if_open)

    def _abort_if_open(self) -> None:
        if not self.closed_future.done():
            self._transport.abort()

    def _greet(self, data: bytes) -> bytes:
        """Open the pipe when the greeting is complete. Return the bytes after the greeting."""
        try:
            parsed = self._greeting.feed(data)
        except ValueError as error:
            log.warning("refused a connection to the Unix socket: %s", error)
            self._transport.abort()
            return b""
        if parsed is None:
            return b""
        greeting, rest = parsed
        try:
            self._pipe = self._open_requested_pipe(greeting)
        except OtherEnvironmentError as error:
            self._write(ALONE + " ".join(str(error).split()).encode() + b"\n")
            self._transport.close()
        except DeskError as error:
            self._write(refusal_line(str(error)))
            self._transport.close()
        return rest

    def _open_requested_pipe(self, greeting: PumpGreeting | None) -> Pipe:
        """Open the pipe that the greeting asks for. Raises: DeskError."""
        if greeting is None:
            peer = rendezvous.process_name(self._pid or 0)
            return self._open_pipe(PipeRequest(self._server, "unix", peer), self._write)
        self._understands_leave = greeting.leaves
        request = PipeRequest(
            self._server, "stdio", greeting.name, greeting.mode, greeting.session, greeting.environment
        )
        pipe = self._open_pipe(request, self._write)
        if greeting.environment is not None:
            self._write(ACCEPTED)
        return pipe

    async def _identify(self, pipe: Pipe, rest: bytes) -> None:
        """Identify the peer. Then handle the bytes received before, and resume reading."""
        await pipe.identify()
        self._identify_task = None
        self._update_reading()  # before the answers, which may pause reading again
        if rest and not self._transport.is_closing():
            self._handle(pipe, rest)

    def _write(self, data: bytes) -> None:
        if self._transport.is_closing():
            return
        self._transport.write(data)
        if self.unread > HIGH_WATER:
            UNREAD.check()
        if self.unread > WRITE_LIMIT:
            UNREAD.count_cut("a connection", self.unread)
            self._transport.abort()

    async def _finish(self, pipe: Pipe) -> None:
        await finish_calls(pipe, GRACE_S)
        self._transport.close()
