"""The lines of a capture file: JSON Lines, one per frame, connection or HTTP note.

    {"capture":1,"part":1,"first":0,"started":1764000000.0}          opens every part
    {"connection":{"number":1,"server":"profiles",...}}
    {"n":0,"t":1764000000.112345,"c":1,"d":"in","text":"{\\"jsonrpc\\"..."}
    {"n":1,"t":1764000000.115001,"c":1,"d":"out","base64":"/w=="}    bytes that are not UTF-8
    {"n":2,...,"size":1048576}     only the beginning was kept; `size` is the length of the whole
    {"note":{"frame":0,"line":"POST /mcp HTTP/1.1","headers":[["host","localhost"]]}}
    {"lost":[7,9]}                 frames 7 and 8 were never written

Bytes come back exactly as they were. Knows no file.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import msgspec
import orjson

from mcpdesk.recorder.record import KEPT_BYTES, ConnectionInfo, Direction, Frame, HttpNote

FORMAT = 1
_DIRECTIONS = {"in": Direction.IN, "out": Direction.OUT}
_WORDS = (b"in", b"out")


class Line(msgspec.Struct, gc=False):
    """Any line of a capture; which members are set tells its kind."""

    capture: int | None = None
    part: int = 1
    first: int = 0
    started: float = 0.0
    n: int = -1
    t: float = 0.0
    c: int = 0
    d: str = "in"
    text: str | None = None
    base64: str | None = None
    size: int | None = None
    connection: ConnectionInfo | None = None
    note: HttpNote | None = None
    lost: tuple[int, int] | None = None


_decoder = msgspec.json.Decoder(Line)


def header_line(part: int, first: int, started: float) -> bytes:
    """The line that opens a part; `first` is the number of its first frame."""
    return b'{"capture":%d,"part":%d,"first":%d,"started":%.3f}\n' % (FORMAT, part, first, started)


def frame_line(frame: Frame, whole: bytes) -> bytes:
    """The line of one frame. `whole` is all that is left of its bytes."""
    try:
        body = b'"text":' + orjson.dumps(str(whole, "utf-8"))
    except UnicodeDecodeError:
        body = b'"base64":"' + b64encode(whole) + b'"'
    size = b"" if len(whole) == frame.size else b',"size":%d' % frame.size
    word = _WORDS[frame.direction]
    return b'{"n":%d,"t":%.6f,"c":%d,"d":"%b",%b%b}\n' % (
        frame.number,
        frame.time,
        frame.connection,
        word,
        body,
        size,
    )


def connection_line(info: ConnectionInfo) -> bytes:
    """The line of a connection, or of what more became known of it."""
    return b'{"connection":%b}\n' % encoded(info)


def encoded(value: ConnectionInfo | HttpNote) -> bytes:
    """A value as JSON. Header bytes that were no UTF-8, which arrive as lone surrogates, become `�`."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_without_surrogates(msgspec.to_builtins(value)))


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if isinstance(value, dict):
        return {key: _without_surrogates(item) for key, item in value.items()}
    return [_without_surrogates(item) for item in value] if isinstance(value, list | tuple) else value


def note_line(note: bytes) -> bytes:
    """The line of an encoded HTTP note."""
    return b'{"note":%b}\n' % note


def lost_line(start: int, stop: int) -> bytes:
    """The line that owns up to frames `start` up to `stop` (excluded) never being written."""
    return b'{"lost":[%d,%d]}\n' % (start, stop)


def read_line(line: bytes) -> Line:
    """Decode one line.

    Raises: ValueError (msgspec.DecodeError is one) for a line that is cut off or not of this format.
    """
    return _decoder.decode(line)


def line_bytes(line: Line) -> bytes:
    """The bytes a frame's line carries.

    Raises: ValueError for base64 that is none.
    """
    if line.base64 is not None:
        return b64decode(line.base64, validate=True)
    return (line.text or "").encode("utf-8", "surrogatepass")


def line_frame(line: Line) -> Frame:
    """The frame of a frame's line, its data cut like any frame in memory."""
    data = line_bytes(line)
    size = len(data) if line.size is None else line.size
    return Frame(line.n, line.t, line.c, _DIRECTIONS.get(line.d, Direction.IN), data[:KEPT_BYTES], size)
