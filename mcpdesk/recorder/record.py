"""The recorded values: frames as they crossed a transport, connections, HTTP notes, gaps.

Everything else is derived from them when somebody looks. `Recorder` is what a transport is given,
and `Source` what the index reads from.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Annotated, Any, Final, Protocol, TypeAlias

import msgspec

from mcpdesk.protocol.jsonrpc import Id
from mcpdesk.protocol.phases import Phases
from mcpdesk.protocol.reading.remark import Remark

KEPT_BYTES = 64 << 10
"""At most so many bytes of a frame stay in memory."""
END_BYTES = 1 << 10
"""Bytes of the end of a larger frame that stay beside them."""
MOST_REMARKS: Final = 20_000
"""Remarks that are kept in memory, or read from a capture; the first ones."""
TAPPED = 1
"""The number of the one connection that a tap records."""


LATEST: Final = 253_402_214_400
"""Unix time of the last day before the year 10000: no calendar here goes further."""
Moment = Annotated[float, msgspec.Meta(ge=0, lt=LATEST)]
"""Unix time in seconds that a calendar has."""
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
"""A number that fits in every table."""


def beginning(data: bytes, most: int) -> bytes:
    """A copy of the first bytes, cut between two characters."""
    stop = most
    if len(data) <= most:
        return data
    while most - stop < 3 and data[stop] & 0xC0 == 0x80:
        stop -= 1
    return bytes(memoryview(data)[:stop])


class Direction(IntEnum):
    """Seen from the hosted server: `IN` arrives from the peer, `OUT` leaves for it."""

    IN = 0
    OUT = 1


class Frame(msgspec.Struct, gc=False, frozen=True):
    """One frame. Never tracked by the garbage collector, so that a full ring costs no pauses."""

    number: int
    """Position in the capture, from 0, without gaps."""
    time: float
    """Unix time in seconds."""
    connection: int
    direction: Direction
    data: bytes
    """The frame's bytes, cut to `KEPT_BYTES`; the capture file may hold more."""
    size: int
    """Length of the whole frame in bytes."""
    end: bytes = b""
    """The last bytes of a frame that was cut."""
    phases: Phases | None = None
    """Where the time went until this answer, if it was measured."""


class FrameRun(msgspec.Struct, gc=False, frozen=True):
    """Small frames recorded together, each JSON in one line: one value for all of them."""

    number: int
    """The first one's."""
    time: float
    connection: int
    direction: Direction
    data: bytes
    """The frames, with a newline between any two."""
    count: int
    phases: tuple[Phases | None, ...] = ()
    """Those of each frame; empty when there are none at all."""

    @property
    def size(self) -> int:
        """Length of the frames in bytes."""
        return len(self.data) - self.count + 1

    def frames(self, start: int, stop: int) -> list[Frame]:
        """The frames whose numbers are from `start` up to `stop`."""
        first, phases = max(start, self.number), self.phases or (None,) * self.count
        return [
            Frame(
                number, self.time, self.connection, self.direction, data, len(data),
                phases=phases[number - self.number],
            )
            for number, data in enumerate(self.split(start, stop), first)
        ]  # fmt: skip

    def split(self, start: int, stop: int) -> list[bytes]:
        """The bytes of these frames."""
        return self.data.split(b"\n")[max(0, start - self.number) : max(0, stop - self.number)]


Entry: TypeAlias = Frame | FrameRun
"""What is kept as one value."""


class ConnectionInfo(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """One connection (a pipe, a session, or one sessionless POST's client) as the recorder knows it.

    Recorded anew, with the same number, whenever something more is known: the peer's name, the revision.
    """

    number: Count
    server: str
    transport: str
    """`memory`, `http`, `stdio`, `unix`."""
    peer: str
    """Display name: `desk`, `claude-code 2.1`, or an address until the peer has told its name."""
    revision: str
    opened: Moment
    closed: Moment | None = None
    principal: str = ""
    """Who opened it, where that was proved: `key`, or the subject of a token. Never a key or a token."""
    replica: str = ""
    """Of several machines that a desk looks at, the one it was opened to."""


class HttpNote(msgspec.Struct, gc=False, frozen=True):
    """Request or status line and headers of HTTP around a frame. Secrets are masked when they are shown.

    Frames whose headers repeat share one value. An answer to a POST that was `200` with JSON and nothing else
    is not noted: it is the usual one.
    """

    line: str
    headers: tuple[tuple[str, str], ...]


FAULT: Final = "by the fault rule in line"
"""What `HeldMark.how` says of faults, and of nothing else."""
BY_HAND: Final = "answered by hand"
BY_MOCK: Final = "answered from the capture"
"""What `HeldMark.how` says of requests that were answered at the desk."""
_STOPPED = ("answered ", "dropped", "lost ", "refused ")


class HeldMark(msgspec.Struct, gc=False, frozen=True):
    """What became of a request, or of its answer, that was held at the desk or met a fault there."""

    connection: Count
    direction: Direction
    """`IN` for a request, `OUT` for an answer."""
    id: int | str | float
    """That of the request."""
    at: Moment
    """When it was let go, Unix time in seconds."""
    held: float
    """For how many seconds it was held."""
    how: str
    """`passed on`, `changed`, `dropped`, `answered by hand`, or which fault it met by which rule."""
    was: str = ""
    """The message before, as JSON; empty if it was not changed."""
    now: str = ""
    """What took its place; empty if nothing did."""

    @property
    def is_end(self) -> bool:
        """Whether a request ended at the desk, answered or not: the server never saw it."""
        return self.direction is Direction.IN and self.how.startswith(_STOPPED)


class CallLog(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """A line that the code of a call printed or logged, or what it raised, with the author's traceback."""

    connection: Count
    id: int | str
    """That of the request."""
    time: Moment
    """Unix time in seconds."""
    level: str
    """As of the specification: debug, info, notice, warning, error, critical ..."""
    source: str
    """`print`, `stderr`, a logger's name, or the tool that failed."""
    text: str
    where: str = ""
    """`tools/slow.py:14` where known."""

    @property
    def call(self) -> tuple[int, int | str]:
        """Connection and id of the request."""
        return self.connection, self.id


class RecordedRemark(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """A remark on what a server sent: on its answer to a request, or on its output."""

    connection: Count
    id: int | str | float | None
    """That of the request; None if the remark is about no request."""
    time: Moment
    """Unix time in seconds."""
    remark: Remark
    is_question: bool = False
    """Whether the request is one of the server."""


class Gap(msgspec.Struct, gc=False, frozen=True):
    """Frames that are missing in a capture."""

    before: int
    """The number of the frame that follows them."""
    frames: int
    """How many they are."""
    why: str = ""


MOST_CONNECTIONS: Final = 20_000
"""Connections of a running core that are remembered; the longest closed are forgotten first."""
MOST_GAPS: Final = 1_000
"""Gaps of a running recording that are told apart."""


def keep_gap(gaps: list[Gap], gap: Gap) -> None:
    """Append a gap; of too many, the oldest two become one."""
    gaps.append(gap)
    if len(gaps) > MOST_GAPS:
        gaps[:2] = [Gap(gaps[1].before, gaps[0].frames + gaps[1].frames, gaps[1].why)]


class CaptureHealth(msgspec.Struct, gc=False, frozen=True):
    """Whether what is recorded reaches a file."""

    is_on: bool
    """Whether there is to be a file."""
    reason: str = ""
    """Why nothing can be written at present, without any path; empty when it can."""
    missing: int = 0
    """Frames that are not in the file and will never be."""

    @property
    def state(self) -> str:
        """`off`, `writing` or `failing`."""
        if not self.is_on:
            return "off"
        return "failing" if self.reason else "writing"


class Recorder(Protocol):
    """What a transport is given. Every method is cheap, thread-safe and touches no disk."""

    def connect(self, info: ConnectionInfo) -> None:
        """Announce a connection, or what more is known of it."""

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
        """Record one frame and return its number. `data` is kept: hand over bytes nobody reuses.

        `is_json` says that it was encoded or decoded as JSON by us; `at` is when it came or left, in seconds
        of Unix time, None: now; `phases` where the time until this answer went. Of one that passed without
        being held, `data` is the beginning, `size` all its bytes, and `end` the last ones.
        """

    def remark(self, remark: RecordedRemark) -> None:
        """Record a remark on what a server sent."""

    def together(
        self,
        connection: int,
        direction: Direction,
        frames: Sequence[bytes],
        doubtful: Sequence[int] = (),
        note: HttpNote | None = None,
        phases: Mapping[int, Phases] | None = None,
    ) -> int:
        """Record frames that came or left at one time and return the first one's number.

        Those whose places are `doubtful`, in order, are not known to be JSON. `note` is for a single frame,
        `phases` are those of answers, by their places.
        """


class MessageLine(Protocol):
    """What a server sends about one request, or about none; each message waits behind the one before it."""

    @property
    def is_moving(self) -> bool:
        """Whether something waits."""

    def put(self, message: bytes) -> None:
        """Deliver one message, or let it wait."""

    async def all_gone(self) -> None:
        """Wait until nothing is held any more."""

    def close(self) -> None:
        """Nobody waits for what is held."""


class ExchangeHolds(Protocol):
    """Where messages to servers that are not ours, and what those send, wait for a person."""

    @property
    def is_on(self) -> bool:
        """Whether something is to be held."""

    @property
    def holds_answers(self) -> bool:
        """Whether answers are to be held."""

    async def hold_request(
        self, connection: int, message: dict[str, Any], in_session: bool = False
    ) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        """The request to pass on, or None and the answer to give in its stead; twice None: it was dropped.

        Raises: SessionLost for one `in_session` that is to be refused as if that were gone.
        """

    async def hold_answer(
        self, connection: int, request: dict[str, Any], came: float, answer: dict[str, Any]
    ) -> dict[str, Any] | None:
        """The answer to give to a request that came at a Unix time; None: it was dropped.

        Raises: AnswerCut, when the connection is to break in the middle of it.
        """

    async def hold_told(self, connection: int, message: dict[str, Any]) -> dict[str, Any] | None:
        """A notification of a client, or its reply to a question, as it is to go on; None: it was dropped."""

    async def hold_sent(
        self,
        connection: int,
        data: bytes,
        answer: Callable[[dict[str, Any]], Awaitable[object]],
        of: Id | None = None,
    ) -> bytes | None:
        """What a server is to send about the request `of` in the place of a message; None: nothing.

        `answer` takes what a person answered in the client's stead.
        """

    def line(
        self,
        connection: int,
        deliver: Callable[[bytes], object],
        answer: Callable[[dict[str, Any]], Awaitable[object]],
        of: Id | None = None,
    ) -> MessageLine:
        """The same for messages that come without being waited for; `deliver` gets what is to be sent."""

    async def lose(self, connection: int) -> None:
        """Wait until the client of a connection has left: it gets no answer."""

    def forget(self, connection: int) -> None:
        """A connection ended: nobody waits for its messages."""


class FollowedExchange(Protocol):
    """A message on its way to a server that is not ours, and what comes back with it."""

    def came_back(self, message: object) -> None:
        """The server sent a message with it."""

    def over(self, status: int, may_go_on: bool) -> None:
        """Nothing more comes with it: HTTP `status`, 0 when it broke off.

        `may_go_on`: the client can come back for the answers that are missing.
        """


class ExchangeWatch(Protocol):
    """Follows what passes to and from servers that are not ours. Must be quick, and never raise."""

    def follow(
        self, info: ConnectionInfo, message: object, headers: Mapping[str, str] | None = None
    ) -> FollowedExchange:
        """A client sends a message or a batch, or None: it only listens."""

    def ask(self, info: ConnectionInfo, request: dict[str, Any]) -> tuple[dict[str, Any], FollowedExchange]:
        """The desk sends a request: what it sends, with a trace unless it has one."""

    def came_back(self, info: ConnectionInfo, message: object) -> None:
        """A server sent a message; it is not known what it came with."""

    def left(self, connection: int) -> None:
        """A client is gone, and so is what it waits for."""


MOST_HELD: Final = 8 << 20
"""Bytes of frames that are looked through at once."""


class Source(Protocol):
    """Frames by number. Safe to read from any thread."""

    @property
    def count(self) -> int:
        """Frames recorded so far; numbers run from 0 up to it."""

    @property
    def first(self) -> int:
        """The oldest frame that may still be in memory or on disk."""

    @property
    def removed(self) -> int:
        """Frames at the beginning that were removed from the disk to make room."""

    @property
    def connections(self) -> Mapping[int, ConnectionInfo]:
        """The latest of every connection, by number."""

    def frame(self, number: int) -> Frame | None:
        """One frame, its data cut to `KEPT_BYTES`; None when it is neither in memory nor on disk."""

    def frames(self, start: int, stop: int) -> Sequence[Frame | None]:
        """Successive frames; None for those that are gone."""

    def whole(self, number: int) -> bytes:
        """All bytes of a frame, or as many as were kept."""

    def note(self, number: int) -> HttpNote | None:
        """What HTTP said around a frame."""

    def data(self, start: int, stop: int) -> list[bytes]:
        """The bytes of successive frames, empty for those that are gone.

        Of all frames up to `stop`, or of as many as hold `MOST_HELD`; always of one at least.
        """

    @property
    def gaps(self) -> Sequence[Gap]:
        """Where frames are missing that have no numbers, rising."""

    @property
    def marks(self) -> Sequence[HeldMark]:
        """What became of messages that were held; it only ever grows."""

    @property
    def remarks(self) -> Sequence[RecordedRemark]:
        """The first `MOST_REMARKS` remarks on what servers sent, oldest first; it only ever grows."""

    @property
    def remarks_left_out(self) -> int:
        """Number of later remarks, which are not kept."""


def up_to_most(pieces: Iterable[bytes]) -> list[bytes]:
    """The first of some pieces, until they hold `MOST_HELD` bytes together."""
    held, found = 0, list[bytes]()
    for piece in pieces:
        found.append(piece)
        held += len(piece)
        if held >= MOST_HELD:
            break
    return found
