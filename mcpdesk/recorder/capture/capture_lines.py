"""Lines of a capture file: JSON Lines, one per frame, connection or HTTP note.

    {"capture":1,"part":1,"first":0,"started":1764000000.0}          begins every part
    {"connection":{"number":1,"server":"profiles",...}}
    {"n":0,"t":1764000000.112345,"c":1,"d":"in","json":{"jsonrpc":"2.0",...}}
    {"n":1,...,"text":"{\\"jsonrpc\\"..."}         text that is not JSON in one line
    {"n":2,...,"base64":"/w=="}                   bytes that are not UTF-8
    {"n":3,...,"size":1048576,"end":"...}}"}    only beginning and end were kept; `size` is the original size
    {"n":1,...,"d":"out","phases":[1764000000.1123,250,0,0,12],"json":...}    an answer with its `Phases`
    {"n":4,"t":1764000000.5,"c":1,"d":"out","run":2}    frames recorded together are the lines that follow:
    {"jsonrpc":"2.0",...}                                frame 4
    {"jsonrpc":"2.0",...}                                frame 5
    {"note":{"frame":0,"line":"POST /mcp HTTP/1.1","headers":[["host","localhost"]]}}
    {"same":[0,4,6]}               the note on frame 0 also applies to frames 4 and 6
    {"mark":{"connection":1,"direction":0,"id":7,"how":"changed",...}}    outcome of a held message
    {"log":{"connection":1,"id":7,"level":"error","text":"...",...}}    log line of the code of a call
    {"remark":{"connection":1,"id":7,"time":...,"remark":{"kind":"number","text":"...","at":93}}}
    {"lost":[7,9],"missing":2,"why":"No space left on device"}     frames 7 and 8 were never written

Bytes are read back exactly as recorded: the value of `"json":` is the frame itself, not parsed again.
The line of a run has the phases of its answers: `"run":2,"each":[[1764000000.1123,...],null]`.
Format 1 had no `"json"`, format 2 no `"run"`. This module does no file access.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Annotated, Any, TypeVar

import msgspec
import orjson
from msgspec import Struct

from mcpdesk.protocol.phases import Phases
from mcpdesk.recorder.record import (
    END_BYTES,
    MAX_KEPT_BYTES,
    CallLog,
    ConnectionInfo,
    Count,
    Direction,
    Entry,
    Frame,
    FrameRun,
    HeldMark,
    HttpNote,
    Moment,
    RecordedRemark,
    beginning,
)

FORMAT = 3
"""Version of the format of new captures."""
_DIRECTIONS = {"in": Direction.IN, "out": Direction.OUT}
_DIRECTION_WORDS = ("in", "out")
_FRAME_START = b'{"n":'
_JSON_MEMBER = b',"json":'
_RUN_MEMBER = b',"run":'
_MAX_HEAD_BYTES = 240
"""Maximum number of bytes before the frame in a line."""
MAX_RUN_FRAMES = 4_096
"""Maximum number of frames that the header of a run may announce. The writer uses at most 256."""
_LONG_HEAD = re.compile(
    rb'\{"n":\d{1,16},"t":[0-9.]{1,24},"c":\d{1,16},"d":"(?:in|out)",(?:"phases":\[[0-9.,e+-]{1,100}\],)?'
)
"""Beginning of the line of a frame, up to the member with its data."""


class _NotedFrame(HttpNote, gc=False, frozen=True):
    """HTTP metadata with the number of the frame for which it was written."""

    frame: int


class Line(msgspec.Struct, gc=False):
    """Any line of a capture. The members that are set determine the kind of the line."""

    capture: int | None = None
    part: int = 1
    first: Count = 0
    started: float = 0.0
    n: Annotated[int, msgspec.Meta(ge=-1, le=1 << 53)] = -1
    t: Moment = 0.0
    c: Count = 0
    d: str = "in"
    json: msgspec.Raw = msgspec.Raw()
    text: str | None = None
    base64: str | None = None
    size: Count | None = None
    end: str | None = None
    run: Annotated[int, msgspec.Meta(ge=0, le=MAX_RUN_FRAMES)] = 0
    phases: Phases | None = None
    each: list[Phases | None] = []
    connection: ConnectionInfo | None = None
    note: _NotedFrame | None = None
    same: list[int] | None = None
    mark: HeldMark | None = None
    log: CallLog | None = None
    remark: RecordedRemark | None = None
    lost: tuple[int, int] | None = None
    why: str = ""


class _FrameLine(msgspec.Struct, gc=False, omit_defaults=True):
    """Line to write for a frame that is JSON without line breaks."""

    n: int
    t: float
    c: int
    d: str
    phases: Phases | None = None
    json: msgspec.Raw = msgspec.Raw()


Content = TypeVar("Content")


@cache
def _decoder() -> msgspec.json.Decoder[Line]:
    """Return the decoder of lines. It takes a millisecond to create, and only readers need it."""
    return msgspec.json.Decoder(Line)


_encoder = msgspec.json.Encoder()
_split_values = msgspec.json.Decoder(list[msgspec.Raw]).decode


def header_line(part: int, first: int, started: float) -> bytes:
    """Return the line at the beginning of a part. `first` is the number of its first frame."""
    return b'{"capture":%d,"part":%d,"first":%d,"started":%.3f}\n' % (FORMAT, part, first, started)


def frame_lines(frames: Sequence[Frame], unchecked: Container[int]) -> bytes | None:
    """Encode the lines of successive complete frames together. Return None if one of the frames is not JSON
    in one line.

    Only frames with numbers in `unchecked` are parsed, because parsing takes longer than all other steps. The
    other frames are known to be JSON, and are only searched for line breaks.
    """
    unchecked_data = [frame.data for frame in frames if frame.number in unchecked]
    if unchecked_data and not _are_json_values(unchecked_data):
        return None
    if b"\n" in b"".join([frame.data for frame in frames]):
        return None
    raw = msgspec.Raw
    return _encoder.encode_lines(
        [
            _FrameLine(
                frame.number,
                frame.time,
                frame.connection,
                _DIRECTION_WORDS[frame.direction],
                frame.phases,
                raw(frame.data),
            )
            for frame in frames
        ]
    )


def run_pieces(run: FrameRun) -> Sequence[bytes]:
    """Return the buffers with the lines of a run. The frames are not copied."""
    phases_member = b',"each":' + _encoder.encode(run.phases) if run.phases else b""
    return b"%b%b%d%b}\n" % (_head(run), _RUN_MEMBER, run.count, phases_member), run.data, b"\n"


def run_lines(lines: Sequence[bytes]) -> list[bytes]:
    """Convert the lines of a run to complete lines, one for each frame, without line breaks.

    Raises: ValueError if the lines are not a run.
    """
    header, *frames = lines
    line = read_line(header)
    shared_members = header[header.index(b",") : header.index(_RUN_MEMBER)]
    phases_members = [_phases_member(phases) for phases in line.each[: len(frames)]]
    phases_members += [b""] * (len(frames) - len(phases_members))
    return [
        b"%b%d%b%b%b%b}\n" % (_FRAME_START, line.n + index, shared_members, phases, _JSON_MEMBER, data)
        for index, (data, phases) in enumerate(zip(frames, phases_members, strict=True))
    ]


def frame_pieces(frame: Frame, data: bytes, is_json: bool) -> Sequence[bytes]:
    """Return the buffers with the line of one frame. A large frame is not copied.

    `data` are the bytes of the frame that are still available.
    """
    head = _head(frame) + _phases_member(frame.phases)
    if len(data) == frame.size:
        is_value = b"\n" not in data if is_json else _are_json_values([data])
        return (head, _JSON_MEMBER, data, b"}\n") if is_value else (head, _text_member(data), b"}\n")
    return head, _text_member(data), b',"size":%d%b}\n' % (frame.size, _end_member(frame.end))


def _head(entry: Entry) -> bytes:
    """Return the beginning of the line of a frame."""
    word = _DIRECTION_WORDS[entry.direction].encode()
    return b'%b%d,"t":%.6f,"c":%d,"d":"%b"' % (_FRAME_START, entry.number, entry.time, entry.connection, word)


def _phases_member(phases: Phases | None) -> bytes:
    """Return the member with the phases of an answer, with a comma before it. Empty without phases."""
    return b"" if phases is None else b',"phases":' + _encoder.encode(phases)


def _text_member(data: bytes) -> bytes:
    """Return the member with data that are not JSON: `text`, or `base64` if the data are not UTF-8."""
    try:
        return b',"text":' + orjson.dumps(str(data, "utf-8"))
    except UnicodeDecodeError:
        return b',"base64":"' + b64encode(data) + b'"'


def _end_member(data: bytes) -> bytes:
    """Return the member with the last bytes of a cut frame, from the first complete character on."""
    text = data.decode("utf-8", "replace").lstrip("\ufffd") if data else ""
    return b',"end":' + orjson.dumps(text) if text else b""


def _are_json_values(frames: list[bytes]) -> bool:
    """Return True if every frame is exactly one JSON value without a line break."""
    joined = b"[%b]" % b",".join(frames)
    try:
        str(joined, "utf-8")
        values = _split_values(joined)
    except (ValueError, RecursionError):
        return False
    # If the lengths are equal, the values follow each other without a gap. Each value is then exactly one
    # frame.
    return b"\n" not in joined and list(map(len, values)) == list(map(len, frames))


def connection_line(info: ConnectionInfo) -> bytes:
    """Return the line of a new or updated connection."""
    return b'{"connection":%b}\n' % encoded(info)


def mark_line(mark: HeldMark) -> bytes:
    """Return the line of a decision about a held message."""
    return b'{"mark":%b}\n' % encoded(mark)


def log_line(log: CallLog) -> bytes:
    """Return the capture line of a log line that a call wrote."""
    return b'{"log":%b}\n' % encoded(log)


def remark_line(remark: RecordedRemark) -> bytes:
    """Return the line of a remark on a message of a server."""
    return b'{"remark":%b}\n' % encoded(remark)


def encoded(value: ConnectionInfo | HttpNote | HeldMark | CallLog | RecordedRemark) -> bytes:
    """Encode a value as JSON.

    Header bytes that are not UTF-8 (lone surrogates in Python) become `�`.
    """
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_without_surrogates(msgspec.to_builtins(value)))


def _without_surrogates(value: Any) -> Any:
    """Return a copy of a JSON value with its surrogates replaced."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if isinstance(value, dict):
        return {key: _without_surrogates(item) for key, item in value.items()}
    return [_without_surrogates(item) for item in value] if isinstance(value, list | tuple) else value


def note_line(frame: int, note: bytes) -> bytes:
    """Return the line of encoded HTTP metadata of a frame."""
    return b'{"note":{"frame":%d,%b}\n' % (frame, note[1:])


def same_line(note_frame: int, frames: Sequence[int]) -> bytes:
    """Return the line that gives the HTTP metadata of one frame to other frames."""
    return b'{"same":%b}\n' % orjson.dumps([note_frame, *frames])


def lost_line(start: int, stop: int, why: str = "") -> bytes:
    """Return the line that reports missing frames from `start` up to `stop` (excluded), and the reason."""
    reason = b',"why":%b' % orjson.dumps(why.encode("utf-8", "replace").decode()) if why else b""
    return b'{"lost":[%d,%d],"missing":%d%b}\n' % (start, stop, stop - start, reason)


def read_line(line: bytes) -> Line:
    """Decode one line.

    Raises: ValueError (msgspec.DecodeError is a subclass) for an incomplete or invalid line.
    """
    json_offset = -1
    if line.startswith(_FRAME_START) and line.endswith(b"}\n"):
        json_offset = line.find(_JSON_MEMBER, 0, _MAX_HEAD_BYTES)
    try:
        if json_offset < 0:
            return _decoder().decode(line)
        head = _decoder().decode(line[:json_offset] + b"}")
    except RecursionError:
        raise ValueError("nested too deeply") from None
    head.json = msgspec.Raw(line[json_offset + len(_JSON_MEMBER) : -2])
    return head


def line_bytes(line: Line) -> bytes:
    """Return the bytes of a frame from its line.

    Raises: ValueError for invalid base64.
    """
    if line.json:
        return bytes(line.json)
    if line.base64 is not None:
        return b64decode(line.base64, validate=True)
    return (line.text or "").encode("utf-8", "surrogatepass")


def frame_bytes(line: bytes) -> bytes:
    """Return the bytes of a frame from its line. This is fast if the line has the usual beginning.

    Raises: ValueError if the line has no frame.
    """
    json_offset = -1
    if line.startswith(_FRAME_START) and line.endswith(b"}\n"):
        json_offset = line.find(_JSON_MEMBER, 0, _MAX_HEAD_BYTES)
    return line_bytes(read_line(line)) if json_offset < 0 else line[json_offset + len(_JSON_MEMBER) : -2]


def line_frame(line: Line) -> Frame:
    """Return the frame in a line. The data of a large frame are cut as in memory."""
    data = line_bytes(line)
    size = len(data) if line.size is None else line.size
    end = b""
    if size > len(data):
        end = (line.end or "").encode()
    elif size > MAX_KEPT_BYTES:
        end = data[-END_BYTES:]
    direction = _DIRECTIONS.get(line.d, Direction.IN)
    return Frame(line.n, line.t, line.c, direction, data[:MAX_KEPT_BYTES], size, end, line.phases)


def read_back(line: bytes | None, read: Callable[[Line], Content]) -> Content | None:
    """Decode a line and apply `read` to it. Return None if the line is missing or has changed."""
    try:
        return None if line is None else read(read_line(line))
    except ValueError:
        return None


def json_start(head: bytes) -> int:
    """Return the offset of the frame in a line with this beginning, or 0 if the offset is unknown."""
    match = _LONG_HEAD.match(head)
    if match is None or not head.startswith(_JSON_MEMBER, match.end() - 1):
        return 0
    return match.end() - 1 + len(_JSON_MEMBER)


def long_frame(head: bytes, tail: bytes, size: int) -> Frame:
    """Return the frame in a long line, of which only the beginning and the end were read.

    `size` is the size of the line in bytes, with the line break. Raises: ValueError if the line has no JSON
    frame.
    """
    start = json_start(head)
    if not start or not tail.endswith(b"}\n"):
        raise ValueError("a long line without a JSON frame")
    line = read_line(head[: start - len(_JSON_MEMBER)] + b"}")
    data = beginning(head[start:], MAX_KEPT_BYTES)
    end = tail[:-2][-END_BYTES:]
    direction = _DIRECTIONS.get(line.d, Direction.IN)
    return Frame(line.n, line.t, line.c, direction, data, size - start - 2, end, line.phases)


MAX_GROUP_BYTES = 512 << 10
"""Maximum size in bytes of frames that are encoded together. Larger groups would delay other threads."""


class Group(Struct, gc=False, frozen=True):
    """Successive frames and their lines. The lines are in pieces, because large frames are not copied."""

    count: int
    pieces: Sequence[bytes]
    is_run: bool = False
    """True if the frames form a run: one line announces them, and the next lines have the frames."""


def can_be_run(frames: Sequence[bytes]) -> bool:
    """Return True if JSON frames can be stored as one value (a run): small frames without line breaks."""
    joined = b"".join(frames)
    if len(joined) > MAX_KEPT_BYTES and (
        len(joined) > MAX_GROUP_BYTES or max(map(len, frames)) > MAX_KEPT_BYTES
    ):
        return False
    return b"\n" not in joined


def in_one_group(entries: Sequence[Entry], unchecked: Container[int]) -> Iterator[Group]:
    """Yield one group for all successive frames that are not runs, if possible.

    All frames must be complete and small.
    """
    for _, same_type_entries in groupby(entries, type):
        successive_entries = list(same_type_entries)
        frames = [entry for entry in successive_entries if isinstance(entry, Frame)]
        if frames and (lines := frame_lines(frames, unchecked)):
            yield Group(len(frames), (lines,))
        else:
            yield from in_single_groups(successive_entries, unchecked, {})


def in_single_groups(
    entries: Sequence[Entry], unchecked: Container[int], complete_data: Mapping[int, bytes]
) -> Iterator[Group]:
    """Yield one group for each run and each frame.

    `complete_data` has the complete bytes of cut frames, by frame number.
    """
    for entry in entries:
        if isinstance(entry, FrameRun):
            yield Group(entry.count, run_pieces(entry), is_run=True)
        else:
            data = complete_data.get(entry.number, entry.data)
            yield Group(1, frame_pieces(entry, data, entry.number not in unchecked))
