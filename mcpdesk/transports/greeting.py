"""The line a pump sends before the client's first frame; a client without a pump sends frames at once."""

from __future__ import annotations

from msgspec import Struct

from mcpdesk.transports.pump import REFUSAL

PREFIX = b'{"mcpdesk":'
LIMIT = 64 * 1024
"""Bytes of a greeting, at most."""


class Hello(Struct, frozen=True):
    """Who is at the other end of a pump."""

    folder: str
    """The folder it asked for, absolute."""
    mode: str
    """The mode it asked for; empty for none."""
    pid: int
    """The process that started the pump: the client."""
    name: str
    """What that process calls itself; may be empty."""
    leaves: bool = False
    """Whether it understands that it is to leave."""


class Greeting:
    """Reads the start of a connection, in any split."""

    def __init__(self) -> None:
        self._start = b""

    def feed(self, data: bytes) -> tuple[Hello | None, bytes] | None:
        """Return the hello, if one was sent, and the bytes after it; None as long as it cannot be told.

        Raises: ValueError for a greeting that is no hello.
        """
        self._start += data
        if not self._start.startswith(PREFIX[: len(self._start)]):
            return None, self._start
        line, newline, rest = self._start.partition(b"\n")
        if newline:
            return read(line), rest
        if len(line) > LIMIT:
            raise ValueError(f"a greeting of more than {LIMIT} bytes")
        return None


def refusal(reason: str) -> bytes:
    """What a pump is told instead of frames when nothing can be served to it."""
    return REFUSAL + " ".join(reason.split()).encode() + b"\n"


def read(line: bytes) -> Hello:
    """Parse a greeting. Raises: ValueError when it is none."""
    import json

    facts = json.loads(line)
    match facts:
        case {"mcpdesk": 1, "folder": str(folder), "mode": str(mode), "pid": int(pid), "name": str(name)}:
            return Hello(folder, mode, pid, name, facts.get("leaves") is True)
    raise ValueError(f"not a greeting of this version: {line[:200]!r}")
