"""The relay: a process that starts a server's program, and copies bytes between it and the client.

The bytes pass unchanged, chunk by chunk, as they arrive. One thread per direction reads and writes, so each
side waits only for the other, as with a pipe between them. A separate process, the recorder, writes the
capture, because this work would delay the traffic here. Copies of the bytes wait in memory for the recorder,
up to a limit. Because a client waits until the relay has started, this module imports only a few modules of
the standard library.

A desk can hold messages. The recorder then takes part in the traffic: the gate splits the bytes into lines,
reports each line to the recorder, and executes the commands of the recorder. At other times, no code of the
gate runs for a chunk. To begin to hold messages, the gate replaces the source of the copying thread
(`GateSide.divert`). The thread then reads an end of file and continues in the gate.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import threading
import time
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

READ_BYTES = 64 << 10
"""Maximum size in bytes of one read."""
MAX_COPIES_BYTES = 16 << 20
"""Maximum bytes of all queued copies. Above it, only the end of each chunk is copied, or only its size."""
MAX_COPIES = 100_000
"""Maximum number of copies in a queue that exceeds `MAX_COPIES_BYTES`. Then no more copies are made."""
GATHER_S = 0.02
"""Seconds for which copies are collected before they are sent to the recorder in one write."""
NICE = 10
"""Niceness of the recorder, so that it does not slow down the server."""
LINGER_S = 0.5
"""Seconds for which output is read after the program has ended. Its children may keep the output open."""
EXIT_TIMEOUT_S = 2.0
"""Seconds within which a program must end after its client has disconnected, and again after SIGTERM."""
END_S = 2.0
"""Seconds for which the relay waits for the recorder before the relay ends."""
FORWARDED_SIGNALS = (
    signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip
"""Signals that the relay forwards to the program."""
AWAITED_SIGNALS = (*FORWARDED_SIGNALS, signal.SIGCHLD)
"""Signals that the main thread waits for."""
WAKE_SIGNAL = signal.SIGURG
"""Signal that interrupts a read after the source was replaced. No other program sends this signal."""
RESET_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that Python ignores. They are reset for the program."""

_COPY_HEADER = struct.Struct("<d?QQ")
"""Header of a copy: Unix time, True if it is from the client, size of the chunk, size of the copy."""


class Copies:
    """Copies of the traffic for the recorder. Adding a copy never blocks."""

    def __init__(self, recorder: RecorderProcess) -> None:
        self._recorder = recorder
        self._has_ended = False
        self._is_cut_off = False
        """True if no more copies are made."""
        self._queue: deque[tuple[float, bool, int, bytes]] = deque()
        self._added_bytes = {True: 0, False: 0}
        """Number of bytes added, by direction. Only one thread writes each value."""
        self._sent_bytes = 0
        self._has_copies = threading.Event()

    def add(self, is_from_client: bool, data: bytes) -> None:
        """Add a copy of a chunk. If the queue is full, add only its size and the end after its last line."""
        if self._is_cut_off:
            return
        copy = data
        queued_bytes = sum(self._added_bytes.values()) - self._sent_bytes
        if queued_bytes >= MAX_COPIES_BYTES:
            newline = data.rfind(b"\n")
            copy = data[newline:] if newline >= 0 and queued_bytes < 2 * MAX_COPIES_BYTES else b""
            self._is_cut_off = len(self._queue) > MAX_COPIES
        self._added_bytes[is_from_client] += len(copy)
        self._queue.append((time.time(), is_from_client, len(data), copy))
        if not self._has_copies.is_set():
            self._has_copies.set()

    def send_copies(self) -> None:
        """Send the copies to the recorder until the traffic ends. Then wait until the recorder has ended."""
        recorder = self._recorder
        try:
            while not self._has_ended or self._queue:
                self._has_copies.wait()
                if not self._has_ended:
                    time.sleep(GATHER_S)
                self._has_copies.clear()
                while pieces := self._next_pieces():
                    _write(recorder.pipe, b"".join(pieces))
            _write(recorder.pipe, _COPY_HEADER.pack(0, False, 0, 0))
        except OSError:
            self._is_cut_off = True  # the recorder was killed
            self._queue.clear()
        os.close(recorder.pipe)
        os.waitpid(recorder.pid, 0)

    def _next_pieces(self) -> list[bytes]:
        """Return copies with their headers for one write. A few large writes disturb the traffic less."""
        pieces: list[bytes] = []
        size = 0
        while self._queue and size < READ_BYTES:
            unix_s, is_from_client, chunk_size, copy = self._queue.popleft()
            pieces += (_COPY_HEADER.pack(unix_s, is_from_client, chunk_size, len(copy)), copy)
            size += len(copy)
        self._sent_bytes += size
        return pieces

    def end(self) -> None:
        """End the copies, because the traffic has ended."""
        self._has_ended = True
        self._has_copies.set()


class RecorderProcess:
    """The recorder process: its process id, and the pipes to and from it."""

    def __init__(self, pid: int, pipe: int, reports: int, commands: int) -> None:
        self.pid, self.pipe = pid, pipe
        self.reports, self.commands = reports, commands
        """Descriptors of the pipes to and from the recorder, for messages about held lines."""


REPORT_HEADER = struct.Struct("<?QQ")
"""Header of a message from the gate: True if from the client, number of the line, size of the data.

Number 0 confirms that the gate reports lines from now on.
"""
COMMAND_HEADER = struct.Struct("<BQQ")
"""Header of a message to the gate: command, number of the line, size of the data."""
BEGIN, END, PASS, DROP, REPLACE, CUT, TO_CLIENT, TO_PROGRAM = range(8)
"""Commands to the gate.

BEGIN and END start and stop the reports. PASS and DROP decide about a line, REPLACE sends other bytes instead
of the line. CUT does the same, then disconnects the client and ends the program. TO_CLIENT and TO_PROGRAM
write further bytes to one side.
"""
MAX_REPORTED_LINE = 1 << 20
"""Maximum bytes of a line that is reported with its content. Longer lines are reported without it."""


class GateSide:
    """State of the gate for one direction. `lock` protects the state and the writes to the sink.

    While `is_bypassed` is True, one thread copies chunks without the gate, and no other thread writes to the
    sink.
    """

    __slots__ = (
        "diverted_event", "has_ended", "held_bytes", "held_lines", "insertions", "is_bypassed",
        "is_from_client", "is_holding", "is_reading", "last_chunk", "line_start", "lock", "number",
        "read_count", "real_source", "sink", "source", "thread",
    )  # fmt: skip

    def __init__(self, is_from_client: bool, source: int, sink: int) -> None:
        self.is_from_client, self.source, self.sink = is_from_client, source, sink
        self.lock = threading.Lock()
        self.thread: int | None = None
        """Id of the thread that copies this direction, or None before it starts."""
        self.is_bypassed = True
        self.has_ended = False
        self.read_count = 0
        """Number of reads that were started."""
        self.is_reading = False
        self.real_source = -1
        """Descriptor of the real source while `source` is replaced, else -1."""
        self.diverted_event = threading.Event()
        """Set when the copying thread has left the replaced source."""
        self.is_holding = False
        """True if lines are reported and held."""
        self.last_chunk = b"\n"
        """Last chunk that was copied without the gate."""
        self.line_start: list[bytes] = []
        """Pieces of the incomplete last line."""
        self.held_lines: dict[int, bytes] = {}
        """Held lines by number. They wait for a decision."""
        self.held_bytes = 0
        """Size of `held_lines` in bytes."""
        self.number = int(is_from_client)
        """Number of the last line. Lines of the client have odd numbers."""
        self.insertions: list[bytes] = []
        """Lines from the desk that wait until the current line is complete."""

    @property
    def is_within_line(self) -> bool:
        """True if the last chunk that was copied without the gate ended in the middle of a line."""
        return not self.last_chunk.endswith(b"\n")

    def divert(self) -> None:
        """Replace the source with an empty pipe. The copying thread then reads an end of file.

        A signal interrupts a read that is waiting. Python then repeats the read on the new source.
        """
        self.diverted_event.clear()
        self.real_source = os.dup(self.source)
        empty, end = os.pipe()
        os.close(end)
        os.dup2(empty, self.source)
        os.close(empty)
        if self.thread is not None:
            signal.pthread_kill(self.thread, WAKE_SIGNAL)

    def read(self, source: int) -> bytes:
        """Return the next bytes, or no bytes at the end of the file. Raises: OSError.

        `is_reading` is True during the read.
        """
        self.read_count += 1
        self.is_reading = True
        data = _read(source)
        self.is_reading = False
        return data

    def restore_source(self) -> None:
        """Undo `divert`. The copying thread then copies without the gate again."""
        os.dup2(self.real_source, self.source)
        os.close(self.real_source)
        self.real_source, self.is_bypassed = -1, True


class Gate:
    """Holds lines until the recorder decides about them. At other times, the traffic bypasses the gate."""

    def __init__(self, program: _Program, copies: Copies, recorder: RecorderProcess) -> None:
        self._program, self._copies, self._recorder = program, copies, recorder
        self._input, self.output = GateSide(True, 0, program.stdin), GateSide(False, program.stdout, 1)
        self._report_lock = threading.Lock()

    def copy(self, is_from_client: bool, copy_plain: Callable[[bytes], bytes]) -> None:
        """Copy one direction until it ends. Raises: OSError.

        `copy_plain` copies chunks until the source ends, and returns the last chunk. The argument of
        `copy_plain` is the last chunk that was copied before.
        """
        side = self._input if is_from_client else self.output
        side.thread = threading.get_ident()
        try:
            while True:
                side.last_chunk = copy_plain(side.last_chunk)
                with side.lock:
                    if side.real_source < 0:
                        break
                    side.is_bypassed = False
                    side.diverted_event.set()
                if not self._copy_holding(side):
                    break
            self._wait_for_decisions(side, 0)
            with side.lock:
                self._flush(side)
        finally:
            with side.lock:
                side.has_ended, side.is_bypassed = True, False
                side.diverted_event.set()
                if side.real_source >= 0:
                    os.close(side.real_source)  # no thread reads it any longer

    def _copy_holding(self, side: GateSide) -> bool:
        """Report and hold lines. Return True when holding ends, False at the end of the source.

        Raises: OSError.
        """
        while data := side.read(side.real_source):
            with side.lock:
                if not side.is_holding:
                    side.restore_source()
                    side.last_chunk = data
                    self._copies.add(side.is_from_client, data)
                    _write(side.sink, data)
                    return True
                if side.is_from_client:
                    self._copies.add(True, data)
                for line in self._lines(side, data):
                    self._hold(side, line)
            self._wait_for_decisions(side, MAX_COPIES_BYTES)
        return False

    def _start_holding(self, side: GateSide) -> None:
        """Start to hold lines in one direction, after the current chunk was written."""
        with side.lock:
            if side.has_ended or not side.is_bypassed:
                return
            if side.real_source < 0:
                side.divert()
        side.diverted_event.wait()

    def close_input(self) -> None:
        """Close the program's input."""
        with self._input.lock:
            self._input.sink = -1
            os.close(self._program.stdin)

    def listen(self) -> None:
        """Execute the commands of the recorder until the recorder ends. Then stop holding."""
        with os.fdopen(self._recorder.commands, "rb") as commands:
            while len(head := commands.read(COMMAND_HEADER.size)) == COMMAND_HEADER.size:
                command, number, size = COMMAND_HEADER.unpack(head)
                self._execute(command, number, commands.read(size))
        self._end()

    def _wait_for_decisions(self, side: GateSide, max_bytes: int) -> None:
        """Wait until at most `max_bytes` bytes of one direction are held, or the client has disconnected."""
        while side.held_bytes > max_bytes and not _is_closed(1):
            time.sleep(GATHER_S)

    def _execute(self, command: int, number: int, data: bytes) -> None:
        """Execute a command of the recorder."""
        if command == BEGIN:
            for side in (self._input, self.output):
                with side.lock:
                    side.is_holding = True
                self._start_holding(side)
            self._report(REPORT_HEADER.pack(False, 0, 0))
        elif command == END:
            self._end()
        elif command in (TO_CLIENT, TO_PROGRAM):
            side = self._input if command == TO_PROGRAM else self.output
            self._start_holding(side)
            with side.lock:
                if side.is_within_line:
                    side.insertions.append(data)
                else:
                    self._write_held(side, data)
        else:
            self._decide(command, number, data)

    def _decide(self, command: int, number: int, data: bytes) -> None:
        """Apply a decision to a held line."""
        side = self._input if number % 2 else self.output
        with side.lock:
            if number not in side.held_lines:
                return
            line = self._remove(side, number)
            if command != DROP:
                self._write_held(side, line if command == PASS else data)
        if command == CUT:
            _redirect_to_null(1)
            _signal_group(self._program.pid, signal.SIGTERM)

    def _end(self) -> None:
        """Stop holding, and write the held lines unchanged."""
        for side in (self._input, self.output):
            # One direction after the other, because a program may read no input before its output is read.
            with side.lock:
                side.is_holding = False
                for number in list(side.held_lines):
                    self._write_held(side, self._remove(side, number))
                self._flush(side)

    def _flush(self, side: GateSide) -> None:
        """Write the incomplete line. The gate will not hold the rest of the line."""
        if side.line_start:
            side.last_chunk, side.line_start = b"".join(side.line_start), []
            self._write_held(side, side.last_chunk)

    def _write_held(self, side: GateSide, data: bytes) -> None:
        """Write data that was held. If the sink is closed, the copying thread notices."""
        try:
            if not side.is_from_client:
                self._copies.add(False, data)
            _write(side.sink, data)
        except OSError:
            return

    def _lines(self, side: GateSide, data: bytes) -> Iterator[bytes]:
        """Yield the lines that `data` completes. Raises: OSError.

        If `data` begins with the rest of a line that was copied in part, write that rest at once.
        """
        if side.is_within_line:
            end = data.find(b"\n") + 1 or len(data)
            side.last_chunk, data = data[:end], data[end:]
            if not side.is_from_client:
                self._copies.add(False, side.last_chunk)
            _write(side.sink, side.last_chunk)
            while side.insertions and not side.is_within_line:
                self._write_held(side, side.insertions.pop(0))
        *ends, line_start = data.split(b"\n")
        for end_of_line in ends:
            pieces, side.line_start = side.line_start, []
            yield b"".join((*pieces, end_of_line, b"\n"))
        if line_start:
            side.line_start.append(line_start)

    def _hold(self, side: GateSide, line: bytes) -> None:
        side.number = number = side.number + 2
        side.held_lines[number] = line
        side.held_bytes += len(line)
        content = line if len(line) <= MAX_REPORTED_LINE else b""
        if not self._report(REPORT_HEADER.pack(side.is_from_client, number, len(content)) + content):
            self._write_held(side, self._remove(side, number))  # the recorder has ended

    def _report(self, data: bytes) -> bool:
        """Send a message to the recorder. Return False if the recorder has ended."""
        with self._report_lock:
            try:
                _write(self._recorder.reports, data)
            except OSError:
                return False
        return True

    def _remove(self, side: GateSide, number: int) -> bytes:
        """Remove a held line and return it."""
        line = side.held_lines.pop(number)
        side.held_bytes -= len(line)
        return line


class CopiedChunk:
    """One copied chunk."""

    __slots__ = ("data", "is_from_client", "size", "unix_s")

    def __init__(self, unix_s: float, is_from_client: bool, size: int, data: bytes) -> None:
        self.unix_s = unix_s
        """Unix time in seconds."""
        self.is_from_client = is_from_client
        self.size = size
        """Size of the chunk in bytes. If the queue was full, `data` has only the last bytes, or none."""
        self.data = data


class RelayTraffic:
    """Traffic of the relay, for the recorder. The iteration ends when the relay ends.

    If the relay was killed, the recorder ends the program.
    """

    def __init__(
        self, pipe: int, relay: int, client: int, group: int, started: float, reports: int, commands: int
    ) -> None:
        self.relay, self.client = relay, client
        """Process id of the relay, and of its client."""
        self.reports, self.commands = reports, commands
        """Descriptors of the pipes from and to the gate."""
        self.started = started
        """Unix time in seconds when the relay started."""
        self._pipe = os.fdopen(pipe, "rb")
        self._group = group
        self._is_over = False

    def __iter__(self) -> Iterator[CopiedChunk]:
        """Yield the chunks in order."""
        while not self._is_over and len(head := self._pipe.read(_COPY_HEADER.size)) == _COPY_HEADER.size:
            unix_s, is_from_client, size, copy_size = _COPY_HEADER.unpack(head)
            data = self._pipe.read(copy_size)
            if not size:
                self._is_over = True
            elif len(data) == copy_size:
                yield CopiedChunk(unix_s, is_from_client, size, data)
        if not self._is_over:
            _signal_group(self._group, signal.SIGTERM)

    def finish(self) -> None:
        """Skip the remaining chunks. If the relay was killed, end the program."""
        for _ in self:
            pass
        if not self._is_over:
            _end_group(self._group)


def run(argv: Sequence[str], write_capture: Callable[[RelayTraffic], None]) -> int:
    """Run a command between stdin and stdout until it ends.

    Return its exit code, or 128 + N after signal N. `write_capture` is called in a separate process.

    Raises: OSError if the command cannot be started; ValueError if it contains a NUL.
    """
    # Signals stay blocked and `sigwait` receives them, because a handler would not run for a signal just
    # before the wait. Threads inherit the mask. macOS discards SIGCHLD unless it has a handler.
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(WAKE_SIGNAL, lambda *_: None)
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED_SIGNALS)
    try:
        program = _start(argv, old_mask)
    except BaseException:
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
        raise
    recorder = _start_recorder(program.pid, write_capture)
    copies = Copies(recorder)
    sender = threading.Thread(target=copies.send_copies, name="copies", daemon=True)
    gate = Gate(program, copies, recorder)
    copier = _Copier(program, gate, copies)
    copier.start()
    sender.start()
    threading.Thread(target=gate.listen, name="gate", daemon=True).start()
    code = _wait_for_exit(program)
    copier.finish()
    copies.end()
    sender.join(END_S)
    return code if code >= 0 else 128 - code


class _Program:
    """Running command: its process, its process group, and this end of its pipes."""

    def __init__(self, pid: int, stdin: int, stdout: int) -> None:
        self.pid, self.stdin, self.stdout = pid, stdin, stdout


def _wait_for_exit(program: _Program) -> int:
    """Wait until a program ends, and forward signals to it. Return its exit code, or -N after signal N."""
    while not (exit_status := os.waitpid(program.pid, os.WNOHANG))[0]:
        if (number := signal.sigwait(AWAITED_SIGNALS)) != signal.SIGCHLD:
            _signal_group(program.pid, number)
    return os.waitstatus_to_exitcode(exit_status[1])


def _start(argv: Sequence[str], mask: set[signal.Signals | int]) -> _Program:
    """Start the command in a process group of its own, with this stderr. Raises: OSError, ValueError."""
    child_stdin, stdin = os.pipe()
    stdout, child_stdout = os.pipe()
    pid = os.posix_spawnp(
        argv[0],
        list(argv),
        os.environ,
        file_actions=((os.POSIX_SPAWN_DUP2, child_stdin, 0), (os.POSIX_SPAWN_DUP2, child_stdout, 1)),
        setpgroup=0,
        setsigmask=mask,
        setsigdef=RESET_SIGNALS,
    )
    os.close(child_stdin)
    os.close(child_stdout)
    return _Program(pid, stdin, stdout)


def _start_recorder(group: int, write_capture: Callable[[RelayTraffic], None]) -> RecorderProcess:
    """Fork the recorder, which ends the process group if the relay is killed.

    Call this while only one thread runs. The recorder has its own session, and inherits only stderr and its
    pipes.
    """
    relay, client, started = os.getpid(), os.getppid(), time.time()
    read_end, write_end = os.pipe()
    reports, report_end = os.pipe()
    commands, command_end = os.pipe()
    descriptors = sorted((read_end, reports, command_end))
    if pid := os.fork():
        for end in descriptors:
            os.close(end)
        return RecorderProcess(pid, write_end, report_end, commands)
    try:
        os.setsid()
        os.nice(NICE)
        _redirect_to_null(0)
        _redirect_to_null(1)
        for lower, upper in zip((2, *descriptors), (*descriptors, os.sysconf("SC_OPEN_MAX")), strict=True):
            os.closerange(lower + 1, upper)
        traffic = RelayTraffic(read_end, relay, client, group, started, reports, command_end)
        try:
            write_capture(traffic)
        finally:
            traffic.finish()
    finally:
        os._exit(0)


def _end_group(group: int) -> None:
    """End a process group: send SIGTERM, and later SIGKILL."""
    _signal_group(group, signal.SIGTERM)
    time.sleep(EXIT_TIMEOUT_S)
    _signal_group(group, signal.SIGKILL)


def _signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except OSError:
        return  # the group has ended


class _Copier:
    """Copies bytes in both directions between the client and a program."""

    def __init__(self, program: _Program, gate: Gate, copies: Copies) -> None:
        self._program, self._gate, self._copies = program, gate, copies
        self._input = threading.Thread(target=self._copy_input, name="input", daemon=True)
        self._output = threading.Thread(target=self._copy_output, name="output", daemon=True)

    def start(self) -> None:
        """Start to copy."""
        self._input.start()
        self._output.start()

    def finish(self) -> None:
        """Copy the remaining output of a program that has ended. Then kill its process group."""
        side = self._gate.output
        while self._output.is_alive():
            earlier_read_count = side.read_count
            self._output.join(LINGER_S)
            if side.is_reading and side.read_count == earlier_read_count:
                break
        _signal_group(self._program.pid, signal.SIGKILL)
        self._output.join(LINGER_S)

    def _copy_input(self) -> None:
        try:
            self._gate.copy(True, self._copy_plain_input)
        except OSError:
            _redirect_to_null(0)  # the program no longer reads: the client gets a broken pipe
        self._gate.close_input()
        self._end_after_disconnect()

    def _copy_plain_input(self, data: bytes) -> bytes:
        add, stdin = self._copies.add, self._program.stdin
        while True:
            last, data = data, _read(0)
            if not data:
                return last
            add(True, data)
            _write(stdin, data)

    def _copy_output(self) -> None:
        try:
            self._gate.copy(False, self._copy_plain_output)
        except OSError:
            self._gate.output.is_reading = False
        # The client then reads an end of file, and the program gets a broken pipe.
        os.close(self._program.stdout)
        _redirect_to_null(1)

    def _copy_plain_output(self, data: bytes) -> bytes:
        add, stdout, side = self._copies.add, self._program.stdout, self._gate.output
        while True:
            side.read_count += 1
            side.is_reading = True
            last, data = data, _read(stdout)
            side.is_reading = False
            if not data:
                return last
            add(False, data)
            _write(1, data)

    def _end_after_disconnect(self) -> None:
        """End the program when its client has closed both directions.

        A client that closed only its input may still read answers.
        """
        poll = select.poll()
        poll.register(1, 0)
        poll.poll()
        time.sleep(EXIT_TIMEOUT_S)
        _end_group(self._program.pid)


def _read(source: int) -> bytes:
    """Return the next bytes, or no bytes at the end of the file. Raises: OSError."""
    while True:
        try:
            return os.read(source, READ_BYTES)
        except BlockingIOError:
            _wait_for_event(source, select.POLLIN)  # another process made this pipe non-blocking


def _write(sink: int, data: bytes) -> None:
    """Write all of `data`. Raises: OSError."""
    written, rest = 0, data
    while True:
        try:
            written = os.write(sink, rest)
        except BlockingIOError:
            _wait_for_event(sink, select.POLLOUT)
            continue
        if written == len(rest):
            return
        rest = rest[written:]


def _is_closed(descriptor: int) -> bool:
    """Return True if the reader has closed the other end."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return bool(poll.poll(0))


def _wait_for_event(descriptor: int, event: int) -> None:
    ready = select.poll()
    ready.register(descriptor, event)
    ready.poll()


def _redirect_to_null(descriptor: int) -> None:
    """Replace a descriptor with /dev/null, so that its number is not used again."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, descriptor)
    os.close(null)
