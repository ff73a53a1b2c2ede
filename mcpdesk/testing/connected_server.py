"""Connections that cases run against, with the log lines of their servers."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mcpdesk.client.connection import ServerConnection
from mcpdesk.client.targets import CommandTarget
from mcpdesk.client.transport import excerpt
from mcpdesk.errors import CallError
from mcpdesk.protocol.revisions import BY_NAME
from mcpdesk.settings import BY_NAME as SETTINGS_BY_NAME
from mcpdesk.testing.case_files import Case
from mcpdesk.testing.case_run import CaseResult, ScriptedAnswers, run_case
from mcpdesk.upstream.target_transport import Reach
from mcpdesk.version import __version__

if TYPE_CHECKING:
    from mcpdesk.client.transport import ClientTransport
    from mcpdesk.hosting.host import Host
    from mcpdesk.hosting.journal import LogLine
    from mcpdesk.server.offer.server import Server

IDENTITY = {"name": "mcpdesk-test", "version": __version__}
NO_REACH = Reach()
MOST_LOGGED = 200
"""Maximum number of log lines kept per case; the newest are kept."""
_TROUBLE = ("warning", "error", "critical")
_PRINTED = ("print", "stdout", "stderr")


class ConnectedServer:
    """A connected server that runs cases one after another."""

    def __init__(
        self, connection: ServerConnection, answers: ScriptedAnswers, logged: Callable[[], list[str]]
    ) -> None:
        self.connection, self.answers = connection, answers
        self.host: Host | None = None
        """Host of the server's folder, if it is hosted in this process."""
        self._logged = logged

    async def run(self, case: Case) -> CaseResult:
        """Run one case. Never raises for errors of the server."""
        self._logged()
        result = await run_case(case, self.connection, self.answers)
        return CaseResult(case, result.failures, result.duration_ms, tuple(self._logged()[-MOST_LOGGED:]))


@asynccontextmanager
async def connected(
    transport: ClientTransport, logged: Callable[[], list[str]], revision: str = ""
) -> AsyncIterator[ConnectedServer]:
    """Connect to any server. Raises: CallError if it cannot be reached."""
    answers = ScriptedAnswers()
    connection = ServerConnection(
        transport, IDENTITY, questions=answers.handlers, revision=BY_NAME.get(revision)
    )
    try:
        yield await _opened(connection, answers, logged)
    finally:
        await connection.close()


async def _opened(
    connection: ServerConnection, answers: ScriptedAnswers, logged: Callable[[], list[str]]
) -> ConnectedServer:
    """Connect, and list the tools, so that the first case does not include the time for loading."""
    await connection.open()
    with suppress(CallError):
        await connection.list_all("tools/list", "tools")
    return ConnectedServer(connection, answers, logged)


def isolated_host(folder: Path, state: Path, *, http: bool = False) -> Host:
    """Return a host of a folder that shares no state with other runs. Raises: DeskError."""
    from mcpdesk.hosting.host import Host
    from mcpdesk.hosting.host_plan import HostPlan, effective_settings

    flags = {"state_dir": str(state), "port": 0, "host": "127.0.0.1"}
    settings = effective_settings(flags, os.environ, folder).settings
    return Host(HostPlan((folder,), settings, http=http, meet=False, watch=False))


@asynccontextmanager
async def hosted(host: Host, reach: Reach = NO_REACH) -> AsyncIterator[ConnectedServer]:
    """Connect to the folder of a host, over HTTP if the host listens, else in memory. Raises: DeskError."""
    from mcpdesk.bridge.client import caller, connect_to_endpoint
    from mcpdesk.client.credentials import credential_headers
    from mcpdesk.client.http_transports import StreamableHttp

    answers, logged, revision = ScriptedAnswers(), HostLog(host), BY_NAME.get(reach.revision)
    try:
        await host.start()
        endpoint = host.endpoint("", reach.mode)
        assert endpoint is not None
        if host.plan.http:
            key, header = host.rules.api_key, host.settings.api_key_header
            headers = credential_headers(reach.token, key, header, dict(reach.headers))
            transport = StreamableHttp(host.url(endpoint.name), headers, reach.mode)
            connection = ServerConnection(transport, IDENTITY, questions=answers.handlers, revision=revision)
        else:
            principal = await caller(endpoint.server, reach.token)
            connection = connect_to_endpoint(endpoint, principal, answers.handlers(), revision=revision)
        try:
            server = await _opened(connection, answers, logged)
            server.host = host
            yield server
        finally:
            await connection.close()
    finally:
        await host.stop()


@asynccontextmanager
async def hosted_object(server: Server, reach: Reach) -> AsyncIterator[ConnectedServer]:
    """Connect to a server made in code, in memory. Raises: DeskError."""
    from mcpdesk.bridge.client import connect_to_server

    answers = ScriptedAnswers()
    connection = await connect_to_server(server, reach.token, answers.handlers(), BY_NAME.get(reach.revision))
    try:
        yield await _opened(connection, answers, list)
    finally:
        await connection.close()


class HostLog:
    """Callable that returns the new log lines of a host: printed text, warnings, errors and tracebacks."""

    def __init__(self, host: Host) -> None:
        self._journal = host.journal
        self._last = -1

    def __call__(self) -> list[str]:
        """Return the new lines."""
        lines = self._journal.lines(self._last)
        self._last = lines[-1].number if lines else self._last
        return [_line(each) for each in lines if each.source in _PRINTED or each.level in _TROUBLE]


class ProgramLog:
    """Callable that returns the newest output of a server program, except protocol messages."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=MOST_LOGGED - 1)
        self._dropped = 0

    def log(self, line: str) -> None:
        """Keep a line of stderr."""
        self._dropped += len(self._lines) == self._lines.maxlen
        self._lines.append(line)

    def stray(self, line: bytes) -> None:
        """Keep the beginning of a line on stdout that is not a message."""
        self.log(f"(stdout) {excerpt(line)}")

    def __call__(self) -> list[str]:
        """Return the lines since the last call. If lines were dropped, the first line says how many."""
        lines = [f"({self._dropped} earlier lines were dropped)"] if self._dropped else []
        lines += self._lines
        self._lines.clear()
        self._dropped = 0
        return lines


def _line(line: LogLine) -> str:
    return f"{line.where}: {line.text}" if line.where else line.text


def stdio_target(folder: Path, state: Path, mode: str = "", token: str | None = None) -> CommandTarget:
    """Return the command that serves a folder over stdio in a separate process.

    `token` is a bearer token of the client.
    """
    more = ("--mode", mode) if mode else ()
    argv = (sys.executable, "-m", "mcpdesk", "stdio", str(folder), "--alone", *more)
    given = {} if token is None else dict.fromkeys(SETTINGS_BY_NAME["token"].environment, token)
    return CommandTarget(argv, {"MCPDESK_STATE_DIR": str(state), **given})
