"""The lines of a capture file: JSON Lines, one per frame, connection or HTTP note.

    {"capture":1,"part":1,"first":0,"started":1764000000.0}          opens every part
    {"connection":{"number":1,"server":"profiles",...}}
    {"n":0,"t":1764000000.112345,"c":1,"d":"in","json":{"jsonrpc":"2.0",...}}
    {"n":1,...,"text":"{\\"jsonrpc\\"..."}         text that is not JSON in one line
    {"n":2,...,"base64":"/w=="}                   bytes that are not UTF-8
    {"n":3,...,"size":1048576}     only the beginning was kept; `size` is the length of the whole
    {"note":{"frame":0,"line":"POST /mcp HTTP/1.1","headers":[["host","localhost"]]}}
    {"lost":[7,9]}                 frames 7 and 8 were never written

Bytes come back exactly as they were: what stands behind `"json":` is the frame itself, not parsed again.
Format 1 had no `"json"`. Knows no file.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

import msgspec
import orjson

from mcpdesk.recorder.record import KEPT_BYTES, ConnectionInfo, Direction, Frame, HttpNote

FORMAT = 2
_DIRECTIONS = {"in": Direction.IN, "out": Direction.OUT}
_WORDS = ("in", "out")
_FRAME = b'{"n":'
_JSON = b',"json":'
_HEAD_BYTES = 120
"""What stands before the frame in a line is shorter."""


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
    json: msgspec.Raw = msgspec.Raw()
    text: str | None = None
    base64: str | None = None
    size: int | None = None
    connection: ConnectionInfo | None = None
    note: HttpNote | None = None
    lost: tuple[int, int] | None = None


class _FrameLine(msgspec.Struct, gc=False):
    """The line of a frame that is JSON in one line, as it is written."""

    n: int
    t: float
    c: int
    d: str
    json: msgspec.Raw


_decoder = msgspec.json.Decoder(Line)
_encoder = msgspec.json.Encoder()
_separate = msgspec.json.Decoder(list[msgspec.Raw]).decode


def header_line(part: int, first: int, started: float) -> bytes:
    """The line that opens a part; `first` is the number of its first frame."""
    return b'{"capture":%d,"part":%d,"first":%d,"started":%.3f}\n' % (FORMAT, part, first, started)


def frame_lines(frames: Sequence[Frame]) -> bytes | None:
    """The lines of successive whole frames, made at once; None when one of them is not JSON in one line."""
    values = _values([frame.data for frame in frames])
    if values is None:
        return None
    lines = [
        _FrameLine(frame.number, frame.time, frame.connection, _WORDS[frame.direction], value)
        for frame, value in zip(frames, values, strict=True)
    ]
    return _encoder.encode_lines(lines)


def frame_line(frame: Frame, whole: bytes) -> bytes:
    """The line of one frame. `whole` is all that is left of its bytes."""
    head = b'{"n":%d,"t":%.6f,"c":%d,"d":"%b"' % (
        frame.number,
        frame.time,
        frame.connection,
        _WORDS[frame.direction].encode(),
    )
    if len(whole) == frame.size:
        return b"%b%b}\n" % (head, _body(whole))
    return b'%b%b,"size":%d}\n' % (head, _text(whole), frame.size)


def _body(whole: bytes) -> bytes:
    return _text(whole) if _values([whole]) is None else _JSON + whole


def _text(data: bytes) -> bytes:
    try:
        return b',"text":' + orjson.dumps(str(data, "utf-8"))
    except UnicodeDecodeError:
        return b',"base64":"' + b64encode(data) + b'"'


def _values(frames: list[bytes]) -> list[msgspec.Raw] | None:
    """The frames again, proven to be one JSON value each, without a newline and nothing around it."""
    joined = b"[%b]" % b",".join(frames)
    try:
        str(joined, "utf-8")
        values = _separate(joined)
    except (ValueError, RecursionError):
        return None
    # The same lengths leave no room for anything between the values: each one is the frame of its place.
    fit = b"\n" not in joined and list(map(len, values)) == list(map(len, frames))
    return values if fit else None


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
    at = line.find(_JSON, 0, _HEAD_BYTES) if line.startswith(_FRAME) and line.endswith(b"}\n") else -1
    if at < 0:
        return _decoder.decode(line)
    read = _decoder.decode(line[:at] + b"}")
    read.json = msgspec.Raw(line[at + len(_JSON) : -2])
    return read


def line_bytes(line: Line) -> bytes:
    """The bytes a frame's line carries.

    Raises: ValueError for base64 that is none.
    """
    if line.json:
        return bytes(line.json)
    if line.base64 is not None:
        return b64decode(line.base64, validate=True)
    return (line.text or "").encode("utf-8", "surrogatepass")


def line_frame(line: Line) -> Frame:
    """The frame of a frame's line, its data cut like any frame in memory."""
    data = line_bytes(line)
    size = len(data) if line.size is None else line.size
    return Frame(line.n, line.t, line.c, _DIRECTIONS.get(line.d, Direction.IN), data[:KEPT_BYTES], size)
