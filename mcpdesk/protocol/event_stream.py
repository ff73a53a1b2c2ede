"""Server-sent events, as a client reads them: any split of bytes in, whole events out. Sans-IO.

Source: WIRE 4.1, 4.4, 5.2, and the event stream format of HTML.
"""

from __future__ import annotations

from msgspec import Struct

from mcpdesk.protocol.framing import DEFAULT_LIMIT

_DATA = b"data: "
_BOM = b"\xef\xbb\xbf"


class Event(Struct, frozen=True):
    """One event with data. `name` is `message` where the stream gives none."""

    data: bytes
    name: str = "message"


class EventFramer:
    """Takes a stream apart. Comments, unknown fields and events without data are left out."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = limit
        """Bytes one event may have."""
        self.last_id = ""
        """The id to resume the stream after; empty when it gave none."""
        self.retry_ms: int | None = None
        """How long to wait before that; None when the stream does not say."""
        self._pieces: list[bytes] = []
        """Of a line that has not ended."""
        self._data: list[bytes] = []
        self._line_size = self._data_size = 0
        self._name = ""
        self._id: str | None = None
        self._is_first = True
        self._skips_newline = False

    def feed(self, data: bytes) -> list[Event]:
        """Take the next bytes and return the events they complete.

        Raises: ValueError for an event of more than `limit` bytes; the stream cannot be read on then.
        """
        if not data:
            return []
        if self._skips_newline:
            data = data.removeprefix(b"\n")
        # Of a pair that came in two pieces the second half is gone by now: the next one stands for itself.
        self._skips_newline = data.endswith(b"\r")
        *whole, rest = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        found = []
        for line in whole:
            event = self._line(b"".join([*self._pieces, line]))
            self._pieces.clear()
            self._line_size = 0
            if event is not None:
                found.append(event)
        if rest:
            self._pieces.append(rest)
            self._line_size += len(rest)
            # If it is data its name is no part of that.
            self._check(self._data_size + self._line_size - len(_DATA))
        return found

    def _line(self, line: bytes) -> Event | None:
        if self._is_first:
            self._is_first, line = False, line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
            self._data_size += len(value) + 1
            self._check(self._data_size - 1)  # each line but the last has a newline besides
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
        elif field == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        elif field == b"retry" and value.isdigit() and len(value) < 10:
            self.retry_ms = int(value)
        return None

    def _dispatch(self) -> Event | None:
        if self._id is not None:
            self.last_id = self._id
        data, name = b"\n".join(self._data), self._name or "message"
        self._data, self._name, self._id, self._data_size = [], "", None, 0
        return Event(data, name) if data else None

    def _check(self, size: int) -> None:
        if size > self.limit:
            raise ValueError(f"an event has more than {self.limit} bytes")
