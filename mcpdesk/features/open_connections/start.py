"""Starts and ends the processes of open connections."""

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
"""Maximum number of lines of a process that are shown if it fails before it connects."""
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
    lines = deque[str](maxlen=MAX_STDERR_LINES)
    reading = threading.Thread(target=_read, args=(process.stderr, lines), daemon=True)
    reading.start()
    try:
        with suppress(OSError), process.stdin:  # the process has ended
            process.stdin.write(encoded(plan))
        line = process.stdout.readline()
    except BaseException:
        _end(process)
        raise
    with suppress(msgspec.MsgspecError):
        return decoded_outcome(line)
    _end(process)
    reading.join(1.0)
    raise DeskUserError("The process of the connection ended.", "\n  ".join(lines), exit_code=1)


def _read(stream: IO[bytes], lines: deque[str]) -> None:
    with suppress(OSError, ValueError):
        for line in stream:
            lines.append(line.decode("utf-8", "replace").rstrip())


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()


def end(name: str) -> bool:
    """End the process of a connection. Return False if no connection has the name.

    Raises: DeskUserError if the process does not end.
    """
    visited = visit(name, Request.END)
    if visited is None:
        return False
    connection, description = visited
    with connection:
        if not _is_closed(connection):
            raise DeskUserError(
                f"The open connection {name!r} does not end (process {description.report.pid}).",
                f"Kill it: kill -9 {description.report.pid}",
                exit_code=1,
            )
    return True


def _is_closed(connection: socket) -> bool:
    """Wait until the other side is closed. Return False after `END_S`."""
    connection.settimeout(END_S)
    try:
        while connection.recv(4096):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True
