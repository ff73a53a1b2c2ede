"""Recorded values: frames as they crossed a transport, connections, HTTP notes, gaps.

Everything else is derived from them on demand. Transports write to a `Recorder`; the index reads from a
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

KEPT_BYTES = 64 << 10
"""Maximum bytes of a frame that stay in memory."""
END_BYTES = 1 << 10
"""Bytes from the end of a larger frame that are kept in addition."""
MOST_REMARKS: Final = 20_000
"""Maximum remarks kept in memory or read from a capture; the first ones are kept.

As many further ones are kept if they say that the code of a call has ended; see `room_for`.
"""
TAPPED = 1
"""Number of the only connection that a tap records."""


LATEST: Final = 253_402_214_400
"""Unix time of the last day before the year 10000, the latest that `datetime` supports."""
Moment = Annotated[float, msgspec.Meta(ge=0, lt=LATEST)]
"""Unix time in seconds that `datetime` can represent."""
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
"""Non-negative integer up to 2**53."""


def beginning(data: bytes, most: int) -> bytes:
    """Return a copy of the first `most` bytes or fewer, without cutting a UTF-8 character."""
    stop = most
    if len(data) <= most:
        return data
    while most - stop < 3 and data[stop] & 0xC0 == 0x80:
        stop -= 1
    return bytes(memoryview(data)[:stop])


class Direction(IntEnum):
    """Direction of a frame as seen from the server: `IN` arrives from the peer, `OUT` goes to it."""

    IN = 0
    OUT = 1


class Frame(msgspec.Struct, gc=False, frozen=True):
    """A recorded frame. Not tracked by the garbage collector, so that a full ring causes no pauses."""

    number: int
    """Position in the capture, from 0, without gaps."""
    time: float
    """Unix time in seconds."""
    connection: int
    direction: Direction
    data: bytes
    """Bytes of the frame, cut to `KEPT_BYTES`; the capture file may have more."""
    size: int
    """Size of the whole frame in bytes."""
    end: bytes = b""
    """Last bytes of a frame that was cut."""
    phases: Phases | None = None
    """Times spent on this answer, if they were measured."""


class FrameRun(msgspec.Struct, gc=False, frozen=True):
    """Small frames that were recorded together, each a line of JSON, stored as one value."""

    number: int
    """Number of the first frame."""
    time: float
    connection: int
    direction: Direction
    data: bytes
    """Frames separated by newlines."""
    count: int
    phases: tuple[Phases | None, ...] = ()
    """Phases of each frame; empty if no frame has any."""

    @property
    def size(self) -> int:
        """Size of the frames in bytes."""
        return len(self.data) - self.count + 1

    def frames(self, start: int, stop: int) -> list[Frame]:
        """Return the frames with numbers from `start` up to `stop`."""
        first, phases = max(start, self.number), self.phases or (None,) * self.count
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
"""Unit of storage."""


class ConnectionInfo(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """A connection as the recorder knows it: a pipe, a session, or the client of sessionless POST requests.

    It is recorded again, with the same number, whenever the name of the peer or the revision becomes known.
    """

    number: Count
    server: str
    transport: str
    """`memory`, `http`, `stdio`, `unix`."""
    peer: str
    """Display name: `desk`, `claude-code 2.1`, or an address until the peer has sent its name."""
    revision: str
    opened: Moment
    closed: Moment | None = None
    principal: str = ""
    """Authenticated principal: `key`, or the subject of a token; never a key or token itself."""
    replica: str = ""
    """Replica with the connection, if a desk shows several."""


class HttpNote(msgspec.Struct, gc=False, frozen=True):
    """HTTP request or status line and headers around a frame. Secrets are masked on display.

    Frames with the same headers share one value. The usual answer to a POST, `200` with JSON and no other
    headers, is not noted.
    """

    line: str
    headers: tuple[tuple[str, str], ...]


FAULT: Final = "by the fault rule in line"
"""Part of `HeldMark.how` that occurs only for faults."""
BY_HAND: Final = "answered by hand"
BY_MOCK: Final = "answered from the capture"
"""Values of `HeldMark.how` for requests that were answered at the desk."""
_STOPPED = ("answered ", "dropped", "lost ", "refused ")
_UNANSWERED = ("dropped", "lost ")
_KIND = re.compile('"(method|result|error)"')
"""The first match in a message tells a request from an answer, unless its members are in an unusual order."""


class HeldMark(msgspec.Struct, gc=False, frozen=True):
    """Outcome of a request or answer that was held at the desk or met a fault there."""

    connection: Count
    direction: Direction
    """`IN` for a request, `OUT` for an answer."""
    id: int | str | float
    """Id of the request."""
    at: Moment
    """Unix time of the release in seconds."""
    held: float
    """Seconds for which the message was held."""
    how: str
    """`passed on`, `changed`, `dropped`, `answered by hand`, or the fault and its rule."""
    was: str = ""
    """Original message as JSON; empty if it was not changed."""
    now: str = ""
    """Replacement as JSON; empty if nothing replaced the message."""

    @property
    def is_end(self) -> bool:
        """True if the request ended at the desk, so that the server never received it."""
        return self.direction is Direction.IN and self.how.startswith(_STOPPED)

    @property
    def is_of_request(self) -> bool:
        """True if the original message, which must be known, was a request or a notification."""
        try:
            return "method" in msgspec.json.decode(self.was, type=dict[str, msgspec.Raw])
        except msgspec.MsgspecError:  # it was long, and only its beginning is kept
            found = _KIND.search(self.was)  # it was cut
            return found is not None and found[1] == "method"

    @property
    def leaves_no_answer(self) -> bool:
        """True if the request or its answer was dropped or lost at the desk, so that no answer follows."""
        return self.how.startswith(_UNANSWERED)


class CallLog(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """A line that the code of a call printed or logged, or its exception with the author's traceback."""

    connection: Count
    id: int | str
    """Id of the request."""
    time: Moment
    """Unix time in seconds."""
    level: str
    """Level as in the specification: debug, info, notice, warning, error, critical ..."""
    source: str
    """`print`, `stderr`, the name of a logger, or the tool that failed."""
    text: str
    where: str = ""
    """`tools/slow.py:14` if known."""

    @property
    def call(self) -> tuple[int, int | str]:
        """Connection and id of the request."""
        return self.connection, self.id


class RecordedRemark(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """A remark on a message or other output of a server."""

    connection: Count
    id: int | str | float | None
    """Id of the request; None if the remark belongs to no request."""
    time: Moment
    """Unix time in seconds."""
    remark: Remark
    is_question: bool = False
    """True if the request was sent by the server."""


def room_for(remark: RecordedRemark, most: int) -> int:
    """Return how many remarks may be kept before this one, if `most` are kept in general.

    The end of a call's code has more room: without it, a call whose start is kept would run for ever.
    """
    return 2 * most if remark.remark.kind == RemarkKind.CODE_ENDED else most


class Gap(msgspec.Struct, gc=False, frozen=True):
    """Frames that are missing in a capture."""

    before: int
    """Number of the frame after the gap."""
    frames: int
    """Number of missing frames."""
    why: str = ""


MOST_CONNECTIONS: Final = 20_000
"""Maximum connections of a running core that are remembered; those that closed first are forgotten."""
MOST_GAPS: Final = 1_000
"""Maximum gaps of a running recording that are listed separately."""


def add_gap(gaps: list[Gap], gap: Gap) -> None:
    """Append a gap; if there are too many, merge the oldest two."""
    gaps.append(gap)
    if len(gaps) > MOST_GAPS:
        gaps[:2] = [Gap(gaps[1].before, gaps[0].frames + gaps[1].frames, gaps[1].why)]


class CaptureHealth(msgspec.Struct, gc=False, frozen=True):
    """State of writing the capture file."""

    is_on: bool
    """True if a file should be written."""
    reason: str = ""
    """Reason why frames cannot be written now, without a path; empty if they can."""
    missing: int = 0
    """Number of frames that will never be in the file."""

    @property
    def state(self) -> str:
        """`off`, `writing` or `failing`."""
        if not self.is_on:
            return "off"
        return "failing" if self.reason else "writing"


class Recorder(Protocol):
    """Interface that transports write to. Every method is cheap, thread-safe and does no disk access."""

    def connect(self, info: ConnectionInfo) -> None:
        """Record a new connection, or new data of a known one."""

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
        """Record one frame and return its number. `data` is kept, so it must not be reused.

        `is_json` is True if this process encoded or decoded the frame as JSON. `at` is the Unix time of the
        frame; None means now. `phases` are the times spent on this answer. If the frame passed without being
        buffered, `data` is its beginning, `size` its total size in bytes, and `end` its last bytes.
        """

    def remark(self, remark: RecordedRemark) -> None:
        """Record a remark on output of a server."""

    def together(
        self,
        connection: int,
        direction: Direction,
        frames: Sequence[bytes],
        doubtful: Sequence[int] = (),
        note: HttpNote | None = None,
        phases: Mapping[int, Phases] | None = None,
    ) -> int:
        """Record frames of the same time and return the number of the first one.

        `doubtful` are ascending positions of frames that may not be JSON. `note` is for a single frame,
        `phases` are those of answers, by position.
        """


MOST_HELD: Final = 8 << 20
"""Maximum bytes of frames that are searched at once."""


class Source(Protocol):
    """Frames by number. Thread-safe for reading."""

    @property
    def count(self) -> int:
        """Number of frames recorded so far; their numbers are 0 up to `count`."""

    @property
    def first(self) -> int:
        """Oldest frame that may still be in memory or on disk."""

    @property
    def removed(self) -> int:
        """Number of frames at the beginning that were removed from disk to free space."""

    @property
    def connections(self) -> Mapping[int, ConnectionInfo]:
        """Latest data of every connection, by number."""

    def frame(self, number: int) -> Frame | None:
        """Return one frame with data cut to `KEPT_BYTES`; None if it is neither in memory nor on disk."""

    def frames(self, start: int, stop: int) -> Sequence[Frame | None]:
        """Return successive frames, with None for missing ones."""

    def whole(self, number: int) -> bytes:
        """Return all bytes of a frame, or as many as were kept."""

    def note(self, number: int) -> HttpNote | None:
        """Return the HTTP note of a frame, or None."""

    def data(self, start: int, stop: int) -> list[bytes]:
        """Return the bytes of successive frames, empty for missing ones.

        At most as many frames as hold `MOST_HELD` bytes are returned, but at least one.
        """

    @property
    def gaps(self) -> Sequence[Gap]:
        """Gaps of frames that have no numbers, in ascending order."""

    @property
    def marks(self) -> Sequence[HeldMark]:
        """Outcomes of held messages. The sequence only grows."""

    @property
    def remarks(self) -> Sequence[RecordedRemark]:
        """First `MOST_REMARKS` remarks, oldest first. The sequence only grows."""

    @property
    def remarks_left_out(self) -> int:
        """Number of later remarks that are not kept."""


def up_to_most(pieces: Iterable[bytes]) -> list[bytes]:
    """Return the first pieces, up to a total of `MOST_HELD` bytes."""
    held, found = 0, list[bytes]()
    for piece in pieces:
        found.append(piece)
        held += len(piece)
        if held >= MOST_HELD:
            break
    return found
