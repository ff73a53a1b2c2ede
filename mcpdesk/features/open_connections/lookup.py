"""Lookup of the open connection that a command uses."""

from __future__ import annotations

import hashlib
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mcpdesk.client.configs.client_places import is_client_server
from mcpdesk.client.configs.python_commands import module_target
from mcpdesk.client.discovery import find_configured_server
from mcpdesk.client.targets import COMMAND, split_target
from mcpdesk.errors import DeskUserError
from mcpdesk.feature import OpenConnection
from mcpdesk.features.open_connections.report import ConnectionDescription
from mcpdesk.features.open_connections.sockets import (
    Request,
    description_of,
    may_have_connections,
    open_connections,
    plan_of_connection,
    visit,
)
from mcpdesk.recorder.masking import mask_text

if TYPE_CHECKING:
    from mcpdesk.client.targets import Target
    from mcpdesk.client.transport import ClientTransport
    from mcpdesk.upstream.target_transport import Reach

MAX_CONFIG_BYTES = 4 << 20
"""Maximum size in bytes of a file whose content is compared."""


def connection_for(target: str, *, has_options: bool, is_name: bool = False) -> OpenConnection | None:
    """Return the open connection with the name `target`, or to the same server, or None.

    If `is_name`, only the name is looked up. A command with options for a new connection uses no open
    connection to the same server. Raises: DeskUserError for a name with such options, and if several
    connections have the same server.
    """
    try:
        if not may_have_connections():
            return None
    except DeskUserError:  # other users can write to the sockets' folder, so it cannot be trusted
        return None
    description = description_of(target)
    if description is not None and has_options:
        raise DeskUserError(
            f"{target} is an open connection, which cannot get other options.",
            "Give the options to `mcpdesk up`, or use the server itself as TARGET.",
        )
    if description is None and not has_options and not is_name:
        description = same_server(target)
    if description is None:
        return None
    report = description.report
    folder = Path(report.folder) if report.folder else None
    name = report.name
    return OpenConnection(
        name, report.pid, folder, partial(_transport, name), partial(_server_and_options, name)
    )


def same_server(target: str) -> ConnectionDescription | None:
    """Return the open connection to the same server, or None. Raises: DeskUserError if there are several."""
    if not (key := target_key(target)):
        return None
    connections = [each for each in open_connections() if each.key == key]
    if len(connections) > 1:
        names = ", ".join(each.report.name for each in connections)
        raise DeskUserError(
            f"{mask_text(target)} has {len(connections)} open connections: {names}.", "Use one of the names."
        )
    return connections[0] if connections else None


def target_key(target: str) -> str:
    """Return a text that is equal for targets that name the same server, or "" for an unknown target.

    Nothing is started, and the content of a configuration file is not used.
    """
    folder = Path.cwd()
    if target.startswith(COMMAND):
        return f"{COMMAND}{shlex.join(shlex.split(target[len(COMMAND) :]))} in {folder}"
    if "://" in target:
        return target
    try:
        path, name = find_configured_server(target) if is_client_server(target) else split_target(target)
        if path.exists():
            return f"{path.resolve()}:{name}{_content_digest(path)}"
    except (DeskUserError, OSError):
        return ""
    return f"module {target} in {folder}" if module_target(target, folder) is not None else ""


def _content_digest(path: Path) -> str:
    """Return a digest of a configuration file, or "" for any other path.

    A changed file has another key, because its entry may name another server. Raises: OSError.
    """
    if not path.is_file() or path.suffix == ".py" or path.stat().st_size > MAX_CONFIG_BYTES:
        return ""
    return f" {hashlib.sha256(path.read_bytes()).hexdigest()}"


def _server_and_options(name: str) -> tuple[Target, Reach]:
    """Return the server of an open connection, and the options for a second connection to it.

    Raises: DeskUserError.
    """
    from mcpdesk.features.open_connections.plan import decoded_plan

    data = plan_of_connection(name)
    if data is None:
        raise _ended_error(name)
    return decoded_plan(data).server_and_options


def _ended_error(name: str) -> DeskUserError:
    message = f"The open connection {name!r} has just ended."
    return DeskUserError(message, "`mcpdesk ps` lists the others.", next_command="mcpdesk ps")


def _transport(name: str) -> ClientTransport:
    """Return a transport to the process of an open connection. Raises: DeskUserError."""
    from mcpdesk.features.open_connections.relay_client import RelayClient

    visited = visit(name, Request.RELAY)
    if visited is None:
        raise _ended_error(name)
    return RelayClient(visited[0], name)
