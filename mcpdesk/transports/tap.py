"""The tap: starts a server's command, carries its client's bytes to it and back, and keeps a copy of them.

The bytes pass chunk by chunk, as they come, whatever they are. A thread for each direction reads and writes:
each side is held up by the other one, as by a pipe between them, and by nothing else. The copies wait in
memory, up to a bound, for a process of their own that writes the capture: in this one its work, and all it
loads for it, would hold up what passes. Imports little of the standard library, and nothing else: a client
waits for it.

A desk can have messages held. Then that process takes part in what passes: the gate cuts it into lines, tells
that process of each, and writes what it is told to write. Until then, and afterwards, no instruction of the
gate is on the way of a chunk: it takes the source away from the thread that carries (`OneWay.divert`), which
finds an end there and goes on with the gate.
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

CHUNK = 64 << 10
"""Bytes carried at once."""
MOST_WAITING = 16 << 20
"""Bytes that may wait for the capture. Of what passes beyond them it gets little more than the length."""
MOST_COPIES = 100_000
"""Copies that may wait beyond that: a capture so far behind is stuck, and gets nothing more."""
GATHER_S = 0.02
"""How long copies gather before they are handed over: after the chunks, not between them."""
NICE = 10
"""How much the capture steps back behind the server it records."""
LINGER_S = 0.5
"""How long the output of a program that has ended is read: what it started may hold it open."""
PATIENCE_S = 2.0
"""How long a program may go on whose client is gone, and again after SIGTERM."""
END_S = 2.0
"""How long the end waits for the capture."""
PASSED_ON = (
    signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip
"""Signals that are the program's."""
AWAITED = (*PASSED_ON, signal.SIGCHLD)
"""Signals that something is to be done about."""
LOOK_AGAIN = signal.SIGURG
"""Makes a thread that waits for bytes look at its source again. Nothing else sends it."""
RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that Python ignores, and a program does not expect to be ignored."""


_HEAD = struct.Struct("<d?QQ")
"""What goes before a copy: when it passed, whether from the client, its bytes, and those that follow."""


class Copies:
    """What passed, on its way to the process that writes the capture. Adding to it never waits."""

    def __init__(self, recorder: CaptureProcess) -> None:
        self._recorder = recorder
        self._has_ended = self._is_useless = False
        self._passed: deque[tuple[float, bool, int, bytes]] = deque()
        self._added = {True: 0, False: 0}
        """Bytes by direction: each is counted by one thread."""
        self._taken = 0
        self._news = threading.Event()

    def add(self, is_from_client: bool, data: bytes) -> None:
        """Keep a chunk for the capture; where that is too far behind, only its length and its last line."""
        if self._is_useless:
            return
        kept, waiting = data, sum(self._added.values()) - self._taken
        if waiting >= MOST_WAITING:
            last = data.rfind(b"\n")
            kept = data[last:] if last >= 0 and waiting < 2 * MOST_WAITING else b""
            self._is_useless = len(self._passed) > MOST_COPIES
        self._added[is_from_client] += len(kept)
        self._passed.append((time.time(), is_from_client, len(data), kept))
        if not self._news.is_set():
            self._news.set()

    def hand_over(self) -> None:
        """Write what passes to the recorder until the end, and wait for its end."""
        recorder = self._recorder
        try:
            while not self._has_ended or self._passed:
                self._news.wait()
                if not self._has_ended:
                    time.sleep(GATHER_S)
                self._news.clear()
                while pieces := self._next():
                    _write(recorder.pipe, b"".join(pieces))
            _write(recorder.pipe, _HEAD.pack(0, False, 0, 0))
        except OSError:
            self._is_useless = True  # It was killed.
            self._passed.clear()
        os.close(recorder.pipe)
        os.waitpid(recorder.pid, 0)

    def _next(self) -> list[bytes]:
        """Copies to be written at once: each time is one less for the threads that carry."""
        pieces, size = list[bytes](), 0
        while self._passed and size < CHUNK:
            at, is_from_client, whole, kept = self._passed.popleft()
            pieces += (_HEAD.pack(at, is_from_client, whole, len(kept)), kept)
            size += len(kept)
        self._taken += size
        return pieces

    def end(self) -> None:
        """Nothing more will pass."""
        self._has_ended = True
        self._news.set()


class CaptureProcess:
    """The process that writes the capture: its number, and the pipes between it and us."""

    def __init__(self, pid: int, pipe: int, told: int, words: int) -> None:
        self.pid, self.pipe = pid, pipe
        self.told, self.words = told, words
        """Pipes to it and from it, about what is held."""


TOLD = struct.Struct("<?QQ")
"""What the gate says of a line: whether it is from the client, its number, and the bytes that follow. Number
0: it asks from now on."""
WORD = struct.Struct("<BQQ")
"""What the gate is told: a word, the number of a line, and the bytes that follow."""
BEGIN, END, PASS, DROP, REPLACE, CUT, SAY, TELL = range(8)
"""Words: ask about lines, ask no more, let this line pass, drop it, write these bytes in its place, the same
and then break off; write these bytes to the client, or to the program."""
LONGEST_SHOWN = 1 << 20
"""Bytes of a line. A longer one is asked about without them, so that it passes in its turn."""


class OneWay:
    """What the gate knows of one direction. Its lock guards that, and what is written to the sink.

    While `is_plain`, a thread carries chunks past all this, and is alone at the sink.
    """

    __slots__ = (
        "asks", "begun", "has_turned", "is_from_client", "is_over", "is_plain", "is_reading", "kept", "last",
        "lock", "number", "reads", "sink", "source", "thread", "unsaid", "waiting", "weight",
    )  # fmt: skip

    def __init__(self, is_from_client: bool, source: int, sink: int) -> None:
        self.is_from_client, self.source, self.sink = is_from_client, source, sink
        self.lock = threading.Lock()
        self.thread: int | None = None
        """The one that carries; None before it does."""
        self.is_plain = True
        self.is_over = False
        """Whether nothing more is carried."""
        self.reads = 0
        """Reads begun, where `is_reading` tells of them."""
        self.is_reading = False
        self.kept = -1
        """The source while it is diverted, under another number."""
        self.has_turned = threading.Event()
        """Set once the thread that carries has noticed that."""
        self.asks = False
        """Whether to ask about lines."""
        self.last = b"\n"
        """What was carried last unasked."""
        self.begun: list[bytes] = []
        """Pieces of the line that is not whole yet."""
        self.waiting: dict[int, bytes] = {}
        """Lines that wait for their word, by number."""
        self.weight = 0
        """Their bytes."""
        self.number = int(is_from_client)
        """That of the last line: those of the client are odd."""
        self.unsaid: list[bytes] = []
        """What is to be written once the line is whole that was begun unasked."""

    @property
    def is_within_line(self) -> bool:
        """Whether a line was begun unasked."""
        return not self.last.endswith(b"\n")

    def divert(self) -> None:
        """Let the thread that carries find an end in place of its source, once it has written what it read.

        Its read, if it waits in one, is interrupted; Python reads again, from what has the number by then.
        """
        self.has_turned.clear()
        self.kept = os.dup(self.source)
        nothing, end = os.pipe()
        os.close(end)
        os.dup2(nothing, self.source)
        os.close(nothing)
        if self.thread is not None:
            signal.pthread_kill(self.thread, LOOK_AGAIN)

    def read(self, source: int) -> bytes:
        """The next bytes, or none at the end; tells that it waits for them. Raises: OSError."""
        self.reads += 1
        self.is_reading = True
        data = _read(source)
        self.is_reading = False
        return data

    def rejoin(self) -> None:
        """Give the source its number back."""
        os.dup2(self.kept, self.source)
        os.close(self.kept)
        self.kept, self.is_plain = -1, True


class Gate:
    """Where lines wait for a word of the recorder's process. Until it asks, it has no part in what passes."""

    def __init__(self, program: _Program, copies: Copies, recorder: CaptureProcess) -> None:
        self._program, self._copies, self._recorder = program, copies, recorder
        self._input, self.output = OneWay(True, 0, program.stdin), OneWay(False, program.stdout, 1)
        self._asking = threading.Lock()

    def carry(self, is_from_client: bool, carry_plain: Callable[[bytes], bytes]) -> None:
        """Carry one way to its end. Raises: OSError.

        `carry_plain` passes on what the source has until there is nothing more, and returns the last chunk;
        it is given the one before.
        """
        way = self._input if is_from_client else self.output
        way.thread = threading.get_ident()
        try:
            while True:
                way.last = carry_plain(way.last)
                with way.lock:
                    if way.kept < 0:
                        break
                    way.is_plain = False
                    way.has_turned.set()
                if not self._carry_asking(way):
                    break
            self._wait(way, 0)
            with way.lock:
                self._flush(way)
        finally:
            with way.lock:
                way.is_over, way.is_plain = True, False
                way.has_turned.set()
                if way.kept >= 0:
                    os.close(way.kept)  # nobody waits any more for what it has

    def _carry_asking(self, way: OneWay) -> bool:
        """Let lines wait for their word until nobody asks any more; False when nothing more comes.

        Raises: OSError.
        """
        while data := way.read(way.kept):
            with way.lock:
                if not way.asks:
                    way.rejoin()
                    way.last = data
                    self._copies.add(way.is_from_client, data)
                    _write(way.sink, data)
                    return True
                if way.is_from_client:
                    self._copies.add(True, data)
                for line in self._lines(way, data):
                    self._ask(way, line)
            self._wait(way, MOST_WAITING)
        return False

    def _enter(self, way: OneWay) -> None:
        """Take part in what is carried one way, if nobody does: what is being written is written first."""
        with way.lock:
            if way.is_over or not way.is_plain:
                return
            if way.kept < 0:
                way.divert()
        way.has_turned.wait()

    def close_input(self) -> None:
        """Close the program's input."""
        with self._input.lock:
            self._input.sink = -1
            os.close(self._program.stdin)

    def listen(self) -> None:
        """Do as the recorder's process says, until it ends; then nothing is held."""
        with os.fdopen(self._recorder.words, "rb") as words:
            while len(head := words.read(WORD.size)) == WORD.size:
                word, number, size = WORD.unpack(head)
                self._do(word, number, words.read(size))
        self._end()

    def _wait(self, way: OneWay, most: int) -> None:
        """Wait until no more than so many bytes are held one way, or the client is gone."""
        while way.weight > most and not _is_gone(1):
            time.sleep(GATHER_S)

    def _do(self, word: int, number: int, data: bytes) -> None:
        if word == BEGIN:
            for way in (self._input, self.output):
                with way.lock:
                    way.asks = True
                self._enter(way)
            self._tell(TOLD.pack(False, 0, 0))
        elif word == END:
            self._end()
        elif word in (SAY, TELL):
            way = self._input if word == TELL else self.output
            self._enter(way)
            with way.lock:
                if way.is_within_line:
                    way.unsaid.append(data)
                else:
                    self._put(way, data)
        else:
            self._decide(word, number, data)

    def _decide(self, word: int, number: int, data: bytes) -> None:
        """Do with a line that waits as was decided."""
        way = self._input if number % 2 else self.output
        with way.lock:
            if number not in way.waiting:
                return
            line = self._forget(way, number)
            if word != DROP:
                self._put(way, line if word == PASS else data)
        if word == CUT:
            _let_go(1)
            _signal_group(self._program.pid, signal.SIGTERM)

    def _end(self) -> None:
        """Ask no more: what waits goes on as it came."""
        for way in (self._input, self.output):
            # One after the other: a program may take no more before its output is read.
            with way.lock:
                way.asks = False
                for number in list(way.waiting):
                    self._put(way, self._forget(way, number))
                self._flush(way)

    def _flush(self, way: OneWay) -> None:
        """Write the line that has begun; it goes on unasked."""
        if way.begun:
            way.last, way.begun = b"".join(way.begun), []
            self._put(way, way.last)

    def _put(self, way: OneWay, data: bytes) -> None:
        """Write what has waited; a side that reads nothing more learns of it from the one that carries."""
        try:
            if not way.is_from_client:
                self._copies.add(False, data)
            _write(way.sink, data)
        except OSError:
            return

    def _lines(self, way: OneWay, data: bytes) -> Iterator[bytes]:
        """The lines that are whole now; one that was begun unasked goes on unasked. Raises: OSError."""
        if way.is_within_line:
            end = data.find(b"\n") + 1 or len(data)
            way.last, data = data[:end], data[end:]
            if not way.is_from_client:
                self._copies.add(False, way.last)
            _write(way.sink, way.last)
            while way.unsaid and not way.is_within_line:
                self._put(way, way.unsaid.pop(0))
        *ends, begun = data.split(b"\n")
        for end_of_line in ends:
            pieces, way.begun = way.begun, []
            yield b"".join((*pieces, end_of_line, b"\n"))
        if begun:
            way.begun.append(begun)

    def _ask(self, way: OneWay, line: bytes) -> None:
        way.number = number = way.number + 2
        way.waiting[number] = line
        way.weight += len(line)
        shown = line if len(line) <= LONGEST_SHOWN else b""
        if not self._tell(TOLD.pack(way.is_from_client, number, len(shown)) + shown):
            self._put(way, self._forget(way, number))  # Nobody is left to ask.

    def _tell(self, data: bytes) -> bool:
        """Tell the recorder's process; False when it has ended."""
        with self._asking:
            try:
                _write(self._recorder.told, data)
            except OSError:
                return False
        return True

    def _forget(self, way: OneWay, number: int) -> bytes:
        """A line that waits no longer."""
        line = way.waiting.pop(number)
        way.weight -= len(line)
        return line


class Passed:
    """A chunk that was carried."""

    __slots__ = ("at", "data", "is_from_client", "size")

    def __init__(self, at: float, is_from_client: bool, size: int, data: bytes) -> None:
        self.at = at
        """Unix time in seconds."""
        self.is_from_client = is_from_client
        self.size = size
        """Its bytes; where the capture was too far behind, `data` has only the last of them, or none."""
        self.data = data


class TapTraffic:
    """The recorder's end: what passes the tap, until that ends. It ends the program if the tap is killed."""

    def __init__(
        self, pipe: int, tap: int, client: int, group: int, started: float, told: int, words: int
    ) -> None:
        self.tap, self.client = tap, client
        """Processes."""
        self.told, self.words = told, words
        """Pipes from the gate and to it."""
        self.started = started
        """Unix time in seconds."""
        self._pipe = os.fdopen(pipe, "rb")
        self._group = group
        self._is_over = False

    def __iter__(self) -> Iterator[Passed]:
        """What passes, in order."""
        while not self._is_over and len(head := self._pipe.read(_HEAD.size)) == _HEAD.size:
            at, is_from_client, size, kept = _HEAD.unpack(head)
            data = self._pipe.read(kept)
            if not size:
                self._is_over = True
            elif len(data) == kept:
                yield Passed(at, is_from_client, size, data)
        if not self._is_over:
            _signal_group(self._group, signal.SIGTERM)

    def finish(self) -> None:
        """Wait for the end, if it has not come; end what a killed tap has left."""
        for _ in self:
            pass
        if not self._is_over:
            _end_group(self._group)


def run(argv: Sequence[str], write_capture: Callable[[TapTraffic], None]) -> int:
    """Carry between stdin, stdout and a command until it ends; returns its exit code, 128 + N for signal N.

    `write_capture` is called in a process of its own.
    Raises: OSError when the command cannot be started; ValueError for a NUL in it.
    """
    # Signals stay blocked, and are waited for: a handler would not be called for one that comes just before
    # the wait. Threads inherit the mask. macOS keeps no SIGCHLD for later unless it has a handler.
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(LOOK_AGAIN, lambda *_: None)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED)
    try:
        program = _start(argv, before)
    except BaseException:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise
    recorder = _start_recorder(program.pid, write_capture)
    copies = Copies(recorder)
    handing = threading.Thread(target=copies.hand_over, name="copies", daemon=True)
    gate = Gate(program, copies, recorder)
    carrier = _Carrier(program, gate, copies)
    carrier.start()
    handing.start()
    threading.Thread(target=gate.listen, name="gate", daemon=True).start()
    code = _wait_for_end(program)
    carrier.finish()
    copies.end()
    handing.join(END_S)
    return code if code >= 0 else 128 - code


class _Program:
    """A command that runs: its process and process group, and our ends of its pipes."""

    def __init__(self, pid: int, stdin: int, stdout: int) -> None:
        self.pid, self.stdin, self.stdout = pid, stdin, stdout


def _wait_for_end(program: _Program) -> int:
    """Pass signals on to a program until it ends; returns its exit code, -N for signal N."""
    while not (ended := os.waitpid(program.pid, os.WNOHANG))[0]:
        if (number := signal.sigwait(AWAITED)) != signal.SIGCHLD:
            _signal_group(program.pid, number)
    return os.waitstatus_to_exitcode(ended[1])


def _start(argv: Sequence[str], mask: set[signal.Signals | int]) -> _Program:
    """Start the command, whose stderr is ours, in a process group of its own. Raises: OSError, ValueError."""
    their_input, stdin = os.pipe()
    stdout, their_output = os.pipe()
    pid = os.posix_spawnp(
        argv[0],
        list(argv),
        os.environ,
        file_actions=((os.POSIX_SPAWN_DUP2, their_input, 0), (os.POSIX_SPAWN_DUP2, their_output, 1)),
        setpgroup=0,
        setsigmask=mask,
        setsigdef=RESTORED,
    )
    os.close(their_input)
    os.close(their_output)
    return _Program(pid, stdin, stdout)


def _start_recorder(group: int, write_capture: Callable[[TapTraffic], None]) -> CaptureProcess:
    """Start the process that writes the capture, and ends a process group if we are killed.

    It is forked while there is one thread, in a session of its own, and holds nothing of ours but stderr.
    """
    tap, client, started = os.getpid(), os.getppid(), time.time()
    read_end, write_end = os.pipe()
    told, tell = os.pipe()
    words, say = os.pipe()
    kept = sorted((read_end, told, say))
    if pid := os.fork():
        for end in kept:
            os.close(end)
        return CaptureProcess(pid, write_end, tell, words)
    try:
        os.setsid()
        os.nice(NICE)
        _let_go(0)
        _let_go(1)
        for before, after in zip((2, *kept), (*kept, os.sysconf("SC_OPEN_MAX")), strict=True):
            os.closerange(before + 1, after)
        traffic = TapTraffic(read_end, tap, client, group, started, told, say)
        try:
            write_capture(traffic)
        finally:
            traffic.finish()
    finally:
        os._exit(0)


def _end_group(group: int) -> None:
    """End a process group: SIGTERM, and SIGKILL for what is left."""
    _signal_group(group, signal.SIGTERM)
    time.sleep(PATIENCE_S)
    _signal_group(group, signal.SIGKILL)


def _signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except OSError:
        return  # It has ended.


class _Carrier:
    """Carries both ways between our client and a program."""

    def __init__(self, program: _Program, gate: Gate, copies: Copies) -> None:
        self._program, self._gate, self._copies = program, gate, copies
        self._input = threading.Thread(target=self._carry_input, name="input", daemon=True)
        self._output = threading.Thread(target=self._carry_output, name="output", daemon=True)

    def start(self) -> None:
        """Begin to carry."""
        self._input.start()
        self._output.start()

    def finish(self) -> None:
        """Carry what a program that has ended left in its pipe; what it started is ended."""
        way = self._gate.output
        while self._output.is_alive():
            reads = way.reads
            self._output.join(LINGER_S)
            if way.is_reading and way.reads == reads:
                break
        _signal_group(self._program.pid, signal.SIGKILL)
        self._output.join(LINGER_S)

    def _carry_input(self) -> None:
        try:
            self._gate.carry(True, self._pass_input)
        except OSError:
            _let_go(0)  # The program reads nothing more: the client is told as by a pipe.
        self._gate.close_input()
        self._end_when_client_is_gone()

    def _pass_input(self, data: bytes) -> bytes:
        add, stdin = self._copies.add, self._program.stdin
        while True:
            last, data = data, _read(0)
            if not data:
                return last
            add(True, data)
            _write(stdin, data)

    def _carry_output(self) -> None:
        try:
            self._gate.carry(False, self._pass_output)
        except OSError:
            self._gate.output.is_reading = False
        # The other side learns of it: a client by the end of our output, a program by a broken pipe.
        os.close(self._program.stdout)
        _let_go(1)

    def _pass_output(self, data: bytes) -> bytes:
        add, stdout, way = self._copies.add, self._program.stdout, self._gate.output
        while True:
            way.reads += 1
            way.is_reading = True
            last, data = data, _read(stdout)
            way.is_reading = False
            if not data:
                return last
            add(False, data)
            _write(1, data)

    def _end_when_client_is_gone(self) -> None:
        """A client that ended its input may wait for answers; one that does not read either is gone."""
        gone = select.poll()
        gone.register(1, 0)
        gone.poll()
        time.sleep(PATIENCE_S)
        _end_group(self._program.pid)


def _read(source: int) -> bytes:
    """The next bytes, or none at the end. Raises: OSError."""
    while True:
        try:
            return os.read(source, CHUNK)
        except BlockingIOError:
            _wait(source, select.POLLIN)  # Somebody else has the same pipe, and does not wait for it.


def _write(sink: int, data: bytes) -> None:
    """Write all of it. Raises: OSError."""
    written, rest = 0, data
    while True:
        try:
            written = os.write(sink, rest)
        except BlockingIOError:
            _wait(sink, select.POLLOUT)
            continue
        if written == len(rest):
            return
        rest = rest[written:]


def _is_gone(descriptor: int) -> bool:
    """Whether nobody reads what is written."""
    gone = select.poll()
    gone.register(descriptor, 0)
    return bool(gone.poll(0))


def _wait(descriptor: int, event: int) -> None:
    ready = select.poll()
    ready.register(descriptor, event)
    ready.poll()


def _let_go(descriptor: int) -> None:
    """Close a descriptor whose number must not be given to anything else."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
