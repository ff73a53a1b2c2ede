"""The stdio transport: starts a server program and communicates over its stdin and stdout.

Source: MCP basic/transports/stdio.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self, cast

from msgspec import Struct, field
from msgspec.structs import replace

from mcpdesk.client.answers.large_frames import OnFrame, OrderedFrameQueue
from mcpdesk.client.answers.pending_replies import ConnectedTransport, PendingReplies
from mcpdesk.client.transport import Incoming, Receive, excerpt
from mcpdesk.errors import InvalidAnswer, Unreachable
from mcpdesk.protocol import codec
from mcpdesk.protocol.framing import LineFramer
from mcpdesk.protocol.jsonrpc import JSONObject
from mcpdesk.protocol.reading.message import ReadFrame, is_answer, read_frame
from mcpdesk.protocol.reading.message_framer import MessageFramer
from mcpdesk.protocol.reading.remark import Remark, RemarkKind

STDIN, STDOUT, STDERR = 0, 1, 2
MAX_LINE_BYTES = 256 << 20
MAX_LOG_LINE_BYTES = 64 << 10
MAX_LAST_LINES = 20
"""Number of last lines of stderr that are kept, to explain why a program ended."""
BUFFERING_NOTE = (
    "it answered only after its input was closed, because it was still starting or does not flush its output"
)
STARTED_AGAIN = "before it was started again,"
"""Beginning of the description of the run before the current one."""
MAX_QUOTED_LENGTH = 80
"""Maximum number of characters of a stray output line that a remark quotes."""
INCOMPLETE_S = 2.0
"""Time limit in seconds for the next line of a message that spans several lines."""
ALLOWED_LATE_ANSWERS = 1
"""Number of responses that may arrive after stdin was closed, such as the answer to a cancelled request.

If more arrive, the program probably does not flush its output.
"""
UNTERMINATED_S = 0.3
"""Time limit in seconds for the newline after a message."""
LINGER_S = 0.5
"""Seconds for which output is read after a program has ended. Its child processes may keep the pipe open."""
CLOSED_STDOUT_WAIT_S = 2.0
"""Seconds to wait for the exit of a program after it closed its stdout."""
EXIT_TIMEOUT_S = 2.0
"""Seconds to wait for the exit of a program after its stdin was closed, and again after SIGTERM."""
PROBE_S = 1.5
"""Time limit in seconds for the first answer. If no answer arrives, an older revision is tried."""


class ProgramEnded(Unreachable):
    """The program ended. `code` is its exit code, negative for a signal. `last_lines` are from its stderr."""

    def __init__(self, code: int, last_lines: Sequence[str]) -> None:
        ending = f"with exit code {code}" if code >= 0 else f"by {_signal_name(-code)}"
        last_output = excerpt(" / ".join(line.strip() for line in last_lines[-3:]))
        super().__init__(f"the program ended {ending}{f': {last_output}' if last_output else ''}")
        self.code = code
        self.last_lines = tuple(last_lines)


class ProgramCommand(Struct, frozen=True):
    """Command to start without a shell."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    """Complete environment of the program."""
    folder: Path | None = None
    """Working directory, or None for the working directory of this process."""


class ChildProcess(ConnectedTransport):
    """Transport to a program in its own process group.

    If the program has ended, the next use starts it again.
    """

    def __init__(
        self,
        program: ProgramCommand,
        *,
        on_log: Callable[[str], None] = lambda line: None,
        on_stray: Callable[[bytes], None] = lambda line: None,
        on_started: Callable[[int], None] = lambda pid: None,
        on_ended: Callable[[ProgramEnded], None] = lambda ended: None,
    ) -> None:
        """`on_log` receives each line of stderr, `on_stray` each line of stdout that is not a message."""
        super().__init__(excerpt(" ".join(program.argv)), PendingReplies(is_pipe=True))
        self._program = program
        self._on_log, self._on_stray = on_log, on_stray
        self._on_started, self._on_ended = on_started, on_ended
        self._receive: Receive = lambda incoming: None
        self._has_reported_stray_output = False
        self._run: ProgramRun | None = None
        self._latest_run: ProgramRun | None = None
        """Latest run that has ended, or None before the first end."""
        self._latest_end: ProgramEnded | None = None
        self._earlier_end: ProgramEnded | None = None
        """End of the run before the current one. None once the program has answered."""

    @property
    def is_open(self) -> bool:
        """True while the program runs."""
        return self._run is not None

    @property
    def probe_s(self) -> float:
        """Time limit in seconds for the first answer. A program may not answer an unknown request."""
        return PROBE_S

    @property
    def unexpected_bytes(self) -> str:
        """Description of an earlier end, or of output that is not a usable message or arrived too late."""
        run = self._run or self._latest_run
        if run is None:
            return ""
        if self._earlier_end is not None:
            return f"{STARTED_AGAIN} {self._earlier_end.message}"
        if run.late_answers > ALLOWED_LATE_ANSWERS:
            return BUFFERING_NOTE
        if run.unterminated_output:
            text = excerpt(run.unterminated_output)[:MAX_QUOTED_LENGTH]
            return f"it wrote {text!r} without a newline, which ends a message"
        return ""

    async def open(self, receive: Receive) -> None:
        """Start the program. Raises: Unreachable if it cannot be started."""
        self._receive = receive
        if self._run is not None:
            return
        self._earlier_end = self._latest_end
        self._run = await ProgramRun.start(
            self._program, self._on_stdout_line, self._on_too_long_line, self._on_log, self._on_program_end
        )
        self._on_started(self._run.pid)

    async def send(self, message: JSONObject) -> None:
        """Write a message, waiting while the pipe is full. Raises: ProgramEnded."""
        if self._run is None:
            raise self._latest_end or Unreachable("the program is not running")
        await self._run.write(codec.encode(message) + b"\n")

    async def close(self) -> None:
        """End the program, first by closing its stdin, then with signals to its process group."""
        if self._run is not None:
            await self._run.end()

    def _on_program_end(self, code: int, last_lines: Sequence[str]) -> None:
        self._latest_run, self._run = self._run, None
        self._latest_end = ProgramEnded(code, last_lines)
        self._replies.fail(self._latest_end)
        self._on_ended(self._latest_end)

    def _on_too_long_line(self) -> None:
        self._replies.fail(InvalidAnswer(f"a line of its answer exceeds {MAX_LINE_BYTES} bytes"))

    def _on_stdout_line(self, line: bytes, read: ReadFrame | None) -> None:
        if self._replies.deliver(line, self._receive, read):
            self._earlier_end = None
            return
        self._on_stray(line)
        if not self._has_reported_stray_output:
            self._has_reported_stray_output = True
            self._receive(Incoming(None, b"", (stdout_remark(line),)))


def stdout_remark(line: bytes) -> Remark:
    """Return the remark for a program that prints text other than messages to stdout."""
    text = f"the server printed text on stdout that is not a message: {excerpt(line)[:MAX_QUOTED_LENGTH]!r}"
    return Remark(RemarkKind.STDOUT, f"{text}; it must log to stderr")


class ProgramRun(asyncio.SubprocessProtocol):
    """One run of a program in its own process group, until the program and its output have ended."""

    def __init__(
        self,
        on_line: OnFrame,
        on_long_line: Callable[[], None],
        on_log: Callable[[str], None],
        on_end: Callable[[int, Sequence[str]], None],
    ) -> None:
        self._on_line, self._on_long_line, self._on_log, self._on_end = on_line, on_long_line, on_log, on_end
        self._frame_queue = OrderedFrameQueue(self._process_frame, self._pause)
        self._output_framer = MessageFramer(MAX_LINE_BYTES)
        self._log_framer = LineFramer(MAX_LOG_LINE_BYTES, keeps_indent=True)
        self._incomplete_timer: asyncio.TimerHandle | None = None
        """Timer after which an incomplete message is split into lines."""
        self._closed_stdout_timer: asyncio.TimerHandle | None = None
        """Timer after which a program that has closed its stdout is ended."""
        self._is_ending = False
        self.late_answers = 0
        """Number of responses that arrived after stdin was closed."""
        self._last_lines: deque[str] = deque(maxlen=MAX_LAST_LINES)
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._transport: asyncio.SubprocessTransport
        self._linger_timer: asyncio.TimerHandle | None = None
        self.ended_event = asyncio.Event()

    @classmethod
    async def start(
        cls,
        program: ProgramCommand,
        on_line: OnFrame,
        on_long_line: Callable[[], None],
        on_log: Callable[[str], None],
        on_end: Callable[[int, Sequence[str]], None],
    ) -> Self:
        """Start a program. Raises: Unreachable if it cannot be started.

        `on_line` receives each line of its stdout and `on_log` each line of its stderr. `on_end` receives its
        exit code, negative for a signal, and its last lines of stderr.
        """
        if not hasattr(os, "killpg"):
            raise Unreachable("programs cannot be started on Windows, which lacks process groups")
        loop = asyncio.get_running_loop()
        try:
            _refuse_nul(program)
            _, run = await loop.subprocess_exec(
                lambda: cls(on_line, on_long_line, on_log, on_end),
                *program.argv,
                cwd=program.folder,
                env=dict(program.environment),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise Unreachable(await asyncio.to_thread(_start_failure, program, error)) from None
        return run

    @property
    def pid(self) -> int:
        """Id of the program's process, which is also its process group."""
        return self._transport.get_pid()

    @property
    def unterminated_output(self) -> bytes:
        """Beginning of a line of output that has no newline yet."""
        return self._output_framer.first_piece[:MAX_LOG_LINE_BYTES]

    async def write(self, line: bytes) -> None:
        """Write a line, then wait until the pipe has room again."""
        stdin = cast("asyncio.WriteTransport | None", self._transport.get_pipe_transport(STDIN))
        if stdin is not None and not stdin.is_closing():
            stdin.write(line)
            await self._can_write.wait()

    async def end(self) -> None:
        """End the program, first by closing its stdin, then with signals to its process group."""
        self._is_ending = True
        if stdin := self._transport.get_pipe_transport(STDIN):
            stdin.close()
        for signal_number in (None, signal.SIGTERM, signal.SIGKILL):
            if signal_number is not None:
                _signal_group(self.pid, signal_number)
            with suppress(TimeoutError):
                async with asyncio.timeout(EXIT_TIMEOUT_S):
                    await self.ended_event.wait()
                return

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport when the program has started."""
        self._transport = cast(asyncio.SubprocessTransport, transport)  # uvloop's class is not a subclass

    def pause_writing(self) -> None:
        """Pause writing, because the pipe is full."""
        self._can_write.clear()

    def resume_writing(self) -> None:
        """Resume writing."""
        self._can_write.set()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Process output of the program."""
        if fd == STDERR:
            self._process_log_lines(self._log_framer.feed(data))
            return
        self._deliver(self._output_framer.feed(data))
        if self._incomplete_timer is not None:
            self._incomplete_timer.cancel()
            self._incomplete_timer = None
        loop = asyncio.get_running_loop()
        if self._output_framer.is_within_message:
            self._incomplete_timer = loop.call_later(INCOMPLETE_S, self._split_incomplete)
        elif self._output_framer.may_be_unterminated:
            self._incomplete_timer = loop.call_later(UNTERMINATED_S, self._flush_unterminated)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Flush buffered output when a pipe is closed."""
        if fd == STDIN:
            self._can_write.set()
        elif fd == STDOUT:
            self._flush_unterminated()
            for frame in self._output_framer.close():
                self._frame_queue.put(frame, _with_cut_remark)
            self._closed_stdout_timer = asyncio.get_running_loop().call_later(
                CLOSED_STDOUT_WAIT_S, self._end_without_stdout
            )
        else:
            self._process_log_lines([self._log_framer.close()])

    def process_exited(self) -> None:
        """Kill the process group after the program exits, because a child may keep the pipes open."""
        self._frame_queue.when_empty(self._close_after_linger)
        _signal_group(self.pid, signal.SIGKILL)

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end once the program and its output have ended."""
        for timer in (self._linger_timer, self._incomplete_timer, self._closed_stdout_timer):
            if timer is not None:
                timer.cancel()
        self._can_write.set()
        self.ended_event.set()
        return_code = self._transport.get_returncode()
        self._transport.close()
        exit_code = -signal.SIGKILL if return_code is None else return_code
        self._frame_queue.when_empty(lambda: self._on_end(exit_code, list(self._last_lines)))

    def _close_after_linger(self) -> None:
        self._linger_timer = asyncio.get_running_loop().call_later(LINGER_S, self._transport.close)

    def _end_without_stdout(self) -> None:
        """End a program that has closed its stdout but still runs, because it cannot answer requests.

        uvloop reports the end of stdout only when the program exits, so with uvloop such a program is not
        ended here.
        """
        if self._is_ending or self._transport.get_returncode() is not None:
            return
        self._process_log_lines([b"mcpdesk ends this program, because it closed its standard output"])
        _signal_group(self.pid, signal.SIGTERM)
        self._closed_stdout_timer = asyncio.get_running_loop().call_later(
            EXIT_TIMEOUT_S, self._kill_without_stdout
        )

    def _kill_without_stdout(self) -> None:
        if self._transport.get_returncode() is None:  # otherwise another process group may have the number
            _signal_group(self.pid, signal.SIGKILL)

    def _split_incomplete(self) -> None:
        """Deliver an incomplete message as separate lines."""
        self._incomplete_timer = None
        self._deliver(self._output_framer.give_up())

    def _flush_unterminated(self) -> None:
        self._incomplete_timer = None
        if frame := self._output_framer.take_unterminated():
            self._frame_queue.put(frame, _with_unterminated_remark)

    def _deliver(self, frames: Sequence[bytes]) -> None:
        for frame in frames:
            self._frame_queue.put(frame)

    def _process_frame(self, frame: bytes, read: ReadFrame | None) -> None:
        if frame and self._is_ending and self.late_answers <= ALLOWED_LATE_ANSWERS:
            read = read or read_frame(frame, is_line=True)
            self.late_answers += any(map(is_answer, read.messages))
        if frame:
            self._on_line(frame, read)
        else:
            self._on_long_line()

    def _pause(self, is_paused: bool) -> None:
        """Pause or resume reading from the program's stdout."""
        stdout = cast("asyncio.ReadTransport | None", self._transport.get_pipe_transport(STDOUT))
        if stdout is not None and not stdout.is_closing():
            (stdout.pause_reading if is_paused else stdout.resume_reading)()

    def _process_log_lines(self, lines: Sequence[bytes]) -> None:
        for line in lines:
            if text := line.decode("utf-8", "replace").rstrip():
                self._last_lines.append(text)
                self._on_log(text)


def _with_unterminated_remark(read: ReadFrame) -> ReadFrame:
    """Add the remark that no newline follows a message."""
    text = "no newline follows the message; each message must end with one"
    return replace(read, remarks=(*read.remarks, Remark(RemarkKind.UNTERMINATED, text)))


def _with_cut_remark(read: ReadFrame) -> ReadFrame:
    """Say in the fault of an incomplete message that the output ended there.

    The frame no longer counts as a response, so that its request fails because the program ended.
    """
    if read.fault is None:
        return read
    text = f"the output ended in the middle of a message; {read.fault.text}"
    return replace(
        read, fault=replace(read.fault, kind=RemarkKind.UNTERMINATED, text=text), is_response=False
    )


def _refuse_nul(program: ProgramCommand) -> None:
    """Raise ValueError for a null byte, because uvloop would cut the text there and run another command."""
    texts = (*program.argv, *program.environment, *program.environment.values(), str(program.folder or ""))
    if any("\0" in text for text in texts):
        raise ValueError("embedded null byte")


def _start_failure(program: ProgramCommand, error: Exception) -> str:
    """Return the reason why a program cannot be started. Reads the file system."""
    program_name = program.argv[0]
    if isinstance(error, FileNotFoundError):
        if program.folder is not None and not program.folder.is_dir():
            return f"its working folder {program.folder} does not exist"
        return f"program {program_name!r} does not exist"
    if isinstance(error, PermissionError):
        return f"{program_name!r} is not executable"
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return f"{program_name!r} cannot be started: {reason}"


def _signal_group(group: int, signal_number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal_number)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
