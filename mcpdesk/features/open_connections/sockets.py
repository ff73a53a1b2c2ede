"""Sockets on which the processes of open connections are found.

The socket of a connection is in the runtime folder of the user, and its name is a digest of the connection's
name. A command that connects (a visitor) sends one line with a `Request`. The process answers with one line,
a `ConnectionDescription`. After `RELAY`, lines in both directions are MCP messages. After `PLAN`, a second
line is the plan (an encoded `ConnectionPlan`: the server, and how to connect to it).
"""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum

import msgspec

from mcpdesk.cli.printing import CANNOT_CONNECT
from mcpdesk.errors import DeskUserError
from mcpdesk.features.open_connections.report import ConnectionDescription
from mcpdesk.transports import rendezvous

SOCKET_SUFFIX = ".open"
ANSWER_S = 2.0
"""Seconds within which a process must answer a request."""
MAX_ANSWER_BYTES = 1 << 20
MAX_REQUEST_BYTES = 100
MAX_PLAN_BYTES = 8 << 20


class Request(StrEnum):
    """First line that a visitor sends."""

    DESCRIBE = "describe"
    """Asks for a description of the connection."""
    RELAY = "relay"
    """Asks for a description of the connection. MCP messages follow it."""
    PLAN = "plan"
    """Asks for a description of the connection, and for its plan, which contains secrets."""
    END = "end"
    """Asks the process to end. The socket closes when it has ended."""


def socket_path(name: str) -> str:
    """Return the path of the socket of a connection."""
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{rendezvous.runtime_folder()}/{digest}{_state_suffix()}{SOCKET_SUFFIX}"


def occupy(name: str) -> rendezvous.ListeningSocket | None:
    """Listen on the socket of a connection. Return None if another process has a connection of this name.

    Raises: OSError.
    """
    rendezvous.sweep(rendezvous.private_folder())
    return rendezvous.listen(socket_path(name))


def open_connections(silent_pids: list[int] | None = None) -> list[ConnectionDescription]:
    """Return the open connections of this user, oldest first.

    The ids of processes that do not answer are added to `silent_pids`. Sockets of killed processes are
    deleted. Raises: DeskUserError if other users can access the folder of the sockets.
    """
    descriptions = list[ConnectionDescription]()
    has_stale_socket = False
    for path in _socket_paths():
        connection = None
        try:
            connection = rendezvous.connect(path)
            if connection is None:
                has_stale_socket = True
            else:
                descriptions.append(ask(connection, Request.DESCRIBE))
        except (OSError, EOFError, msgspec.MsgspecError):
            pid = None if connection is None else rendezvous.peer_credentials(connection)[0]
            if silent_pids is not None and pid is not None:
                silent_pids.append(pid)
        finally:
            if connection is not None:
                connection.close()
    if has_stale_socket:
        with suppress(OSError):
            rendezvous.sweep(rendezvous.runtime_folder())
    return sorted(descriptions, key=lambda each: each.report.since)


def description_of(name: str) -> ConnectionDescription | None:
    """Return the description of the open connection with this name, or None.

    Raises: DeskUserError if its process does not answer.
    """
    visited = visit(name, Request.DESCRIBE)
    if visited is None:
        return None
    connection, description = visited
    connection.close()
    return description


def visit(name: str, request: Request) -> tuple[socket.socket, ConnectionDescription] | None:
    """Send a request to the process of a connection. Return the socket and the answer, or None if no process
    has a connection of this name.

    Raises: DeskUserError if the process does not answer.
    """
    if not may_have_connections():
        return None
    try:
        connection = rendezvous.connect(socket_path(name))
    except OSError:
        return None
    if connection is None:
        return None
    pid = rendezvous.peer_credentials(connection)[0]
    try:
        return connection, ask(connection, request)
    except (OSError, EOFError, msgspec.MsgspecError):
        connection.close()
        process = f"process {pid}" if pid is not None else "its process"
        raise DeskUserError(
            f"The open connection {name!r} does not answer ({process}).",
            f"End it: kill -9 {pid}" if pid is not None else "",
            CANNOT_CONNECT,
        ) from None


def plan_of_connection(name: str) -> bytes | None:
    """Return the encoded plan of a connection, or None if no process has a connection of this name.

    Raises: DeskUserError if the process does not answer.
    """
    visited = visit(name, Request.PLAN)
    if visited is None:
        return None
    connection, _ = visited
    try:
        connection.settimeout(ANSWER_S)
        return read_line(connection, MAX_PLAN_BYTES)
    except (OSError, EOFError):
        raise DeskUserError(
            f"The open connection {name!r} sent no plan, so its server is unknown.",
            f"End it with `mcpdesk down {name}`, and open it again with `mcpdesk up`.",
            CANNOT_CONNECT,
        ) from None
    finally:
        connection.close()


def may_have_connections() -> bool:
    """Return True if sockets of open connections exist. Their processes may have ended.

    Raises: DeskUserError if other users can access the folder.
    """
    return next(_socket_paths(), None) is not None


def ask(connection: socket.socket, request: Request) -> ConnectionDescription:
    """Send a request and return the answer. Raises: OSError, EOFError, MsgspecError."""
    connection.settimeout(ANSWER_S)
    connection.sendall(f"{request}\n".encode())
    line = read_line(connection, MAX_ANSWER_BYTES)
    connection.settimeout(None)
    return msgspec.json.decode(line, type=ConnectionDescription)


def read_line(connection: socket.socket, max_bytes: int) -> bytes:
    """Read one line, and no byte after it. Raises: OSError; EOFError if there is no complete line."""
    line = b""
    while not line.endswith(b"\n"):
        peeked = connection.recv(min(4096, max_bytes - len(line)), socket.MSG_PEEK)
        line_end = peeked.find(b"\n") + 1
        part = connection.recv(line_end or len(peeked)) if peeked else b""
        if not part or len(line) >= max_bytes:
            raise EOFError
        line += part
    return line


def _socket_paths() -> Iterator[str]:
    if not rendezvous.HAS_SOCKETS:
        return
    folder = rendezvous.runtime_folder()
    if not os.path.lexists(folder):
        return
    try:
        rendezvous.check_private(folder)
    except FileNotFoundError:
        return
    except rendezvous.UntrustedFolder as error:
        raise DeskUserError(f"Open connections cannot be found: {error}.") from None
    suffix = f"{_state_suffix()}{SOCKET_SUFFIX}"
    with suppress(OSError):
        for name in os.listdir(folder):
            if name.endswith(suffix) and len(name) == 16 + len(suffix):
                yield f"{folder}/{name}"


def _state_suffix() -> str:
    """Return the part of socket names that differs between state folders."""
    return rendezvous.state_mark(os.environ.get(rendezvous.STATE_VARIABLE, ""))
