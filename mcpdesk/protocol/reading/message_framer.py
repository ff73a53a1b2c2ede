"""Splitting of the output of a program into frames.

A message that spans several lines, has a Content-Length header or is in UTF-16 becomes one frame with its
original bytes. Any other line is a separate frame.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from mcpdesk.errors import ProtocolError
from mcpdesk.protocol import codec
from mcpdesk.protocol.framing import DEFAULT_LIMIT
from mcpdesk.protocol.reading.message import QUICK_BYTES, read_frame, read_strictly
from mcpdesk.protocol.reading.text_encoding import utf16_encoding

MAX_LINES = 100_000
"""Maximum number of lines of one message."""
_DETECTION_BYTES = 4
"""Number of bytes that determine the encoding."""
_MESSAGE_START = re.compile(rb"""\s*(?:\xef\xbb\xbf)?\s*(?:\{\s*(?:$|["'}/])|\[\s*(?:$|["'{\[\]/]))""")
_HEADER = re.compile(rb"\s*content-(?:length|type)\s*:", re.IGNORECASE)
_BRACKET_OR_QUOTE = re.compile(rb'[{}\[\]"]')
_STRING = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
"""Rest of a string, up to the closing quotation mark, the end of the data, or a backslash at the end."""
_BLANKS = b"\0\r\t "
_ENDING_BYTES = 8
"""Number of bytes at the end of a line that are searched for the end of a message."""
_NEWLINES = {"utf-16-le": b"\n\0", "utf-16-be": b"\0\n"}


NumberedLine: TypeAlias = tuple[int, bytes]
LineGroup: TypeAlias = tuple[tuple[int, ...], bytes]
"""Line numbers of a message, and the bytes of these lines."""


class _Balance:
    """Counts the brackets of a value that arrives in pieces."""

    def __init__(self) -> None:
        self._depth = 0
        self._is_in_string = False
        self._backslash = b""
        """Backslash at the end of the last piece, inside a string. Otherwise empty."""
        self.has_begun = False

    def end(self, piece: bytes) -> int:
        """Add a piece. Return the position in the piece after the bracket that closes the value, or -1."""
        data, added_length = self._backslash + piece, len(self._backslash)
        self._backslash = b""
        position = 0
        if self._is_in_string and not (position := self._end_of_string(data, 0)):
            return -1
        while match := _BRACKET_OR_QUOTE.search(data, position):
            position = match.end()
            sign = match[0]
            if sign == b'"' and not (position := self._end_of_string(data, position)):
                return -1
            if sign in (b"{", b"["):
                self._depth += 1
                self.has_begun = True
            elif sign in (b"}", b"]"):
                self._depth -= 1
                if self._depth <= 0 and self.has_begun:
                    return position - added_length
        return -1

    def _end_of_string(self, data: bytes, position: int) -> int:
        """Return the position after a string that continues at `position`, or 0 if the string is not
        complete.
        """
        match = _STRING.match(data, position)
        assert match is not None
        self._is_in_string = not data.startswith(b'"', match.end())
        self._backslash = data[match.end() :] if self._is_in_string else b""
        return 0 if self._is_in_string else match.end() + 1


class MessageFramer:
    """Splits the output of a program into frames."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        """`limit` is the maximum size of a frame in bytes."""
        self.limit = limit
        self.dropped = 0
        """Number of oversized frames that were skipped."""
        self._pieces: list[bytes] = []
        """Pieces of an unfinished line."""
        self._line_bytes = 0
        self._is_skipping = False
        self._lines: list[bytes] = []
        """Lines of a message that continues in the next line."""
        self._lines_size = 0
        self._balance = _Balance()
        self._headed_message: bytearray | None = None
        """Received part of a message with a Content-Length header, or None outside of such a message."""
        self._is_encoding_unknown = True
        self._beginning = b""
        """First bytes of the output until they have determined the encoding, then empty."""
        self._encoding = ""
        """UTF-16 encoding of the output, or empty."""
        self._odd_byte = b""
        """First byte of a UTF-16 unit whose second byte is missing."""

    @property
    def is_within_message(self) -> bool:
        """True if a message has begun that continues in further lines."""
        return bool(self._lines) or self._headed_message is not None

    @property
    def unread(self) -> int:
        """Number of bytes that are not part of a frame yet."""
        headed_bytes = 0 if self._headed_message is None else len(self._headed_message)
        piece_bytes = sum(map(len, self._pieces))
        return piece_bytes + self._lines_size + headed_bytes + len(self._beginning + self._odd_byte)

    def drain_unread(self) -> bytes:
        """Remove and return the bytes that are not part of a frame yet."""
        newline = _NEWLINES.get(self._encoding, b"\n")
        lines = b"".join(line + newline for line in self._lines)
        unread = b"".join(
            (lines, self._headed_message or b"", *self._pieces, self._beginning, self._odd_byte)
        )
        self._lines, self._lines_size, self._headed_message, self._beginning = [], 0, None, b""
        self._pieces, self._line_bytes, self._odd_byte = [], 0, b""
        return unread

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes and return the frames that they complete.

        An oversized frame is replaced by an empty frame.
        """
        if self._is_encoding_unknown:
            self._beginning += data
            if len(self._beginning) < _DETECTION_BYTES and b"\n" not in self._beginning:
                return []
            data, self._beginning, self._is_encoding_unknown = self._beginning, b"", False
            self._encoding = utf16_encoding(data)
        if self._encoding:
            return self._feed_utf16(data)
        frames: list[bytes] = []
        while data:
            if self._headed_message is not None:
                data = self._add_to_headed_message(data, frames)
                continue
            lines = data.split(b"\n")
            remainder = lines.pop()
            if not lines:
                self._add_piece(remainder)
                return frames
            if self._pieces or self._is_skipping:
                lines[0] = self._finished_line(lines[0])
            unprocessed = self._process_lines(lines, remainder, frames)
            if unprocessed is None:
                self._add_piece(remainder)
                return frames
            data = unprocessed
        return frames

    @property
    def first_piece(self) -> bytes:
        """First piece of a line that awaits a newline, or no bytes if no line has begun."""
        return self._pieces[0] if self._pieces else self._beginning

    @property
    def may_be_unterminated(self) -> bool:
        """True if the bytes that await a newline end like a message."""
        if not self._pieces or self._encoding or self.is_within_message:
            return False
        return self._pieces[-1][-_ENDING_BYTES:].rstrip(_BLANKS).endswith(b"}")

    def take_unterminated(self) -> bytes:
        """Remove and return the messages that await a newline.

        Return no bytes if no message awaits a newline, or if the last message is incomplete.
        """
        line = b"".join(self._pieces).strip(_BLANKS) if self.may_be_unterminated else b""
        if not line or not _is_readable(line):
            return b""
        self._pieces, self._line_bytes = [], 0
        return line

    def give_up(self) -> list[bytes]:
        """End the unfinished message. Return each of its lines as a separate frame."""
        lines, self._lines, self._lines_size = self._lines, [], 0
        if self._headed_message is not None:
            lines, self._headed_message = [*lines, bytes(self._headed_message)], None
        return [stripped for line in lines if (stripped := line.strip())]

    def close(self) -> list[bytes]:
        """Return the remaining frames at the end of the stream."""
        remainder = b"" if self._is_skipping else b"".join((*self._pieces, self._beginning, self._odd_byte))
        self._beginning = self._odd_byte = b""
        self._pieces, self._line_bytes, self._is_skipping = [], 0, False
        frames: list[bytes] = []
        if remainder.strip(b"\0\r\n\t "):
            self._add_line(remainder, frames)
        return frames + self.give_up()

    def _add_piece(self, piece: bytes) -> None:
        if not piece or self._is_skipping:
            return
        self._line_bytes += len(piece)
        if self._line_bytes > self.limit:
            self._pieces.clear()
            self._is_skipping = True
            return
        self._pieces.append(piece)

    def _finished_line(self, end: bytes) -> bytes:
        """Return the held pieces and `end` as one line, or `_TOO_LONG` if the line is too long."""
        line = _TOO_LONG if self._is_skipping else b"".join((*self._pieces, end))
        self._pieces, self._line_bytes, self._is_skipping = [], 0, False
        return line

    def _process_lines(self, lines: list[bytes], remainder: bytes, frames: list[bytes]) -> bytes | None:
        """Process complete lines.

        If a header begins a message, return the bytes from the header on. Otherwise return None.
        """
        for index, line in enumerate(lines):
            if line is _TOO_LONG or len(line) > self.limit:
                self.dropped += 1
                frames += [*self.give_up(), b""]
                continue
            stripped = line.strip()
            if not self._lines and stripped.startswith(b"{") and stripped.endswith(b"}"):
                frames.append(stripped)
            elif not self._lines and _HEADER.match(line):
                self._headed_message, self._balance = bytearray(), _Balance()
                return b"\n".join((*lines[index:], remainder))
            else:
                self._add_line(line, frames)
        return None

    def _add_line(self, line: bytes, frames: list[bytes]) -> None:
        """Process a line that may be a part of a message."""
        text = self._as_utf8(line)
        if not self._lines:
            stripped = line.strip()
            if not stripped.strip(b"\0"):
                return
            if not _MESSAGE_START.match(text):
                frames.append(stripped)
                return
            self._balance = _Balance()
        elif _is_message(text):
            frames += [*self.give_up(), line.strip()]
            return
        self._lines.append(line)
        self._lines_size += len(line) + 1
        if self._balance.end(text + b"\n") >= 0:
            newline = _NEWLINES.get(self._encoding, b"\n")
            message = newline.join(self._lines)
            self._lines, self._lines_size = [], 0
            frames.append(message if self._encoding else message.strip())
        elif self._lines_size > self.limit or len(self._lines) > MAX_LINES:
            frames += self.give_up()

    def _as_utf8(self, line: bytes) -> bytes:
        """Return a line as UTF-8."""
        if not self._encoding:
            return line.rstrip(b"\r")
        return line[: len(line) & ~1].decode(self._encoding, "replace").lstrip("\ufeff").rstrip("\r").encode()

    def _add_to_headed_message(self, data: bytes, frames: list[bytes]) -> bytes:
        """Add bytes to a message with a header. Return the bytes that follow the message.

        The message ends with its JSON value. The length in the header is not used, because many programs
        count characters instead of bytes.
        """
        assert self._headed_message is not None
        end = self._balance.end(data)
        if end < 0:
            self._headed_message += data
            if len(self._headed_message) > self.limit:
                self._headed_message = None
                self.dropped += 1
                frames.append(b"")
            return b""
        frames.append(bytes(self._headed_message + data[:end]).strip())
        self._headed_message = None
        return data[end:].removeprefix(b"\r\n").removeprefix(b"\n")

    def _feed_utf16(self, data: bytes) -> list[bytes]:
        """Return the frames that UTF-16 bytes complete."""
        data = self._odd_byte + data
        stop = len(data) & ~1
        data, self._odd_byte = data[:stop], data[stop:]
        frames: list[bytes] = []
        newline = _NEWLINES[self._encoding]
        begin = position = 0
        while (newline_at := data.find(newline, position)) >= 0:
            position = newline_at + 1
            if newline_at % 2:  # inside a UTF-16 unit
                continue
            line = self._finished_line(data[begin:newline_at])
            if line is _TOO_LONG or len(line) > self.limit:
                self.dropped += 1
                frames += [*self.give_up(), b""]
            else:
                self._add_line(line.removesuffix(newline.replace(b"\n", b"\r")), frames)
            begin = position = newline_at + 2
        self._add_piece(data[begin:])
        return frames


class MessageLines:
    """Groups numbered lines, so that all lines of one message form one group."""

    def __init__(self, limit: int) -> None:
        """`limit` is the maximum size in bytes of a message of several lines."""
        self._limit = limit
        self._lines: list[NumberedLine] = []
        """Lines of a message that continues in the next line."""
        self._size = 0
        self._balance = _Balance()

    @property
    def is_within_message(self) -> bool:
        """True if a message has begun that continues in further lines."""
        return bool(self._lines)

    def feed(self, number: int, line: bytes) -> list[LineGroup]:
        """Add the next line, with its newline, and return the groups that are complete now.

        `line` is empty if its bytes are unknown. If a message does not end, or is too long, each of its lines
        becomes a separate group.
        """
        text, stripped = line.rstrip(b"\r\n"), line.strip()
        given_up = self.give_up() if self._lines and (not line or _is_message(stripped)) else []
        if not self._lines:
            is_one_line = stripped.startswith(b"{") and stripped.endswith(b"}")
            if is_one_line or not stripped or not _MESSAGE_START.match(text):
                return [*given_up, ((number,), line)]
            self._balance = _Balance()
        self._lines.append((number, line))
        self._size += len(line)
        if self._balance.end(text + b"\n") >= 0:
            numbers, lines = zip(*self._lines, strict=True)
            self._lines, self._size = [], 0
            return [(numbers, b"".join(lines))]
        if self._size > self._limit or len(self._lines) > MAX_LINES:
            return self.give_up()
        return []

    def give_up(self) -> list[LineGroup]:
        """End the unfinished message. Return each of its lines as a separate group."""
        lines, self._lines, self._size = self._lines, [], 0
        return [((number,), line) for number, line in lines]


_TOO_LONG = b"\n"
"""Placeholder for a line that is too long. No line equals the placeholder, because lines contain no
newline.
"""


def _is_readable(line: bytes) -> bool:
    """Return True if a line has messages that can be used, and no incomplete message."""
    if read_strictly(line) is None and len(line) > QUICK_BYTES:
        return False
    return read_frame(line).value is not None


def _is_message(line: bytes) -> bool:
    """Return True if a line is a complete message. The lines before it are then not part of a message."""
    stripped = line.strip()
    if not (stripped.startswith(b"{") and stripped.endswith(b"}") and b'"jsonrpc"' in stripped):
        return False
    try:
        return isinstance(codec.decode(stripped), dict)
    except ProtocolError:
        return False
