"""Messages between a core and an attached screen, over a Unix socket.

Each message is its length in four bytes, followed by a msgspec struct encoded as MessagePack. A program that
connects (a visitor) sends `Join` to attach a screen, or an empty message to receive only the core's metadata.
The core replies with a `Welcome`. After a `Join`, the core sends changes of its state, and the screen sends
requests. The types of arguments and results are those of `Link`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from mcpdesk.features import features_with
from mcpdesk.link.feature_part import FeaturePart, Intent
from mcpdesk.link.link import INTENTS, SNAPSHOTS
from mcpdesk.link.values import CallOutcome, Catalogue, ClientDetail, CoreView, LogLine, Notice, Progress
from mcpdesk.link.welcome import Welcome as Welcome
from mcpdesk.recorder.record import ConnectionInfo, Frame, HeldMark, HttpNote, RecordedRemark

PREFIX_BYTES: Final = 4
"""Size in bytes of the length prefix."""
WELCOME_REQUEST: Final = bytes(PREFIX_BYTES)
"""Empty message, with which a visitor requests only a `Welcome`."""
MAX_MESSAGE_BYTES: Final = 256 << 20
"""Maximum size of a message in bytes."""


class Join(Struct, frozen=True, tag=True):
    """Request to attach a screen."""

    mcpdesk: str
    viewers: int = 1
    """Number of people who can answer questions there. With 0, the screen only reads, and does not count as
    use of the core.
    """


class Ask(Struct, frozen=True, tag=True):
    """Call of a method in `METHODS`. The arguments are in the order of the method's parameters."""

    id: int
    method: str
    arguments: Raw


class Reply(Struct, frozen=True, tag=True):
    """Result of an `Ask`: either a value or an error."""

    id: int
    value: Raw = Raw(b"\xc0")
    """Encoded value. The default is null."""
    error: str = ""
    is_value_error: bool = False
    """True if the method raised ValueError."""


class CallUpdate(Struct, frozen=True, tag=True):
    """Change of a call that the screen made. The last change of a call has an outcome."""

    id: int
    connection: int
    request_id: int
    progress: Progress | None
    logs: tuple[str, ...]
    """Log messages since the previous change."""
    outcome: CallOutcome | None = None


class State(Struct, frozen=True, tag=True):
    """Current value of a part in `PARTS`. `key` is the server or client that the part belongs to, if any."""

    part: str
    key: str
    value: Raw


class TrafficBatch(Struct, frozen=True, tag=True):
    """New or changed connections, and the frames that follow the previous batch."""

    connections: tuple[ConnectionInfo, ...]
    frames: tuple[Frame, ...] = ()
    notes: dict[int, HttpNote] = {}
    """HTTP metadata by frame number."""
    missed: int = 0
    """Number of frames before this batch that the core did not send."""
    why: str = ""
    marks: tuple[HeldMark, ...] = ()
    first_mark: int = 0
    """Position of the first element of `marks` among all marks of the core.

    After a reconnection, all marks are sent again.
    """
    remarks: tuple[RecordedRemark, ...] = ()
    first_remark: int = 0
    """Position of the first element of `remarks` among all remarks of the core."""
    remarks_left_out: int = 0
    """Total number of remarks that the core did not keep."""


FromCore: TypeAlias = Reply | CallUpdate | State | TrafficBatch
FromScreen: TypeAlias = Join | Ask

FEATURE_PARTS: Final[dict[str, type[FeaturePart]]] = {
    kind.part_name: kind for feature in features_with("link_parts") for kind in feature.link_parts()
}
"""Classes of the states of features, by name of the part."""
PARTS: Final[dict[str, Any]] = {
    "view": CoreView,
    "catalogue": Catalogue,
    "watched": dict[str, int],
    "client": ClientDetail | None,
    "logs": list[LogLine],
    "notices": list[Notice],
    **{name: each.hints["return"] for name, each in SNAPSHOTS.items()},
    **FEATURE_PARTS,
}
"""Types of the parts in a `State`, by name of the part."""


class AskCodec:
    """Decoders for the arguments of an `Ask` and for the value of its `Reply`."""

    def __init__(self, arguments: Any, result: Any) -> None:
        """Create decoders; `arguments` is the type of a tuple."""
        self.arguments: msgspec.msgpack.Decoder[tuple[Any, ...]] = msgspec.msgpack.Decoder(arguments)
        self.result: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(result)


_FEATURE_INTENTS = tuple(intent for kind in FEATURE_PARTS.values() for intent in kind.intents)
METHODS: Final[dict[str, AskCodec]] = {
    **{name: AskCodec(each.parameters, each.result) for name, each in INTENTS.items()},
    "do": AskCodec(tuple.__class_getitem__((reduce(or_, _FEATURE_INTENTS or (Intent,)),)), bool | int | str),
    "request": AskCodec(tuple[str, str, dict[str, Any]], None),
    "cancel": AskCodec(tuple[int], None),  # `int`: id of a request
    "look": AskCodec(tuple[int], None),  # send details of a client; `int`: its connection
    "frame_bytes": AskCodec(tuple[int], bytes),  # return all bytes of a frame
    "ping": AskCodec(tuple[()], None),  # check that the core answers
}
"""Methods that a screen may call, by name."""
_encoder = msgspec.msgpack.Encoder()


def pack(value: Any) -> Raw:
    """Encode a value for a message. Characters that UTF-8 cannot represent are replaced."""
    try:
        return Raw(_encoder.encode(value))
    except (UnicodeEncodeError, OverflowError):
        return Raw(_encoder.encode(_sendable(msgspec.to_builtins(value, builtin_types=(bytes,)))))


def _sendable(value: Any) -> Any:
    """Replace characters that UTF-8 cannot represent, and convert very large integers to floats."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, int):
        return value if -(1 << 63) <= value < 1 << 64 else float(value)
    if isinstance(value, dict):
        return {_sendable(key): _sendable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_sendable(item) for item in value]
    return value


def framed(message: Struct) -> bytes:
    """Encode a message and its length prefix."""
    body = bytes(pack(message))
    return len(body).to_bytes(PREFIX_BYTES, "big") + body


def length(prefix: bytes) -> int:
    """Decode a length prefix. Raises: ValueError if the message is too long."""
    size = int.from_bytes(prefix, "big")
    if size > MAX_MESSAGE_BYTES:
        raise ValueError(f"a message of {size:,} bytes")
    return size


def read_message(read: Callable[[int], bytes]) -> bytes:
    """Read one message.

    `read(n)` returns `n` bytes, or fewer at the end. Raises: EOFError at the end; ValueError for an invalid
    message; OSError.
    """
    prefix = read(PREFIX_BYTES)
    body = read(length(prefix)) if len(prefix) == PREFIX_BYTES else b""
    if len(prefix) < PREFIX_BYTES or len(body) < length(prefix):
        raise EOFError("the other side disconnected")
    return body
