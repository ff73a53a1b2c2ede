"""Transport to a server in another process of this user. Messages are lines over a connected Unix socket."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

from mcpdesk.client.answers.large_frames import deliver_frame
from mcpdesk.client.answers.pending_replies import ConnectedTransport, PendingReplies
from mcpdesk.client.transport import Receive
from mcpdesk.errors import CallError, InvalidAnswer, Unreachable
from mcpdesk.protocol import codec
from mcpdesk.protocol.framing import LineFramer
from mcpdesk.protocol.jsonrpc import JSONObject
from mcpdesk.protocol.reading.message import ReadFrame

MAX_LINE_BYTES = 256 << 20
READ_BYTES = 64 << 10
HOST_ENDED = "the process that hosts the folder ended the connection"


class UnixPipe(ConnectedTransport):
    """Transport over a connected socket, which `close` also closes. It cannot be opened again after that."""

    def __init__(self, connection: socket.socket, target: str) -> None:
        """`target` is the server's name in messages."""
        super().__init__(target, PendingReplies(is_pipe=True))
        self.end_message = HOST_ENDED
        """Error message after the end of the process."""
        self._socket = connection
        self._writer: asyncio.StreamWriter | None = None
        self._reader_task: asyncio.Task[None] | None = None
        self._receive: Receive = lambda incoming: None
        self._end_error: CallError | None = None

    @property
    def is_open(self) -> bool:
        """True if requests can be sent."""
        return self._writer is not None and self._end_error is None

    async def open(self, receive: Receive) -> None:
        """Start to read. Raises: CallError if the connection has ended."""
        self._receive = receive
        if self._end_error is not None:
            raise self._end_error
        if self._writer is None:
            self._socket.setblocking(False)
            reader, self._writer = await asyncio.open_unix_connection(sock=self._socket)
            self._reader_task = asyncio.create_task(self._read(reader))

    async def send(self, message: JSONObject) -> None:
        """Write a message, waiting while the socket buffer is full. Raises: Unreachable."""
        if self._writer is None or self._end_error is not None:
            raise self._end_error or Unreachable("the connection is not open")
        try:
            self._writer.write(codec.encode(message) + b"\n")
            await self._writer.drain()
        except OSError:
            raise Unreachable(self.end_message) from None

    async def close(self) -> None:
        """Close the connection and end all exchanges."""
        self._end_error = self._end_error or CallError("closed while the call was running")
        if self._reader_task is not None:
            self._reader_task.cancel()
            await asyncio.wait({self._reader_task})
        if self._writer is None:
            return self._socket.close()
        if self._writer.transport.get_write_buffer_size():
            self._writer.transport.abort()  # a process that does not read would keep a close waiting
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        """Deliver lines until the connection ends. Then all pending requests fail."""
        framer = LineFramer(MAX_LINE_BYTES)
        try:
            while data := await reader.read(READ_BYTES):
                for line in framer.feed(data):
                    if line:
                        deliver_frame(self._deliver, line, None)
                    else:
                        self._replies.fail(
                            InvalidAnswer(f"a line of its answer exceeds {MAX_LINE_BYTES} bytes")
                        )
            self._end_error = Unreachable(self.end_message)
        except OSError as error:
            self._end_error = Unreachable(f"{self.end_message}: {error.strerror}")
        except CallError as error:
            self._end_error = error
        finally:  # also after an unexpected failure, so that no request waits forever
            self._end_error = self._end_error or Unreachable(self.end_message)
            self._replies.fail(self._end_error)

    def _deliver(self, line: bytes, read: ReadFrame | None) -> None:
        self._replies.deliver(line, self._receive, read)
