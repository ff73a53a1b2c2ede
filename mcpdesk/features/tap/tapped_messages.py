"""Splitting of the bytes of one direction of a tap into messages. Long messages are shortened."""

from __future__ import annotations

from collections.abc import Iterator

from mcpdesk.protocol.framing import DEFAULT_LIMIT
from mcpdesk.protocol.reading.message_framer import MessageFramer
from mcpdesk.recorder.record import END_BYTES

TappedMessage = tuple[bytes, bytes, int]
"""Recorded bytes of a message, its last bytes if it was shortened, and its size in bytes."""
TAPPED = 1
"""Number of the only connection that a tap records."""
MAX_CHARACTER_BYTES = 4
"""Maximum size in bytes of an encoded character."""


class TappedMessages:
    """Splits chunks into messages, as a client of the program would do.

    A line with more than `MAX_MESSAGE_BYTES` bytes, or with lost bytes, counts as a message by itself.
    """

    MAX_MESSAGE_BYTES = DEFAULT_LIMIT

    def __init__(self, recorded_bytes: int) -> None:
        """`recorded_bytes` is the number of bytes to record of each message."""
        # A few more bytes are kept, because the recorder cuts between two characters.
        self._max_start_bytes = recorded_bytes + MAX_CHARACTER_BYTES
        self._framer = MessageFramer(self.MAX_MESSAGE_BYTES)
        self._long_line = _Line(self._max_start_bytes)
        """Line that is not given to the framer, because it is too long or has lost bytes."""

    def feed(self, chunk: bytes, size: int) -> Iterator[TappedMessage]:
        """Yield the messages that `chunk` completes.

        `size` is the number of bytes that passed the tap. If `chunk` has fewer, it has the last of them.
        """
        line, framer = self._long_line, self._framer
        lost_bytes = size - len(chunk)
        if lost_bytes or (not line.size and framer.unread + size > self.MAX_MESSAGE_BYTES):
            yield from self._feed_lines(framer.drain_unread())
            line.lose(lost_bytes)
        if line.size:
            end = chunk.find(b"\n") + 1 or len(chunk)
            yield from self._feed_lines(chunk[:end])
            chunk = chunk[end:]
        if chunk:
            yield from map(self._shortened, framer.feed(chunk))

    def rest(self) -> Iterator[TappedMessage]:
        """Yield the remaining messages at the end."""
        if self._long_line.size:
            yield self._long_line.finish()
        yield from map(self._shortened, self._framer.close())

    def _feed_lines(self, data: bytes) -> Iterator[TappedMessage]:
        """Add bytes to the long line. Yield each line that ends in these bytes as a message."""
        line = self._long_line
        *complete, incomplete = data.split(b"\n")
        for piece in complete:
            line.add(piece)
            if line.size:
                yield line.finish()
        line.add(incomplete)

    def _shortened(self, message: bytes) -> TappedMessage:
        size = len(message)
        if size <= self._max_start_bytes:
            return message, b"", size
        return message[: self._max_start_bytes], message[-END_BYTES:], size


class _Line:
    """Beginning and end of a line that arrives in pieces."""

    def __init__(self, max_start_bytes: int) -> None:
        self._max_start_bytes = max_start_bytes
        self._start = bytearray()
        """First bytes of the line, at most `max_start_bytes`."""
        self._end = b""
        """Last bytes of the line, at most `END_BYTES`, if it has more bytes than `_start`."""
        self.size = 0
        """Number of bytes of the line so far, including lost ones."""

    def add(self, piece: bytes) -> None:
        """Add the next bytes."""
        # After a lost piece, bytes are added only to the end, because they do not follow the beginning.
        is_complete = self.size == len(self._start)
        self.size += len(piece)
        if is_complete and (free_bytes := self._max_start_bytes - len(self._start)) > 0:
            self._start += piece[:free_bytes]
        if self.size > len(self._start):
            self._end = (self._end + piece)[-END_BYTES:]

    def lose(self, count: int) -> None:
        """Record that the next `count` bytes of the line are lost."""
        if count:
            self.size += count
            self._end = b""

    def finish(self) -> TappedMessage:
        """Return the line, and begin the next one."""
        data, end, size = bytes(self._start), self._end, self.size
        self._start, self._end, self.size = bytearray(), b"", 0
        return (data, b"", size) if len(data) == size else (data, end, size)
