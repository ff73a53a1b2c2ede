"""Requests whose head came before: nothing of them is parsed, and little is built.

Clients repeat themselves: of one request's head to the next, length and session may change, and nothing else.
A head that aiohttp parsed, and that is what it would be if it were written out again, is known from then on.
"""

from __future__ import annotations

from typing import Any

from aiohttp import web
from aiohttp.http import HttpVersion, HttpVersion11, RawRequestMessage, StreamWriter
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler

from mcpdesk.transports.http.head import SESSION_HEADER, Head

LONGEST = 4 << 10
"""Bytes of a head beyond which it is not remembered."""
MOST_PATTERNS = 256
MOST_KNOWN = 64
"""Heads remembered of one pattern."""
KEPT_BYTES = 32 << 10
"""Of them together: anybody may send some, and of every length."""
END = b"\r\n\r\n"
LENGTH_HEADER = "Content-Length"
_DIGITS = 9
_LENGTH, _LENGTH_LOW = b"\r\nContent-Length: ", b"\r\ncontent-length: "
_SESSION, _SESSION_LOW = b"\r\nMcp-Session-Id: ", b"\r\nmcp-session-id: "
_LONGEST_SESSION = 64
_SESSION_SIGNS = b"-_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_UNLIKE = frozenset({"transfer-encoding", "upgrade", "expect", "content-encoding"})
"""Headers that make something else of what follows the head."""


class Known:
    """A head as it is sent, what it says, and how many bytes follow it."""

    __slots__ = ("head", "message", "raw", "size")

    def __init__(self, raw: bytes, head: Head, size: int, message: RawRequestMessage | None) -> None:
        self.raw = raw
        self.head = head
        self.size = size
        self.message = message
        """What aiohttp made of the first one of its pattern."""


class Pattern:
    """What heads that differ in length and session alone have in common."""

    __slots__ = ("_first", "_known", "_length", "_message", "_session")

    def __init__(self, first: Head, message: RawRequestMessage) -> None:
        self._first = first
        self._message = message
        names = [name.lower() for name, _ in first.noted]
        self._session, self._length = (
            names.index(name) if name in names else None
            for name in (SESSION_HEADER.lower(), LENGTH_HEADER.lower())
        )
        """Where the headers are that may change, if it has them."""
        self._known: dict[tuple[bytes, bytes], Known] = {}

    def known(self, raw: bytes, session: bytes, length: bytes) -> Known | None:
        """The head of this pattern with that session and length; None when they are none."""
        return self._known.get((session, length)) or self._meet(raw, session, length)

    def _meet(self, raw: bytes, session: bytes, length: bytes) -> Known | None:
        """One that did not come before."""
        size, changes = size_of(length), []
        if size is None or not _is_session(session):
            return None
        if self._session is not None:
            changes.append((self._session, session.decode()))
        if self._length is not None:
            changes.append((self._length, length.decode()))
        if len(changes) != bool(session) + bool(length):
            return None
        if len(self._known) >= min(MOST_KNOWN, KEPT_BYTES // len(raw)):
            self._known.clear()
        known = Known(raw, self._first.like(session.decode(), changes), size, self._message)
        self._known[session, length] = known
        return known


class Patterns:
    """The heads that passed on one listener, by what they have in common; the oldest go first."""

    def __init__(self) -> None:
        self._patterns: dict[bytes, Pattern] = {}

    def __len__(self) -> int:
        return len(self._patterns)

    def find(self, raw: bytes) -> Known | None:
        """The known head with these bytes; None: it has to be parsed."""
        key, session, length = _key(raw)
        pattern = self._patterns.get(key)
        return None if pattern is None else pattern.known(raw, session, length)

    def learn(self, raw: bytes, head: Head, message: RawRequestMessage) -> None:
        """Remember a head that aiohttp parsed, as `size_after` understands it."""
        key, session, length = _key(raw)
        lengths, sessions = head.carried.getall(LENGTH_HEADER, []), head.carried.getall(SESSION_HEADER, [])
        if not _is_session(session) or lengths != _texts(length) or sessions != _texts(session):
            return
        if len(self._patterns) >= MOST_PATTERNS:
            del self._patterns[next(iter(self._patterns))]
        self._patterns[key] = Pattern(head, message)


class Repeated(web.BaseRequest):
    """A request with a known head. What aiohttp's requests hold is there as soon as somebody looks."""

    def __init__(self, known: Known, body: bytes, connection: RequestHandler) -> None:
        self.head = known.head
        self.body = body
        self._known = known
        self._protocol = connection

    @property
    def keep_alive(self) -> bool:
        """Whether the connection stays: no other heads are known."""
        return True

    @property
    def version(self) -> HttpVersion:
        """That of every known head."""
        return HttpVersion11

    @property
    def remote(self) -> str | None:
        """The client's address; None on a Unix socket. A client that says no name is called by it."""
        place = self._protocol.peername
        return str(place[0]) if isinstance(place, tuple) else None

    def __getattr__(self, name: str) -> Any:
        if "_payload" in self.__dict__:
            raise AttributeError(name)
        self.__dict__.update(self._whole().__dict__)
        return getattr(self, name)

    def _cancel(self, exc: BaseException) -> None:
        """The connection is lost. All of its body has come before."""

    def _whole(self) -> web.BaseRequest:
        """The request as aiohttp would have made it. Raises: ConnectionError when the client is gone."""
        connection, head, first = self._protocol, self._known.head, self._known.message
        factory, task = connection._request_factory, connection._task_handler
        if factory is None or task is None or first is None:
            raise ConnectionResetError("the client is gone")
        loop = connection._loop
        payload = StreamReader(connection, max(1, len(self.body)), loop=loop)
        payload.feed_data(self.body)
        payload.feed_eof()
        raw = tuple(
            [
                (name.encode(), value.encode("utf-8", "surrogateescape"))
                for name, value in head.carried.items()
            ]
        )
        message = first._replace(headers=head.carried, raw_headers=raw)
        return factory(message, payload, connection, StreamWriter(connection, loop), task)


class Track:
    """What aiohttp's parser was given since it stood where a request may begin. That place can get lost."""

    __slots__ = ("_due", "_is_lost", "_raw", "_seen", "is_between")

    def __init__(self) -> None:
        self.is_between = True
        """Whether it stands there now."""
        self._is_lost = False
        self._raw = b""
        self._seen = 0
        self._due = 0
        """The bytes of the first request since then, 0 while that is not known."""

    def count(self, data: bytes) -> None:
        """The parser is given so much more."""
        self.is_between = False
        if self._is_lost:
            return
        self._seen += len(data)
        if self._due:
            self._settle()
        elif len(self._raw) < LONGEST and END not in self._raw:
            self._raw += data[:LONGEST]

    def parsed(self, message: RawRequestMessage) -> bytes | None:
        """A request came of it. The bytes of its head, when they tell where the request ends."""
        if self.is_between:
            return None
        end = self._raw.find(END) + len(END)
        raw = self._raw[:end]
        size = None if self._due or end < len(END) else size_after(raw, message)
        if size is None:
            self._lose()
            return None
        self._due = end + size
        self._settle()
        return raw

    def _settle(self) -> None:
        if self._seen > self._due:
            self._lose()
        elif self._seen == self._due:
            self.is_between = True
            self._raw, self._seen, self._due = b"", 0, 0

    def _lose(self) -> None:
        self._is_lost, self._raw = True, b""


def size_after(raw: bytes, message: RawRequestMessage) -> int | None:
    """How many bytes follow a head whose bytes are `raw`; None when they cannot be told from it alone.

    They can when the head is exactly its parsed parts written out, and none of them is of a special kind.
    """
    if message.version != HttpVersion11 or message.should_close or message.upgrade or message.chunked:
        return None
    lines = [b"%b: %b\r\n" % header for header in message.raw_headers]
    line = f"{message.method} {message.path} HTTP/1.1\r\n".encode("utf-8", "surrogateescape")
    if raw != b"".join([line, *lines, b"\r\n"]):
        return None
    if not _UNLIKE.isdisjoint(name.lower() for name in message.headers):
        return None
    lengths = message.headers.getall(LENGTH_HEADER, ())
    return size_of(lengths[0].encode()) if len(lengths) == 1 else None if lengths else 0


def size_of(length: bytes) -> int | None:
    """The number a Content-Length says; none is nothing."""
    if not length:
        return 0
    return int(length) if length.isdigit() and len(length) <= _DIGITS else None


def _texts(value: bytes) -> list[str]:
    return [value.decode()] if value else []


def _is_session(text: bytes) -> bool:
    return len(text) <= _LONGEST_SESSION and not text.translate(None, _SESSION_SIGNS)


def _key(raw: bytes) -> tuple[bytes, bytes, bytes]:
    """A head without what may change, and that: session and length, empty where it has none."""
    before, mark, rest = raw.partition(_LENGTH)
    if not mark:
        before, mark, rest = raw.partition(_LENGTH_LOW)
    length, end, rest = rest.partition(b"\r")
    before, mark, rest = (before + mark + end + rest).partition(_SESSION)
    if not mark:
        before, mark, rest = before.partition(_SESSION_LOW)
    session, end, rest = rest.partition(b"\r")
    return before + mark + end + rest, session, length
