"""Start and end of the processes of open connections."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from socket import socket
from typing import IO

import msgspec

from mcpdesk.errors import DeskUserError
from mcpdesk.features.open_connections.plan import ConnectionPlan, Outcome, decoded_outcome, encoded
from mcpdesk.features.open_connections.sockets import Request, visit

COMMAND = (sys.executable, "-P", "-m", "mcpdesk.features.open_connections.background")
MAX_STDERR_LINES = 50
"""Maximum number of lines on stderr that are shown of a process that fails before it connects."""
END_S = 15.0
"""Seconds to wait for the end of a process. The process needs at most `background.GRACE_S`."""


def start(plan: ConnectionPlan) -> Outcome:
    """Start a process for a connection, and wait until it is connected or has failed.

    If this function is interrupted, the process ends, too. Raises: DeskUserError if the process cannot run.
    """
    process = subprocess.Popen(
        COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    stderr_lines = deque[str](maxlen=MAX_STDERR_LINES)
    stderr_thread = threading.Thread(target=_read_lines, args=(process.stderr, stderr_lines), daemon=True)
    stderr_thread.start()
    try:
        with suppress(OSError), process.stdin:  # the process has ended
            process.stdin.write(encoded(plan))
        outcome_line = process.stdout.readline()
    except BaseException:
        _end_process(process)
        raise
    with suppress(msgspec.MsgspecError):
        return decoded_outcome(outcome_line)
    _end_process(process)
    stderr_thread.join(1.0)
    raise DeskUserError("The process of the connection ended.", "\n  ".join(stderr_lines), exit_code=1)


def _read_lines(stream: IO[bytes], lines: deque[str]) -> None:
    """Add the lines of a stream to `lines` until the stream ends."""
    with suppress(OSError, ValueError):
        for line in stream:
            lines.append(line.decode("utf-8", "replace").rstrip())


def _end_process(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to end, and kill it if it does not end within `END_S`."""
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()


def end(name: str) -> bool:
    """End the process of a connection. Return False if no connection has this name.

    Raises: DeskUserError if the process does not end.
    """
    visited = visit(name, Request.END)
    if visited is None:
        return False
    connection, description = visited
    with connection:
        if not _wait_until_closed(connection):
            raise DeskUserError(
                f"The open connection {name!r} does not end (process {description.report.pid}).",
                f"Kill it: kill -9 {description.report.pid}",
                exit_code=1,
            )
    return True


def _wait_until_closed(connection: socket) -> bool:
    """Wait until the other process closes the connection. Return False if it does not within `END_S`."""
    connection.settimeout(END_S)
    try:
        while connection.recv(4096):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True
