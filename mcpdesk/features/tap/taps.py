"""Recording of the traffic of a tap (`mcpdesk stdio -- COMMAND`), and registry of running taps."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from mcpdesk import private_files
from mcpdesk.errors import DeskUserError
from mcpdesk.features.tap.tapped_messages import TAPPED, TappedMessage, TappedMessages
from mcpdesk.paths import captures_folder, state_folder
from mcpdesk.plain_text import clean
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.capture.retention import Retention
from mcpdesk.recorder.record import ConnectionInfo, Direction
from mcpdesk.transports import rendezvous
from mcpdesk.version import __version__

if TYPE_CHECKING:
    from socket import socket

    from mcpdesk.transports.relay import CopiedChunk, RelayTraffic

RING_BYTES = 1 << 20
"""Memory in bytes for frames. A small value is enough, because the frames of a tap are read from the file."""
MAX_RECORDED_BYTES = 64 << 20
"""Maximum number of recorded bytes of a message, whatever the setting is."""
MAX_NAME_LENGTH = 40
"""Maximum number of characters of a program's name in the name of a capture."""
JOIN_TIMEOUT_S = 10.0
"""Maximum number of seconds to wait for the first byte of a process that connects."""
MAX_SEARCHED_MESSAGES = 8
"""Number of first messages in each direction that are searched for names and revision."""


class RunningTap(msgspec.Struct, frozen=True):
    """Registration of a running tap."""

    pid: int
    command: tuple[str, ...]
    client: str
    """Name of the process that started the tap."""
    capture: str
    """Path of its capture."""
    started: float
    """Unix time in seconds."""
    door: str = ""
    """Path of the Unix socket through which screens hold messages, or "" if messages cannot be held."""
    mcpdesk: str = ""
    """Version of the program."""


def running_taps(state_dir: Path) -> list[RunningTap]:
    """Return running taps, newest first. Registrations of killed taps are removed."""
    taps: list[RunningTap] = []
    for path in _taps_folder(state_dir).glob("*.json"):
        with suppress(OSError, msgspec.DecodeError):
            if private_files.is_held(path):
                taps.append(msgspec.json.decode(path.read_bytes(), type=RunningTap))
            else:
                path.unlink()
    return sorted(taps, key=lambda tap: tap.started, reverse=True)


def tap_of(capture: Path) -> RunningTap | None:
    """Return the tap that is writing a capture, or None."""
    path = str(capture.resolve())
    taps = running_taps(state_folder())
    return next((tap for tap in taps if str(Path(tap.capture).resolve()) == path), None)


def write_capture(argv: Sequence[str], traffic: RelayTraffic) -> None:
    """Record the traffic of a tap in a capture until it ends. Errors are reported on stderr."""
    try:
        _record(argv, traffic)
    except (DeskUserError, OSError) as error:
        _print_problem(str(error))
    except Exception:
        from mcpdesk.cli.printing import report_crash

        report_crash()


def _record(argv: Sequence[str], traffic: RelayTraffic) -> None:
    """Record the traffic of a tap until it ends. Raises: DeskUserError, OSError."""
    from mcpdesk.client.configs.program_names import program_name
    from mcpdesk.settings import resolve

    settings = resolve({}, os.environ).settings
    if not settings.capture:
        _print_problem("the setting `capture` is off")
        return
    name = program_name(argv)[:MAX_NAME_LENGTH]
    client = rendezvous.process_name(traffic.client)
    started = traffic.started
    timestamp = time.strftime("%Y-%m-%dT%H-%M-%S", time.localtime(started))
    path = captures_folder(settings.state_dir) / f"{timestamp}-{name}-{traffic.relay}.jsonl"
    recording = Recording(
        path,
        RING_BYTES,
        settings.capture_max_bytes or None,
        body_bytes=settings.capture_body_bytes,
        retention=Retention(settings.capture_keep_bytes, settings.capture_keep_age),
    )
    recording.start()
    try:
        if recording.failing:
            _print_problem(recording.failing)
        conversation = TapConversation(recording, ConnectionInfo(TAPPED, name, "stdio", client, "", started))
        with _open_door(traffic, recording) as door:
            tap = RunningTap(
                traffic.relay, tuple(map(clean, argv)), client, str(path), started, door, __version__
            )
            with _registered(settings.state_dir, tap):
                conversation.follow(traffic, settings.capture_body_bytes or MAX_RECORDED_BYTES)
    finally:
        recording.close()


def _print_problem(problem: str) -> None:
    from mcpdesk.cli.printing import print_message

    print_message(f"mcpdesk: messages are not recorded: {problem}")


@contextmanager
def _open_door(traffic: RelayTraffic, recording: Recording) -> Iterator[str]:
    """Accept screens that hold messages while the block runs.

    Provide the path of the socket, or "" if screens cannot be accepted.
    """
    listening_socket: rendezvous.ListeningSocket | None = None
    with suppress(OSError):
        runtime = rendezvous.private_folder()
        rendezvous.sweep(runtime)
        listening_socket = rendezvous.listen(f"{runtime}/{traffic.relay}{rendezvous.state_mark('')}.tap")
    if listening_socket is None:
        yield ""
        return
    arguments = (listening_socket.listener, recording, traffic.reports, traffic.commands)
    threading.Thread(target=_wait_for_screens, args=arguments, name="door", daemon=True).start()
    try:
        yield listening_socket.path
    finally:
        listening_socket.withdraw()


def _wait_for_screens(listener: socket, recording: Recording, reports: int, commands: int) -> None:
    """Wait for the first screen, import the required modules, and serve screens."""
    # MSG_DONTWAIT does not exist on Windows, where other commands import this module.
    from socket import MSG_DONTWAIT, MSG_PEEK

    while True:
        connection, _ = listener.accept()
        select.select([connection], [], [], JOIN_TIMEOUT_S)
        with suppress(OSError):
            if connection.recv(1, MSG_PEEK | MSG_DONTWAIT):
                break
        connection.close()  # the other process only checked whether this tap is alive
    import asyncio

    from mcpdesk.features.tap.tap_door import serve_screens

    asyncio.run(serve_screens(listener, connection, recording, reports, commands))


@contextmanager
def _registered(state_dir: Path, tap: RunningTap) -> Iterator[None]:
    """Register a tap while the block runs. A failed registration does not end the tap."""
    path = _taps_folder(state_dir) / f"{tap.pid}.json"
    draft = path.with_suffix(".draft")
    handle = -1
    try:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
            handle = private_files.create(draft)
            private_files.hold(handle)  # before the file is visible to other processes
            os.write(handle, msgspec.json.encode(tap))
            draft.replace(path)
        yield
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
            path.unlink(missing_ok=True)
        if handle >= 0:
            os.close(handle)


def _taps_folder(state_dir: Path) -> Path:
    return state_dir / "taps"


class TapConversation:
    """Messages between a client and a server, as frames of a recording."""

    def __init__(self, recording: Recording, info: ConnectionInfo) -> None:
        self._recording, self._info = recording, info
        self._searched_counts = dict.fromkeys(Direction, 0)
        """Number of messages searched by `_read_names`, by direction."""
        recording.connect(info)

    def follow(self, traffic: Iterable[CopiedChunk], recorded_bytes: int) -> None:
        """Record the traffic until it ends.

        Of a larger message, only the first `recorded_bytes` bytes and the end are recorded.
        """
        splitters = {direction: TappedMessages(recorded_bytes) for direction in Direction}
        for chunk in traffic:
            direction = Direction.IN if chunk.is_from_client else Direction.OUT
            for message in splitters[direction].feed(chunk.data, chunk.size):
                self._add_frame(direction, message, chunk.unix_s)
        now = time.time()
        for direction, splitter in splitters.items():
            for message in splitter.rest():
                self._add_frame(direction, message, now)
        self._update_info(replace(self._info, closed=now))

    def _add_frame(self, direction: Direction, message: TappedMessage, unix_s: float) -> None:
        """Record a message. Search the first messages for names and revision."""
        data, end, size = message
        self._recording.frame(self._info.number, direction, data, at=unix_s, size=size, end=end)
        if self._searched_counts[direction] < MAX_SEARCHED_MESSAGES:
            self._searched_counts[direction] += 1
            self._read_names(data)

    def _read_names(self, data: bytes) -> None:
        """Update the client's name and the revision, if a message contains them."""
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            message = msgspec.json.decode(data, type=_NamingMessage)
            if (client := message.params.client) is not None:
                self._update_info(replace(self._info, peer=f"{client.name} {client.version}".strip()))
            if revision := message.result.protocolVersion:
                self._update_info(replace(self._info, revision=revision))

    def _update_info(self, info: ConnectionInfo) -> None:
        if info != self._info:
            self._info = info
            self._recording.connect(info)


class _Client(msgspec.Struct):
    name: str = ""
    version: str = ""


class _Meta(msgspec.Struct):
    clientInfo: _Client | None = msgspec.field(default=None, name="io.modelcontextprotocol/clientInfo")


class _Params(msgspec.Struct):
    clientInfo: _Client | None = None
    meta: _Meta = msgspec.field(default_factory=_Meta, name="_meta")

    @property
    def client(self) -> _Client | None:
        return self.clientInfo or self.meta.clientInfo


class _Result(msgspec.Struct):
    protocolVersion: str = ""


class _NamingMessage(msgspec.Struct):
    """Names and revision in a handshake, or in any stateless request."""

    params: _Params = msgspec.field(default_factory=_Params)
    result: _Result = msgspec.field(default_factory=_Result)
