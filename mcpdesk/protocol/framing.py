"""Incremental framers for lines and event streams. They take bytes of any length and return whole frames."""

from __future__ import annotations

from msgspec import Struct

DEFAULT_LIMIT = 16 << 20
"""Maximum size in bytes of a frame or an event."""


class LineFramer:
    """Splits a byte stream into newline-delimited frames. Blank lines are skipped.

    The pieces of a line are joined only once, when its newline arrives.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT, *, keeps_indent: bool = False) -> None:
        """With `keeps_indent`, leading white space is not removed. Use it for texts that people read."""
        self.limit = limit
        self._strip = bytes.rstrip if keeps_indent else bytes.strip
        self.dropped = 0
        """Number of oversized lines that were skipped."""
        self._pieces: list[bytes] = []
        self._line_bytes = 0
        self._is_skipping = False

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes and return the frames that they complete, without newlines.

        An oversized line becomes an empty frame, so that the caller can answer it.
        """
        end = data.find(b"\n")
        if end < 0:
            self._add_piece(data)
            return []
        if not (self._pieces or self._is_skipping) and len(data) <= self.limit:
            if end == len(data) - 1:
                line = self._strip(data)
                return [line] if line else []
            complete = data.split(b"\n")
            if remainder := complete.pop():
                self._add_piece(remainder)
            return [stripped for line in complete if (stripped := self._strip(line))]
        first, *pieces = data.split(b"\n")
        self._add_piece(first)
        lines = [self._join(), *pieces[:-1]]
        self._add_piece(pieces[-1])
        return [frame for line in lines if (frame := self._finish(line)) is not None]

    def unfinished_line(self) -> bytes | None:
        """Return the beginning of an unfinished line, or None if the line is being skipped."""
        return None if self._is_skipping else b"".join(self._pieces)

    def close(self) -> bytes:
        """Return the unfinished last line at the end of the stream, or empty bytes."""
        last_line = self._join()
        return self._strip(last_line) if last_line is not None else b""

    def _add_piece(self, piece: bytes) -> None:
        if not piece or self._is_skipping:
            return
        self._line_bytes += len(piece)
        if self._line_bytes > self.limit:
            self._pieces.clear()
            self._is_skipping = True
            return
        self._pieces.append(piece)

    def _join(self) -> bytes | None:
        line = None if self._is_skipping else b"".join(self._pieces)
        self._pieces.clear()
        self._line_bytes = 0
        self._is_skipping = False
        return line

    def _finish(self, line: bytes | None) -> bytes | None:
        if line is None or len(line) > self.limit:
            self.dropped += 1
            return b""
        stripped = self._strip(line)
        return stripped or None


_DATA = b"data: "
_BOM = b"\xef\xbb\xbf"


def event(message: bytes) -> bytes:
    """Return a message as one `message` event."""
    return b"event: message\ndata: %b\n\n" % message


class Event(Struct, frozen=True):
    """One event with data. `name` is `message` if the stream does not set it."""

    data: bytes
    name: str = "message"


class EventFramer:
    """Parses an event stream. Comments, unknown fields and events without data are skipped."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = limit
        """Maximum size in bytes of one event."""
        self.last_id = ""
        """Id of the last event, with which the stream can be resumed, or "" if no event had an id."""
        self.retry_ms: int | None = None
        """Milliseconds to wait before the stream is resumed, or None if the stream did not set this time."""
        self._pieces: list[bytes] = []
        """Pieces of an unfinished line."""
        self._data: list[bytes] = []
        self._line_size = self._data_size = 0
        self._name = ""
        self._id: str | None = None
        self._is_first_line = True
        self._skips_newline = False

    @property
    def is_between_events(self) -> bool:
        """True if no event has begun."""
        return not (self._pieces or self._data or self._name) and self._id is None

    def feed(self, data: bytes) -> list[Event]:
        """Add bytes and return the events that they complete.

        Raises: ValueError for an event of more than `limit` bytes. The stream cannot be parsed after this
        error.
        """
        if not data:
            return []
        if self._skips_newline:
            data = data.removeprefix(b"\n")
        # If a piece ends with `\r`, a `\n` at the start of the next piece belongs to the same line break.
        self._skips_newline = data.endswith(b"\r")
        *lines, unfinished = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        events = []
        for line in lines:
            event = self._add_line(b"".join([*self._pieces, line]))
            self._pieces.clear()
            self._line_size = 0
            if event is not None:
                events.append(event)
        if unfinished:
            self._pieces.append(unfinished)
            self._line_size += len(unfinished)
            # The field name of a data line does not count.
            self._check_size(self._data_size + self._line_size - len(_DATA))
        return events

    def unfinished(self) -> bytes:
        """Return the data of an unfinished event, or empty bytes."""
        unfinished_line = b"".join(self._pieces)
        field, _, value = unfinished_line.partition(b":")
        last_value = [value.removeprefix(b" ")] if field == b"data" else []
        return b"\n".join([*self._data, *last_value])

    def _add_line(self, line: bytes) -> Event | None:
        """Process one line of an event stream. Return an event if the line ends one with data."""
        if self._is_first_line:
            self._is_first_line, line = False, line.removeprefix(_BOM)
        if not line:
            return self._finish_event()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
            self._data_size += len(value) + 1
            self._check_size(self._data_size - 1)  # each line except the last also has a newline
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
        elif field == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        elif field == b"retry" and value.isdigit() and len(value) < 10:
            self.retry_ms = int(value)
        return None

    def _finish_event(self) -> Event | None:
        if self._id is not None:
            self.last_id = self._id
        data, name = b"\n".join(self._data), self._name or "message"
        self._data, self._name, self._id, self._data_size = [], "", None, 0
        return Event(data, name) if data else None

    def _check_size(self, size: int) -> None:
        if size > self.limit:
            raise ValueError(f"an event has more than {self.limit} bytes")
