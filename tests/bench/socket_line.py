"""A WebSocket, without a library: its frames are masked with zeros, so that masking costs nothing."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress

from tests.bench.line import Line
from tests.bench.messages import FIRST_ID
from tests.bench.process import Serving

_READ = 1 << 18
_TEXT, _PING = 0x81, 0x89
_NO_MASK = bytes(4)
_ID = len(str(FIRST_ID))


class SocketLine(Line):
    """One open WebSocket."""

    def __init__(self, place: Serving, path: str) -> None:
        super().__init__()
        self.pid = place.pid
        self._socket = socket.create_connection(("127.0.0.1", place.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""
        self._usual_size = 0
        """Size of the last message. All have the same size, so a multiple of it is not parsed."""
        self._open(place.port, path)

    def send(self, data: bytes) -> None:
        """Write it all."""
        self._socket.sendall(data)

    def take(self) -> bytes:
        """Return the bytes received. Raises: RuntimeError at the end."""
        data = self._socket.recv(_READ)
        if not data:
            raise RuntimeError("the server closed the WebSocket")
        return data

    def messages(self, data: bytes) -> int:
        """Return the number of text messages that end in `data`; pings are answered."""
        if not self._rest and self._usual_size and len(data) % self._usual_size == 0:
            return len(data) // self._usual_size
        self._rest += data
        count = at = 0
        while (size := self._size_at(at)) and at + size <= len(self._rest):
            if self._rest[at] == _PING:
                self.send(b"\x8a\x80" + _NO_MASK)
            elif self._rest[at] == _TEXT:
                count, self._usual_size = count + 1, size
            else:
                raise RuntimeError(f"unexpected: {self._rest[at : at + 80]!r}")
            at += size
        self._rest = self._rest[at:]
        return count

    def framed(self, before: bytes, after: bytes) -> tuple[bytes, bytes]:
        """A masked text frame."""
        size = len(before) + _ID + len(after)
        return struct.pack("!BBH", _TEXT, 0x80 | 126, size) + _NO_MASK + before, after

    def break_off(self) -> None:
        """Stop reading and writing."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close without a close frame."""
        self.break_off()
        self._socket.close()

    def _size_at(self, at: int) -> int:
        """Size of the frame at `at`, head included; 0 if too few bytes are there to decide it."""
        if len(self._rest) < at + 10:
            return 0
        size = self._rest[at + 1]
        if size == 126:
            return 4 + int(struct.unpack_from("!H", self._rest, at + 2)[0])
        return 10 + int(struct.unpack_from("!Q", self._rest, at + 2)[0]) if size == 127 else 2 + size

    def _open(self, port: int, path: str) -> None:
        asked = [
            f"GET {path} HTTP/1.1",
            f"Host: 127.0.0.1:{port}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
            "Sec-WebSocket-Protocol: mcp",
        ]
        self.send("\r\n".join(asked).encode() + b"\r\n\r\n")
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self.take()
        if b" 101 " not in answer.split(b"\r\n")[0]:
            raise RuntimeError(f"no WebSocket: {answer[:300]!r}")
