"""The pump: a process that copies lines between a client's pipes and the desk that hosts a folder.

The pump tracks the messages in a `ClientState`, so that the client can continue with another server when the
desk ends. One thread polls both directions, and neither waits for the other. Because a client waits until the
pump has started, this module imports only a few modules of the standard library.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys

from mcpdesk.transports import rendezvous
from mcpdesk.transports.replay import ClientState, Replay, is_request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

READ_BYTES = 64 << 10
"""Maximum size in bytes of one read. Larger buffers are slow to allocate."""
HIGH_WATER = 1 << 20
"""Maximum number of bytes that wait for one side. While more bytes wait, the other side is not read."""
MAX_LINE_BYTES = 256 << 20
"""Maximum size in bytes of a line. A longer one is copied in pieces and not parsed."""
REFUSAL = b"mcpdesk: "
"""Beginning of the line that a desk sends if it cannot serve this client."""
LEAVE = b'{"mcpdesk":"leave"}\n'
"""Line that a desk sends before it ends. The pump waits for running calls, then uses another server."""
ACCEPTED = b'{"mcpdesk":"taken"}\n'
"""Line that a desk sends, before any frame, if it accepts this client."""
ALONE = b'{"mcpdesk":"alone"} '
"""Beginning of a desk's line if its environment differs from the client's. The reason follows it."""
FOLLOW_MS = 20
"""Milliseconds without data after which the pump parses the copied lines."""
MAX_UNREAD_BYTES = 1 << 20
"""Maximum size in bytes of copied lines that are not parsed yet."""
REPLAY_S = 2.0
"""Seconds within which a desk must answer the replayed requests."""

SESSION = os.urandom(8).hex()
"""Id of this client's session. Servers use it to find the state of the session."""

_reported_reasons: set[str] = set()
"""Reasons that were already written to stderr, because a core may search for desks repeatedly."""

EXIT_DONE = 0
EXIT_REFUSED = 2
EXIT_INTERRUPTED = 130


class RefusedByDesk(Exception):
    """The desk does not serve this client. The message is the reason."""


class MovedToDesk:
    """Result of a core whose client now continues with a desk, which already has the client's state."""

    def __init__(self, desk: socket.socket, client_state: ClientState) -> None:
        self.desk = desk
        self.client_state = client_state


def serve(folder: str, mode: str, serve_alone: Callable[[ClientState], int | MovedToDesk]) -> int:
    """Serve stdin and stdout until the client disconnects. Return the exit code.

    While a desk hosts `folder`, the desk serves the client. Otherwise `serve_alone` serves the client until a
    desk starts.
    """
    client_state = ClientState()
    desk = None
    while True:
        code = run(folder, mode, client_state, desk)
        if code is not None:
            return code
        outcome = serve_alone(client_state)
        if isinstance(outcome, int):
            return outcome
        client_state, desk = outcome.client_state, outcome.desk


def run(folder: str, mode: str, client_state: ClientState, desk: socket.socket | None = None) -> int | None:
    """Serve stdin and stdout from the desk that hosts `folder`, until the client disconnects.

    Return the exit code. Return None if no desk exists or the desk has ended; `client_state` then has the
    state for the next server. `desk` is a connection on which the state was already replayed.
    """
    try:
        while True:
            if desk is None:
                desk = _connect_to_desk(folder, mode, client_state)
            if desk is None:
                return None
            with desk:
                pump = Pump(desk, client_state)
                code = pump.copy_until_end()
            if code is not None or not pump.has_received:
                return code  # a desk that accepted the client but sent nothing would do the same again
            desk = None
    except RefusedByDesk as error:
        from mcpdesk.plain_text import clean  # rarely needed

        sys.stderr.write(f"{clean(str(error))}\n")
        return EXIT_REFUSED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _connect_to_desk(folder: str, mode: str, client_state: ClientState) -> socket.socket | None:
    """Connect to the desk and replay the client's state. Return None if no desk serves this client."""
    try:
        desk = connect_and_greet(folder, mode)
    except OSError:
        return None
    if desk is None or not (client_state.opening or client_state.in_flight or client_state.server_requests):
        return desk
    try:
        replay(desk, client_state)
    except (OSError, RefusedByDesk):
        return None
    return desk


def connect_and_greet(folder: str, mode: str, greeting: bytes = b"") -> socket.socket | None:
    """Connect to the desk that hosts `folder`, and wait until it accepts the client.

    Return None if no desk hosts the folder. Also return None, and write the reason to stderr, if the desk
    does not answer or has a different environment. `greeting` replaces the greeting of a pump.

    Raises: RefusedByDesk; OSError if the desk cannot be found.
    """
    desk = rendezvous.find_desk(folder)
    if desk is None:
        return None
    line = b""
    try:
        desk.settimeout(REPLAY_S)
        desk.sendall(greeting or greeting_line(folder, mode))
        while not line.endswith(b"\n") and (byte := desk.recv(1)):
            line += byte
        desk.settimeout(None)
    except TimeoutError:
        desk.close()
        _report_alone("the process that hosts the folder does not answer")
        return None
    except OSError:  # the desk has just ended
        desk.close()
        return None
    if line == ACCEPTED:
        return desk
    desk.close()
    if line.startswith(REFUSAL):
        raise RefusedByDesk(line.decode("utf-8", "replace").strip())
    if line.startswith(ALONE):
        _report_alone(line.removeprefix(ALONE).decode("utf-8", "replace").strip())
    return None


def _report_alone(reason: str) -> None:
    """Write the reason why no desk serves the client to stderr. Each reason is written once."""
    from mcpdesk.plain_text import clean

    if reason not in _reported_reasons:
        _reported_reasons.add(reason)
        sys.stderr.write(f"mcpdesk: served by a separate process: {clean(reason)}\n")


def replay(desk: socket.socket, client_state: ClientState) -> None:
    """Replay the client's state to a desk. `client_state` then has the answers for the client.

    Raises: OSError or RefusedByDesk, after the connection was closed.
    """
    session_replay = Replay(client_state)
    partial_line = b""
    try:
        desk.settimeout(REPLAY_S)
        while True:
            if session_replay.failure:
                raise RefusedByDesk(session_replay.failure)
            if session_replay.is_done:
                # These lines come first, because the client must get them even if this desk ends now.
                client_state.unwritten += b"".join(line + b"\n" for line in session_replay.to_client)
            lines, session_replay.to_server = session_replay.to_server, []
            desk.sendall(b"".join(line + b"\n" for line in lines))
            if session_replay.is_done:
                break
            if not (data := desk.recv(READ_BYTES)):
                raise RefusedByDesk("it ended")
            *complete, partial_line = (partial_line + data).split(b"\n")
            for line in complete:
                session_replay.receive(line)
        client_state.unwritten += partial_line
        desk.settimeout(None)
    except (OSError, RefusedByDesk):
        desk.close()
        raise


def greeting_line(
    folder: str,
    mode: str,
    name: str = "",
    environment: Mapping[str, str] | None = None,
    understands_leave: bool = True,
) -> bytes:
    """Return the line that introduces the client to the desk, before the first frame.

    Without a `name`, the client is the parent process. Without an `environment`, the client has the
    environment of this process. `understands_leave` is True if the client understands `LEAVE`.
    """
    pid = os.getpid() if name else os.getppid()
    fields = {
        "folder": os.path.abspath(folder),
        "mode": mode,
        "name": name or rendezvous.process_name(pid),
        "session": SESSION,
    }
    texts = ",".join(f'"{key}":{quote(value)}' for key, value in fields.items())
    client_environment = os.environ if environment is None else environment
    variables = ",".join(f"{quote(key)}:{quote(value)}" for key, value in client_environment.items())
    flag = "true" if understands_leave else "false"
    greeting = f'{{"mcpdesk":1,"pid":{pid},"leaves":{flag},{texts},"environment":{{{variables}}}}}'
    return f"{greeting}\n".encode("ascii")


def quote(text: str) -> str:
    """Return `text` as a JSON string in ASCII. The module `json` is not used, because its import is slow."""
    units = text.encode("utf-16-be", "replace")
    codes = (int.from_bytes(units[index : index + 2], "big") for index in range(0, len(units), 2))
    characters = (
        chr(code) if 32 <= code < 127 and code not in (34, 92) else f"\\u{code:04x}" for code in codes
    )
    return f'"{"".join(characters)}"'


class Pump:
    """Copies lines between one client and one desk. Does not close the descriptors."""

    def __init__(
        self, desk: socket.socket, client_state: ClientState, source: int = 0, sink: int = 1
    ) -> None:
        self.has_received = bool(client_state.unwritten)
        """True after the desk has sent anything."""
        self._desk, self._client_state = desk, client_state
        self._source, self._sink = source, sink
        self._to_desk = _WriteQueue(desk.send)
        self._to_client = _WriteQueue(lambda data: os.write(sink, data))
        self._from_client, self._from_desk = _LineSplitter(client_state.rest), _LineSplitter()
        self._unparsed_lines: list[tuple[Callable[[bytes], None], bytes]] = []
        """Copied lines that are not parsed yet, each with the method that tracks them."""
        self._unparsed_bytes = 0
        """Size of `_unparsed_lines` in bytes."""
        self._has_client_ended = False
        """True after the client has closed its input."""
        self._has_desk_stopped_reading = False
        """True if nothing more can be written to the desk."""
        self._has_desk_ended = False
        """True if the desk no longer sends."""
        self._is_asked_to_leave = False
        """True after the desk has sent `LEAVE`."""
        self._polled_events: dict[int, int] = {}
        self._poll = select.poll()

    def copy_until_end(self) -> int | None:
        """Copy in both directions until the client disconnects. Return the exit code.

        Return None if the desk has ended. Raises: RefusedByDesk, KeyboardInterrupt.
        """
        was_blocking = os.get_blocking(self._sink)
        os.set_blocking(self._sink, False)
        self._desk.setblocking(False)
        try:
            with _SignalWakeup() as self._wakeup:
                self._poll.register(self._wakeup, select.POLLIN)
                self._send_leftovers()
                while not self._should_end():
                    self._copy_once()
            return self._finish()
        finally:
            os.set_blocking(self._sink, was_blocking)

    def _send_leftovers(self) -> None:
        """Send the data that was left when the last server ended."""
        client_state = self._client_state
        self._pass_to_client(self._from_desk.feed(client_state.unwritten))
        self._pass_to_desk(client_state.unsent)
        client_state.unwritten = client_state.unsent = client_state.rest = b""

    def _should_end(self) -> bool:
        """Return True if nothing remains to be copied between the client and this desk."""
        if self._to_client.is_closed:
            return True
        if self._has_client_ended and self._to_client.size:
            return False
        if self._has_desk_ended:
            return True
        if not self._is_asked_to_leave or self._to_desk.size:
            return False
        self._parse_copied_lines()
        return not self._client_state.is_busy

    def _finish(self) -> int | None:
        """Store undelivered data for the next server. Return the result of `copy_until_end`."""
        self._parse_copied_lines()
        if self._to_client.is_closed or self._has_client_ended:
            return EXIT_DONE
        client_state = self._client_state
        if self._from_desk.is_line_split:
            self._to_client.put(b"\n")  # the rest of that line will not arrive
        client_state.unwritten = self._to_client.unwritten()
        client_state.unsent = self._to_desk.unwritten_lines() + client_state.unsent
        client_state.rest = self._from_client.take_unfinished()
        return None

    def _copy_once(self) -> None:
        """Wait until a descriptor is ready, and copy its data."""
        reads_client = not self._has_client_ended and self._to_desk.size < HIGH_WATER
        reads_desk = not self._has_desk_ended and self._to_client.size < HIGH_WATER
        writes_desk = not self._has_desk_stopped_reading and self._to_desk.size > 0
        desk = self._desk.fileno()
        self._set_polled_events(self._source, select.POLLIN if reads_client else 0)
        self._set_polled_events(desk, select.POLLIN * reads_desk | select.POLLOUT * writes_desk)
        self._set_polled_events(self._sink, select.POLLOUT * bool(self._to_client.size))
        events = self._poll.poll(FOLLOW_MS if self._unparsed_lines else None)
        if not events or self._unparsed_bytes > MAX_UNREAD_BYTES:
            self._parse_copied_lines()
        for fd, _ in events:
            if fd == desk:
                if reads_desk:
                    self._read_desk()
                self._send()
            elif fd == self._sink and self._to_client.size:
                self._to_client.flush()
            elif fd == self._source and reads_client:
                self._read_client()
            elif fd == self._wakeup:
                os.read(fd, READ_BYTES)

    def _set_polled_events(self, fd: int, events: int) -> None:
        if self._polled_events.get(fd, 0) == events:
            return
        self._polled_events[fd] = events
        if events:
            self._poll.register(fd, events)
        else:
            self._poll.unregister(fd)

    def _read_client(self) -> None:
        """Read from the client, and pass the end of its input on. Answers may still follow."""
        try:
            data = os.read(self._source, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._pass_to_desk(self._from_client.feed(data))
            return
        self._has_client_ended = True
        if rest := self._from_client.take_unfinished():
            self._pass_to_desk(rest + b"\n")
        self._send()

    def _pass_to_desk(self, lines: bytes) -> None:
        """Write lines of the client to the desk. A desk that will end receives no further requests."""
        if lines and self._is_asked_to_leave:
            lines = self._without_requests(lines)
        if lines:
            self._to_desk.put(lines)
        self._send()

    def _send(self) -> None:
        """Write as much as the desk accepts. If the desk has ended, first read its remaining output."""
        for lines in () if self._has_desk_stopped_reading else self._to_desk.flush():
            self._queue_for_parsing(self._client_state.client_sent, lines)
        self._has_desk_stopped_reading = self._has_desk_stopped_reading or self._to_desk.is_closed
        if self._has_client_ended and not self._to_desk.size and not self._has_desk_stopped_reading:
            self._has_desk_stopped_reading = True
            _end_output(self._desk)

    def _read_desk(self) -> None:
        """Read from the desk. Raises: RefusedByDesk if its first line is a refusal."""
        try:
            data = self._desk.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not self.has_received and data.startswith(REFUSAL):
            raise RefusedByDesk(data.decode("utf-8", "replace").strip())
        self.has_received = self.has_received or bool(data)
        self._has_desk_ended = not data
        self._pass_to_client(self._from_desk.feed(data))

    def _pass_to_client(self, lines: bytes) -> None:
        """Write lines of the desk to the client, except `LEAVE`, which is for the pump."""
        if not lines:
            return
        if lines.startswith(LEAVE) or b"\n" + LEAVE in lines:
            self._is_asked_to_leave = True
            lines = lines.replace(LEAVE, b"")
        if self._is_asked_to_leave:
            lines = self._without_ended_listeners(lines)
        self._to_client.put(lines)
        self._to_client.flush()
        self._queue_for_parsing(self._client_state.server_sent, lines)

    def _without_requests(self, lines: bytes) -> bytes:
        """Return the lines without requests. The requests are kept for the next server."""
        client_state, other_lines = self._client_state, []
        for line in lines.splitlines(keepends=True):
            if is_request(line):
                client_state.unsent += line
            else:
                other_lines.append(line)
        return b"".join(other_lines)

    def _without_ended_listeners(self, lines: bytes) -> bytes:
        """Return the lines without those that end a listener. Listeners continue with the next server."""
        self._parse_copied_lines()
        closes_listener = self._client_state.closes_listener
        return b"".join(line for line in lines.splitlines(keepends=True) if not closes_listener(line))

    def _queue_for_parsing(self, track: Callable[[bytes], None], lines: bytes) -> None:
        self._unparsed_lines.append((track, lines))
        self._unparsed_bytes += len(lines)

    def _parse_copied_lines(self) -> None:
        """Parse the copied lines."""
        queued_lines, self._unparsed_lines, self._unparsed_bytes = self._unparsed_lines, [], 0
        for track, lines in queued_lines:
            for line in lines.split(b"\n"):
                if line:
                    track(line)


def _end_output(desk: socket.socket) -> None:
    try:
        desk.shutdown(socket.SHUT_WR)
    except OSError:
        return  # The desk has ended.


class _LineSplitter:
    """Splits bytes into complete lines."""

    def __init__(self, rest: bytes = b"") -> None:
        self._pieces = [rest]
        self._size = len(rest)
        self.is_line_split = False
        """True if a part of the current line was already returned, because the line is too long."""

    def feed(self, data: bytes) -> bytes:
        """Return the lines that are now complete. If a line is too long, return the available part."""
        end = data.rfind(b"\n") + 1
        if not end:
            self._pieces.append(data)
            self._size += len(data)
            if self._size <= MAX_LINE_BYTES and not self.is_line_split:
                return b""
            self.is_line_split = True
            return self.take_unfinished()
        joined = self.take_unfinished() + data[:end] if self._size else data[:end]
        self.is_line_split = False
        self._pieces, self._size = [data[end:]], len(data) - end
        return joined

    def take_unfinished(self) -> bytes:
        """Remove and return the beginning of an unfinished line."""
        unfinished_line = b"".join(self._pieces)
        self._pieces, self._size = [], 0
        return unfinished_line


class _WriteQueue:
    """Data that one side has not accepted yet, as blocks of complete lines."""

    def __init__(self, write: Callable[[memoryview], int]) -> None:
        self.size = 0
        self.is_closed = False
        """True if the other end is closed."""
        self._write = write
        self._blocks: list[bytes] = []
        self._written_bytes = 0
        """Number of bytes of the first block that were already written."""

    def put(self, block: bytes) -> None:
        if block and not self.is_closed:
            self._blocks.append(block)
            self.size += len(block)

    def flush(self) -> list[bytes]:
        """Write as much as is accepted now. Return the lines that are written completely."""
        written_lines = []
        try:
            while self._blocks:
                block, written_before = self._blocks[0], self._written_bytes
                written = self._write(memoryview(block)[written_before:])
                self.size -= written
                self._written_bytes = written_before + written
                end = block.rfind(b"\n", written_before, self._written_bytes) + 1
                if self._written_bytes == len(block):
                    written_lines.append(self._blocks.pop(0))
                    self._written_bytes = 0
                elif end:
                    written_lines.append(block[:end])
                    self._blocks[0], self._written_bytes = block[end:], self._written_bytes - end
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self.is_closed = True
        return written_lines

    def unwritten(self) -> bytes:
        """Return the data that is not written."""
        return b"".join(self._blocks)[self._written_bytes :]

    def unwritten_lines(self) -> bytes:
        """Return the lines that are not written completely."""
        return b"".join(self._blocks)


class _SignalWakeup:
    """Descriptor that a signal makes readable. Without it, a signal just before polling would be missed."""

    def __enter__(self) -> int:
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._old_wakeup_fd = signal.set_wakeup_fd(self._write)
        return self._read

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._old_wakeup_fd)
        os.close(self._read)
        os.close(self._write)
