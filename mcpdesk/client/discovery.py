"""Servers in the configuration files of all known clients on this machine.

The files are read and parsed, but nothing in them is started, expanded or connected to. All functions block.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from mcpdesk.client.config_files import ConfigFile, NoServers, read_config
from mcpdesk.client.configs.client_places import CLIENTS, ClientFile, client_named, platform_rows, row_paths
from mcpdesk.client.configs.program_names import program_name, shell_word
from mcpdesk.client.configs.servers import ConfiguredServer
from mcpdesk.errors import DeskUserError

MAX_PARENTS = 32
"""Maximum number of parent folders that are searched for project files."""
MAX_FILES = 500
"""Maximum number of files that are read."""
MAX_SERVERS = 2000
"""Maximum number of servers that are returned."""
MAX_ADDRESS_LENGTH = 200
_LOG = logging.getLogger(__name__)


class FoundServer(Struct, frozen=True):
    """Server in a configuration file of a client."""

    client: str
    """Name of the client. Empty for a file of no known client."""
    server: ConfiguredServer
    path: Path
    sha256: str
    """SHA-256 of the content of the file."""
    scope: str
    """`project`, `user` or `system`."""
    is_shadowed: bool = False
    """True if an earlier file of the same client has a server with this name."""
    connection: str = ""
    """Name of the open connection that the server is known by, if it is in no file. `path` is then unused."""

    @property
    def target(self) -> str:
        """Text that every command accepts as a target."""
        if self.connection:
            return self.connection
        needs_path = self.is_shadowed or not self.client
        return f"{self.path}:{self.server.name}" if needs_path else f"{self.client}:{self.server.name}"

    @property
    def transport(self) -> str:
        """`stdio`, `http`, `sse` or `ws`."""
        if not self.server.url:
            return "stdio"
        return "ws" if self.server.url.startswith(("ws://", "wss://")) else self.server.kind or "http"

    @property
    def address(self) -> str:
        """Program, or host and path of the URL. May contain unsafe characters.

        Arguments, queries and passwords are left out, because they may be secrets.
        """
        if not self.server.url:
            return program_name([word for word in self.server.argv if "=" not in word] or ["?"])
        try:
            url = urlsplit(self.server.url)
        except ValueError:
            return "invalid URL"
        return f"{url.netloc.rpartition('@')[2]}{url.path}"[:MAX_ADDRESS_LENGTH]


class FileProblem(Struct, frozen=True):
    """Configuration file that cannot be used."""

    client: str
    path: Path
    reason: str


class FoundServers(Struct, frozen=True):
    """Result of a search. Files of the working folder come first, then those of its parents."""

    servers: tuple[FoundServer, ...]
    problems: tuple[FileProblem, ...]
    files: int
    """Number of files that were read."""
    is_cut: bool = False
    """True if there were more files or servers than the limits."""


def discover(
    home: Path | None = None,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
    clients: tuple[str, ...] = CLIENTS,
) -> FoundServers:
    """Read the configuration files of the clients.

    By default, `home` is the user's home folder, `folder` the working folder, and `environ` the environment
    of this process. A file that cannot be read becomes a problem and does not stop the search.
    """
    servers: list[FoundServer] = []
    problems: list[FileProblem] = []
    known_names: set[tuple[str, str]] = set()  # pairs of a client and a server
    is_cut = False
    file_count = 0
    for row, path in _existing_files(home, folder, environ, clients):
        if file_count == MAX_FILES or len(servers) >= MAX_SERVERS:
            is_cut = True
            break
        file_count += 1
        try:
            config = read_config(path)
        except NoServers:
            continue
        except DeskUserError as error:
            problems.append(FileProblem(row.client, path, str(error).removeprefix(f"{path}: ")))
            continue
        except Exception as error:  # a file must not end the search for the others
            _LOG.exception("a configuration file could not be read")
            bug = "reading the file triggers a bug of mcpdesk"
            reason = str(error) if isinstance(error, OSError | ValueError) else bug
            problems.append(FileProblem(row.client, path, reason))
            continue
        found_servers = list(_found_servers(row, path, config, known_names))
        is_cut = is_cut or len(servers) + len(found_servers) > MAX_SERVERS
        servers += found_servers[: MAX_SERVERS - len(servers)]
    return FoundServers(tuple(servers), tuple(problems), file_count, is_cut)


def find_configured_server(text: str) -> tuple[Path, str]:
    """Return the file and the server for a text of the form `client:server`.

    Raises: DeskUserError with similar names if the client has no such server.
    """
    client, _, name = text.partition(":")
    discovery = discover(clients=(client_named(client),))
    for found_server in discovery.servers:
        if found_server.server.name == name:
            return found_server.path, name
    names = list(dict.fromkeys(found_server.server.name for found_server in discovery.servers))
    similar_names = get_close_matches(name, names, n=3)
    command = ""
    if similar_names:
        targets = (shell_word(f"{client}:{each}") for each in similar_names)
        hint = f"Did you mean {' or '.join(targets)}?"
    elif names:
        hint = f"Its servers: {', '.join(map(shell_word, names[:20]))}."
    else:
        command = "mcpdesk list"
        hint = f"`{command}` lists the servers of all clients."
    problem_text = "".join(f" {each.path} cannot be read: {each.reason}" for each in discovery.problems[:1])
    message = f"No configuration of {client} has a server {name[:80]!r}.{problem_text}"
    raise DeskUserError(message, hint, next_command=command)


def _existing_files(
    home: Path | None, folder: Path | None, environ: Mapping[str, str] | None, clients: tuple[str, ...]
) -> Iterator[tuple[ClientFile, Path]]:
    """Yield each existing file once: of the folder and its parents, then of the user, then of the system."""
    home = home or Path.home()
    folder = (folder or Path.cwd()).resolve()
    variables = os.environ if environ is None else environ
    rows = [row for row in platform_rows() if row.client in clients]
    known_paths: set[Path] = set()
    user_files = [
        (row, path)
        for scope in ("user", "system")
        for row in rows
        if row.scope == scope
        for path in row_paths(row, home, folder, variables)
    ]
    resolved_user_paths = {_resolved(path) for _, path in user_files}
    project_files = (
        (row, path)
        for project_folder in (folder, *list(folder.parents)[:MAX_PARENTS])
        for row in rows
        if row.scope == "project"
        for path in row_paths(row, home, project_folder, variables)
        if _resolved(path) not in resolved_user_paths  # the home folder is a parent of most folders
    )
    for files in (project_files, iter(user_files)):
        for row, path in files:
            resolved = _resolved(path)
            if resolved not in known_paths and _is_file(path):
                known_paths.add(resolved)
                yield row, path


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # a loop of symbolic links
        return path


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # for example in a folder that this user cannot read
        return False


def _found_servers(
    row: ClientFile, path: Path, config: ConfigFile, known_names: set[tuple[str, str]]
) -> Iterator[FoundServer]:
    """Yield the servers of a file, and add their names to `known_names`."""
    for server in config.servers:
        key = (row.client, server.name)
        yield FoundServer(row.client, server, path, config.sha256, row.scope, key in known_names)
        known_names.add(key)
