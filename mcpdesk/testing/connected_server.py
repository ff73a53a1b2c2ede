"""Connections that cases run against, with the log lines of their servers."""

from __future__ import annotations

import os
import sys
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mcpdesk.client.targets import BrokenTarget, CommandTarget, UrlTarget
from mcpdesk.client.transport import excerpt
from mcpdesk.connect import connect
from mcpdesk.errors import CallError
from mcpdesk.settings import BY_NAME as SETTINGS_BY_NAME
from mcpdesk.testing.case_files import Case
from mcpdesk.testing.case_run import CaseResult, ScriptedAnswers, run_case
from mcpdesk.upstream.target_transport import ProgramEvents, Reach
from mcpdesk.version import __version__

if TYPE_CHECKING:
    from mcpdesk.client.connection import ServerConnection
    from mcpdesk.connect.connecting import Target
    from mcpdesk.hosting.host import Host
    from mcpdesk.hosting.journal import LogLine

CLIENT_INFO = {"name": "mcpdesk-test", "version": __version__}
NO_REACH = Reach()
CONNECT_S = 60.0
"""Time limit for starting a server and connecting to it, unless the setting `connect_timeout_s` is higher."""
MAX_LOG_LINES = 200
"""Maximum number of log lines kept per case; the newest are kept."""
_PROBLEM_LEVELS = ("warning", "error", "critical")
_PRINT_SOURCES = ("print", "stdout", "stderr")


class ConnectedServer:
    """A connected server that runs cases one after another."""

    def __init__(
        self,
        connection: ServerConnection,
        answers: ScriptedAnswers,
        new_log_lines: Callable[[], list[str]],
        host: Host | None,
    ) -> None:
        """`new_log_lines` returns the log lines since its last call. `host` is the host of the server's
        folder, or None if another process hosts the server.
        """
        self.connection, self.answers, self.host = connection, answers, host
        self._new_log_lines = new_log_lines

    async def run(self, case: Case) -> CaseResult:
        """Run one case. Never raises for errors of the server."""
        self._new_log_lines()
        result = await run_case(case, self.connection, self.answers)
        return CaseResult(
            case, result.failures, result.duration_ms, tuple(self._new_log_lines()[-MAX_LOG_LINES:])
        )


@asynccontextmanager
async def connected(target: Target, reach: Reach = NO_REACH) -> AsyncIterator[ConnectedServer]:
    """Connect to any server, and list its tools before the first case, so that no case includes the time of
    the list. Raises: DeskError if the server cannot be hosted, started or reached.
    """
    from mcpdesk.settings import resolve

    answers = ScriptedAnswers()
    program_log = ProgramLog()
    host = None
    if not isinstance(target, UrlTarget | CommandTarget | BrokenTarget):
        from mcpdesk.hosting.host import Host

        host = target if isinstance(target, Host) else None
    opening = connect(
        target,
        CLIENT_INFO,
        reach=reach,
        answers=answers.handlers,
        on_log=ProgramEvents(program_log.log, program_log.stray),
        limit_s=max(CONNECT_S, resolve({}, os.environ).settings.connect_timeout_s),
    )
    async with opening as connection:
        with suppress(CallError):
            await connection.list_all("tools/list", "tools")
        yield ConnectedServer(connection, answers, program_log if host is None else HostLog(host), host)


@asynccontextmanager
async def isolated(
    folder: Path,
    reach: Reach,
    transport: str = "memory",
    *,
    environment: Mapping[str, str] | None = None,
    captured: Callable[[Host], AbstractContextManager[None]] = lambda host: nullcontext(),
) -> AsyncIterator[ConnectedServer]:
    """Host a folder with separate state, and connect over memory or HTTP, or over stdio to another process.

    `environment` is added to the environment of the other process. `captured` returns a context manager that
    surrounds the run of a host in this process.
    """
    with tempfile.TemporaryDirectory(prefix="mcpdesk-test-", ignore_cleanup_errors=True) as state:
        if transport == "stdio":
            command = stdio_target(folder, Path(state), reach, environment or {})
            async with connected(command, reach._replace(mode="", token=None)) as server:
                yield server
            return
        host = isolated_host(folder, Path(state), http=transport == "http")
        with captured(host):
            async with connected(host, reach) as server:
                yield server


def isolated_host(folder: Path, state: Path, *, http: bool = False) -> Host:
    """Return a host of a folder that shares no state with other runs. Raises: DeskError."""
    from mcpdesk.connect.in_process import lone_host

    return lone_host(folder, {"state_dir": str(state), "port": 0, "host": "127.0.0.1"}, http=http)


class HostLog:
    """Callable that returns the new log lines of a host: printed text, warnings, errors and tracebacks."""

    def __init__(self, host: Host) -> None:
        self._journal = host.journal
        self._last_number = -1

    def __call__(self) -> list[str]:
        """Return the new lines."""
        lines = self._journal.lines(self._last_number)
        self._last_number = lines[-1].number if lines else self._last_number
        return [
            _line(each) for each in lines if each.source in _PRINT_SOURCES or each.level in _PROBLEM_LEVELS
        ]


class ProgramLog:
    """Callable that returns the newest output of a server program, except protocol messages."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=MAX_LOG_LINES - 1)
        self._dropped_count = 0

    def log(self, line: str) -> None:
        """Store a line of stderr."""
        self._dropped_count += len(self._lines) == self._lines.maxlen
        self._lines.append(line)

    def stray(self, line: bytes) -> None:
        """Store the beginning of a line on stdout that is not a message."""
        self.log(f"(stdout) {excerpt(line)}")

    def __call__(self) -> list[str]:
        """Return the lines since the last call. If lines were dropped, the first line says how many."""
        lines = [f"({self._dropped_count} earlier lines were dropped)"] if self._dropped_count else []
        lines += self._lines
        self._lines.clear()
        self._dropped_count = 0
        return lines


def _line(line: LogLine) -> str:
    return f"{line.where}: {line.text}" if line.where else line.text


def stdio_target(folder: Path, state: Path, reach: Reach, environment: Mapping[str, str]) -> CommandTarget:
    """Return the command that serves a folder over stdio in a separate process."""
    mode_option = ("--mode", reach.mode) if reach.mode else ()
    argv = (sys.executable, "-P", "-m", "mcpdesk", "stdio", str(folder), "--alone", *mode_option)
    token = {} if reach.token is None else dict.fromkeys(SETTINGS_BY_NAME["token"].environment, reach.token)
    return CommandTarget(argv, {**environment, "MCPDESK_STATE_DIR": str(state), **token})
