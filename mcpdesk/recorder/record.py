"""Recorded values: frames as a transport carried them, connections, HTTP metadata, and gaps.

Everything else is computed from them on demand. Transports write to a `Recorder`; the index reads from a
`Source`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Annotated, Final, Protocol, TypeAlias

import msgspec

from mcpdesk.protocol.phases import Phases
from mcpdesk.protocol.reading.remark import Remark, RemarkKind

MAX_KEPT_BYTES = 64 << 10
"""Maximum number of bytes at the beginning of a frame that stay in memory."""
END_BYTES = 1 << 10
"""Number of bytes at the end of a frame that stay in memory as well, if the frame is larger than
`MAX_KEPT_BYTES`."""
MAX_REMARKS: Final = 20_000
"""Maximum number of remarks in memory or read from a capture. Later remarks are not stored.

Remarks that report the end of a call's code have a limit twice as high; see `remark_limit`.
"""


LATEST: Final = 253_402_214_400
"""Unix time of the last day before the year 10000. `datetime` supports no later time."""
Moment = Annotated[float, msgspec.Meta(ge=0, lt=LATEST)]
"""Unix time in seconds that `datetime` can represent."""
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
"""Non-negative integer up to 2**53."""


def beginning(data: bytes, max_bytes: int) -> bytes:
    """Return at most the first `max_bytes` bytes of `data`, without cutting a UTF-8 character."""
    if len(data) <= max_bytes:
        return data
    stop = max_bytes
    while max_bytes - stop < 3 and data[stop] & 0xC0 == 0x80:
        stop -= 1
    return bytes(memoryview(data)[:stop])


class Direction(IntEnum):
    """Direction of a frame, as seen from the server. `IN` comes from the peer, `OUT` goes to it."""

    IN = 0
    OUT = 1


class Frame(msgspec.Struct, gc=False, frozen=True):
    """Recorded frame. The garbage collector does not track it, so a large number causes no pauses."""

    number: int
    """Number of the frame in the capture, from 0, without gaps."""
    time: float
    """Unix time in seconds."""
    connection: int
    direction: Direction
    data: bytes
    """Bytes of the frame, at most `MAX_KEPT_BYTES`. The capture file may have more."""
    size: int
    """Size of the complete frame in bytes."""
    end: bytes = b""
    """Last bytes of the frame, if it was cut."""
    phases: Phases | None = None
    """Time that each phase of this answer took, if measured."""


class FrameRun(msgspec.Struct, gc=False, frozen=True):
    """Small frames that were recorded together and are stored as one value. Each is one line of JSON."""

    number: int
    """Number of the first frame."""
    time: float
    connection: int
    direction: Direction
    data: bytes
    """Frames, separated by line breaks."""
    count: int
    phases: tuple[Phases | None, ...] = ()
    """Phases of each frame, or an empty tuple if no frame has any."""

    @property
    def size(self) -> int:
        """Size of the frames in bytes."""
        return len(self.data) - self.count + 1

    def frames(self, start: int, stop: int) -> list[Frame]:
        """Return the frames with numbers from `start` up to `stop`."""
        first = max(start, self.number)
        phases = self.phases or (None,) * self.count
        return [
            Frame(
                number, self.time, self.connection, self.direction, data, len(data),
                phases=phases[number - self.number],
            )
            for number, data in enumerate(self.split(start, stop), first)
        ]  # fmt: skip

    def split(self, start: int, stop: int) -> list[bytes]:
        """Return the bytes of the frames with numbers from `start` up to `stop`."""
        return self.data.split(b"\n")[max(0, start - self.number) : max(0, stop - self.number)]


Entry: TypeAlias = Frame | FrameRun
"""Unit of storage for frames."""


class ConnectionInfo(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """Connection, as the recorder knows it: a pipe, a session, or a client that sends requests without a
    session.

    It is recorded again under the same number when the name of the peer or the revision becomes known.
    """

    number: Count
    server: str
    transport: str
    """`memory`, `http`, `stdio`, `unix`, or `app` for the app of a server in the browser."""
    peer: str
    """Display name such as `desk` or `claude-code 2.1`. An address until the peer has sent its name."""
    revision: str
    opened: Moment
    closed: Moment | None = None
    principal: str = ""
    """Authenticated principal: `key`, or the subject of a token. Never a key or token itself."""
    core: str = ""
    """Core that has the connection, if the desk shows several."""


class HttpNote(msgspec.Struct, gc=False, frozen=True):
    """Request or status line, and headers, of a frame over HTTP. Secrets are masked when shown.

    Frames with equal headers share one object. The usual answer to a POST (status 200, JSON, no other
    headers) is not recorded.
    """

    line: str
    headers: tuple[tuple[str, str], ...]


FAULT: Final = "by the fault rule in line"
"""Text that is part of `HeldMark.how` only if a fault rule applied."""
BY_HAND: Final = "answered by hand"
"""End of `HeldMark.how` for requests that a person answered at the desk."""
BY_MOCK: Final = "answered from the capture"
"""Value of `HeldMark.how` for requests that the desk answered from a capture."""
_STOPPED_WORDS = ("answered ", "dropped", "lost ", "refused ")
"""Beginnings of `HeldMark.how` for requests that did not reach the server."""
_UNANSWERED_WORDS = ("dropped", "lost ")
"""Beginnings of `HeldMark.how` for requests and answers that were not passed on."""
_KIND_MEMBER = re.compile('"(method|result|error)"')
"""Pattern for a member that only requests or only answers have.

The first match decides, if members are in the usual order.
"""


class HeldMark(msgspec.Struct, gc=False, frozen=True):
    """Decision about a request or answer that was held at the desk or got a fault."""

    connection: Count
    direction: Direction
    """`IN` for a request, `OUT` for an answer."""
    id: int | str | float
    """Id of the request, or method of a notification."""
    at: Moment
    """Unix time in seconds of the decision."""
    held: float
    """Seconds for which the message was held."""
    how: str
    """`passed on`, `changed`, `dropped`, `answered by hand`, or the fault and its rule."""
    was: str = ""
    """Original message as JSON, or "" if it was not changed."""
    now: str = ""
    """Replacement as JSON, or "" if the message was not replaced."""

    @property
    def is_end(self) -> bool:
        """True if the server never received the request, because it ended at the desk."""
        return self.direction is Direction.IN and self.how.startswith(_STOPPED_WORDS)

    @property
    def is_of_request(self) -> bool:
        """True if the original message was a request or a notification.

        Call it only if `was` is not empty.
        """
        try:
            return "method" in msgspec.json.decode(self.was, type=dict[str, msgspec.Raw])
        except msgspec.MsgspecError:  # the message was cut, because it is long
            match = _KIND_MEMBER.search(self.was)
            return match is not None and match[1] == "method"

    @property
    def leaves_no_answer(self) -> bool:
        """True if no answer follows, because the desk dropped or lost the request or the answer."""
        return self.how.startswith(_UNANSWERED_WORDS)


class CallLog(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """Line that the code of a call printed or logged, or its exception with a traceback."""

    connection: Count
    id: int | str
    """Id of the request."""
    time: Moment
    """Unix time in seconds."""
    level: str
    """Level of the MCP specification: debug, info, notice, warning, error, critical and others."""
    source: str
    """`print`, `stderr`, the name of a logger, or the tool that failed."""
    text: str
    where: str = ""
    """Source line such as `tools/slow.py:14`, if known."""

    @property
    def call(self) -> tuple[int, int | str]:
        """Connection and id of the request."""
        return self.connection, self.id


class RecordedRemark(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """Remark on a message or other output of a server."""

    connection: Count
    id: int | str | float | None
    """Id of the request, or None if the remark belongs to no request."""
    time: Moment
    """Unix time in seconds."""
    remark: Remark
    is_question: bool = False
    """True if the server sent the request."""


def remark_limit(remark: RecordedRemark, usual_limit: int) -> int:
    """Return the maximum number of stored remarks with which this remark may still be added.

    A remark on the end of a call's code has a higher limit than `usual_limit`. Without this remark, the call
    would seem to run forever.
    """
    return 2 * usual_limit if remark.remark.kind == RemarkKind.CODE_ENDED else usual_limit


class Gap(msgspec.Struct, gc=False, frozen=True):
    """Gap of missing frames in a capture."""

    before: int
    """Number of the frame after the gap."""
    frames: int
    """Number of missing frames."""
    why: str = ""


MAX_CONNECTIONS: Final = 20_000
"""Maximum number of connections of a running core that are remembered.

The connections that closed first are forgotten.
"""
MAX_GAPS: Final = 1_000
"""Maximum number of gaps of a running recording that are listed separately."""


def add_gap(gaps: list[Gap], gap: Gap) -> None:
    """Append a gap. If there are too many, merge the two oldest."""
    gaps.append(gap)
    if len(gaps) > MAX_GAPS:
        gaps[:2] = [Gap(gaps[1].before, gaps[0].frames + gaps[1].frames, gaps[1].why)]


class CaptureHealth(msgspec.Struct, gc=False, frozen=True):
    """State of the capture file."""

    is_on: bool
    """True if a file is to be written."""
    reason: str = ""
    """Reason why frames cannot be written now, without a path, or "" if they can."""
    missing: int = 0
    """Number of frames that will never be in the file."""

    @property
    def state(self) -> str:
        """`off`, `writing` or `failing`."""
        if not self.is_on:
            return "off"
        return "failing" if self.reason else "writing"


class Recorder(Protocol):
    """Interface through which transports record. Methods are fast, thread-safe and do not access the disk."""

    def connect(self, info: ConnectionInfo) -> None:
        """Record a new connection, or new data of a connection."""

    def frame(
        self,
        connection: int,
        direction: Direction,
        data: bytes,
        is_json: bool = False,
        note: HttpNote | None = None,
        at: float | None = None,
        phases: Phases | None = None,
        size: int = 0,
        end: bytes = b"",
    ) -> int:
        """Record one frame and return its number. `data` is stored, so the caller must not change it.

        `is_json` is True if this process encoded or decoded the frame as JSON. `at` is the Unix time; None
        means now. `phases` has the time that each phase of this answer took. If the frame was not kept as a
        whole, `data` is its beginning, `size` its total size in bytes, and `end` its last bytes.
        """

    def remark(self, remark: RecordedRemark) -> None:
        """Record a remark on a message of a server."""

    def frame_batch(
        self,
        connection: int,
        direction: Direction,
        frames: Sequence[bytes],
        unchecked: Sequence[int] = (),
        note: HttpNote | None = None,
        phases: Mapping[int, Phases] | None = None,
    ) -> int:
        """Record frames of the same time, and return the number of the first one.

        `unchecked` has the positions, in ascending order, of frames that may not be JSON. `note` may only be
        given with one frame. `phases` has the phases of answers, by position.
        """


MAX_SEARCH_BYTES: Final = 8 << 20
"""Maximum size in bytes of frames that are searched together."""


class Source(Protocol):
    """Frames by number. Thread-safe for reading."""

    @property
    def count(self) -> int:
        """Number of frames recorded so far. Their numbers start at 0."""

    @property
    def first(self) -> int:
        """Number of the oldest frame that may still be in memory or on disk."""

    @property
    def removed(self) -> int:
        """Number of frames at the beginning that were removed from disk to free space."""

    @property
    def connections(self) -> Mapping[int, ConnectionInfo]:
        """Latest data of each connection, by number."""

    def frame(self, number: int) -> Frame | None:
        """Return one frame, with data cut to `MAX_KEPT_BYTES`, or None if it is neither in memory nor on
        disk.
        """

    def frames(self, start: int, stop: int) -> Sequence[Frame | None]:
        """Return successive frames. None for each missing one."""

    def frame_bytes(self, number: int) -> bytes:
        """Return all bytes of a frame, or only the bytes that are still available."""

    def note(self, number: int) -> HttpNote | None:
        """Return the HTTP metadata of a frame, or None."""

    def data(self, start: int, stop: int) -> list[bytes]:
        """Return the bytes of successive frames. A missing frame has empty bytes.

        The result has at least one frame, and otherwise at most `MAX_SEARCH_BYTES` bytes in total.
        """

    @property
    def gaps(self) -> Sequence[Gap]:
        """Gaps of missing frames to which no numbers were given, in ascending order."""

    @property
    def marks(self) -> Sequence[HeldMark]:
        """Decisions about held messages. The sequence only grows."""

    @property
    def remarks(self) -> Sequence[RecordedRemark]:
        """First `MAX_REMARKS` remarks, oldest first. The sequence only grows."""

    @property
    def remarks_left_out(self) -> int:
        """Number of remarks after these, which are not stored."""


def within_search_limit(pieces: Iterable[bytes]) -> list[bytes]:
    """Return the first pieces, with a total of at most `MAX_SEARCH_BYTES` bytes."""
    size, frames = 0, list[bytes]()
    for piece in pieces:
        frames.append(piece)
        size += len(piece)
        if size >= MAX_SEARCH_BYTES:
            break
    return frames
