"""What a core and a screen attached to it say to each other over a Unix socket of their user.

A message is its length in four bytes and a msgspec struct as MessagePack. A visitor begins with `Join`, or
with an empty message if it only wants to know what runs; the core greets it with a `Welcome`. Then the core
sends what changed, and the screen asks. The tables here serve both sides: the types of arguments and results
are those of `Link`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, get_type_hints

import msgspec
from msgspec import Raw, Struct

from mcpdesk.link.link import Link
from mcpdesk.link.values import CallOutcome, Catalogue, ClientDetail, LogLine, Notice, Progress
from mcpdesk.recorder.record import ConnectionInfo, Frame, HeldMark, HttpNote, RecordedRemark

HEAD: Final = 4
"""Bytes of a message's length."""
GREET_ME: Final = bytes(HEAD)
"""The empty message."""
LONGEST: Final = 256 << 20
"""Bytes of the longest message; more is no message of ours."""


class Welcome(Struct, frozen=True, kw_only=True):
    """The first thing a core says, to a visitor of any version."""

    mcpdesk: str
    """Its version."""
    pid: int
    kind: str
    """The command it was started with: `desk`, `serve`, `stdio`."""
    names: tuple[str, ...] = ()
    """Of its servers."""
    since: float = 0.0
    """Unix time at which it began."""
    address: str = ""
    """Where clients reach its first server; empty while nothing listens."""
    secret_headers: frozenset[str] = frozenset()
    """Names of headers to mask besides those known to be secret."""

    @property
    def title(self) -> str:
        """How to speak of it: `serve hello (pid 4711)`."""
        return f"{self.kind} {' '.join(self.names)} (pid {self.pid})"


class Join(Struct, frozen=True, tag=True):
    """A screen stays."""

    mcpdesk: str


class Ask(Struct, frozen=True, tag=True):
    """A method of `METHODS`, with its arguments in order."""

    id: int
    method: str
    arguments: Raw


class Reply(Struct, frozen=True, tag=True):
    """What came of an `Ask`: a value, or why there is none."""

    id: int
    value: Raw = Raw(b"\xc0")
    error: str = ""
    is_value_error: bool = False


class CallNews(Struct, frozen=True, tag=True):
    """How a call of the screen's own stands. With an outcome it is the last of that call."""

    id: int
    connection: int
    request_id: int
    progress: Progress | None
    logs: tuple[str, ...]
    """Those that are new."""
    outcome: CallOutcome | None = None


class State(Struct, frozen=True, tag=True):
    """A part of `PARTS` as it is now; `key` says of which server or client where there are several."""

    part: str
    key: str
    value: Raw


class TrafficBatch(Struct, frozen=True, tag=True):
    """Connections that are new or changed, and the frames that follow those sent before."""

    connections: tuple[ConnectionInfo, ...]
    frames: tuple[Frame, ...] = ()
    notes: dict[int, HttpNote] = {}
    """By the number of their frame."""
    missed: int = 0
    """Frames before these that are left out."""
    why: str = ""
    marks: tuple[HeldMark, ...] = ()
    remarks: tuple[RecordedRemark, ...] = ()
    remarks_left_out: int = 0
    """Number of remarks so far that the core does not keep."""


FromCore: TypeAlias = Reply | CallNews | State | TrafficBatch
FromScreen: TypeAlias = Join | Ask

_RESULTS = {name: get_type_hints(getattr(Link, name)) for name in dir(Link) if not name.startswith("_")
            if callable(getattr(Link, name))}  # fmt: skip
SNAPSHOTS: Final = ("questions", "grants", "jobs", "callbacks", "todo", "held")
"""Methods of `Link` that a screen answers from its last copy."""
PARTS: Final[dict[str, Any]] = {
    "view": _RESULTS["view"]["return"],
    "catalogue": Catalogue,
    "watched": dict[str, int],
    "client": ClientDetail | None,
    "logs": list[LogLine],
    "notices": list[Notice],
    **{name: _RESULTS[name]["return"] for name in SNAPSHOTS},
}
"""Name of a `State` -> its type."""
TOLD: Final = (
    "reload", "drop_token", "watch", "unwatch", "choose_policy", "revoke", "kill_job", "fire_callback",
    "cancel_callback", "end_plan", "disconnect", "log_in", "remove_server", "speak",
)  # fmt: skip
"""Methods of `Link` that give nothing back."""
ASKED: Final = (
    "hold",
    "set_faults",
    "let_go",
    "can",
    "delay",
    "untrusted",
    "add_server",
    "set_log_level",
    "choose_roots",
    "give_token",
    "answer",
    "decline",
    "cancel_question",
    "sign_in_link",
    "sign_out_browsers",
    "client_config",
)
"""Methods of `Link` that return a future."""
WAITED: Final = ("usage", "output", "plan_text")
"""Methods of `Link` that wait for the core, for a moment. Call them on a worker thread."""


class LinkMethod:
    """How the arguments of an `Ask` and the value of its `Reply` are written."""

    def __init__(self, arguments: Any, result: Any) -> None:
        """`arguments` is the type of a tuple."""
        self.arguments: msgspec.msgpack.Decoder[tuple[Any, ...]] = msgspec.msgpack.Decoder(arguments)
        self.result: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(result)


def _method(name: str) -> LinkMethod:
    hints = dict(_RESULTS[name])
    result = hints.pop("return")
    types = tuple.__class_getitem__(tuple(hints.values()))
    return LinkMethod(types, result.__args__[0] if name in ASKED else result)


METHODS: Final[dict[str, LinkMethod]] = {
    **{name: _method(name) for name in (*TOLD, *ASKED, *WAITED)},
    "request": LinkMethod(tuple[str, str, dict[str, Any]], None),
    "cancel": LinkMethod(tuple[int], None),  # the id of a request
    "look": LinkMethod(tuple[int], None),  # at one client, by its connection
    "whole": LinkMethod(tuple[int], bytes),  # all bytes of a frame
    "ping": LinkMethod(tuple[()], None),  # whether the core still answers
}
"""What a screen may ask for."""
_encoder = msgspec.msgpack.Encoder()


def pack(value: Any) -> Raw:
    """A value as a part of a message; text that UTF-8 cannot carry loses those characters."""
    try:
        return Raw(_encoder.encode(value))
    except (UnicodeEncodeError, OverflowError):
        return Raw(_encoder.encode(_sendable(msgspec.to_builtins(value, builtin_types=(bytes,)))))


def _sendable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, int):
        return value if -(1 << 63) <= value < 1 << 64 else float(value)
    if isinstance(value, dict):
        return {_sendable(key): _sendable(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_sendable(each) for each in value]
    return value


def framed(message: Struct) -> bytes:
    """A message with its length before it."""
    body = bytes(pack(message))
    return len(body).to_bytes(HEAD, "big") + body


def length(head: bytes) -> int:
    """The length of the message that follows. Raises: ValueError for what is no message of ours."""
    found = int.from_bytes(head, "big")
    if found > LONGEST:
        raise ValueError(f"a message of {found:,} bytes")
    return found


def read_message(read: Callable[[int], bytes]) -> bytes:
    """Read one message by a function that reads so many bytes, and fewer at the end.

    Raises: EOFError at the end; ValueError for what is no message of ours; OSError.
    """
    head = read(HEAD)
    body = read(length(head)) if len(head) == HEAD else b""
    if len(head) < HEAD or len(body) < length(head):
        raise EOFError("the other side has gone")
    return body
