"""Targets of a client: a folder, URL, command, entry of a configuration file, or Python file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from mcpdesk.client.configs.client_places import CLIENTS, is_client_server
from mcpdesk.client.oauth.login_options import NO_OPTIONS, LoginOptions
from mcpdesk.errors import DeskUserError

if TYPE_CHECKING:
    from mcpdesk.client.config_files import ConfigFile
    from mcpdesk.client.configs.servers import ConfiguredServer, InputVariable
    from mcpdesk.client.trust import Agree

COMMAND = "$ "
"""Prefix of a target that is a command, with its words quoted as in a shell."""
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HOST_AND_PATH = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)*\.[a-z]{2,24}(:\d{1,5})?/(mcp|sse)/?", re.ASCII)
_HEADER_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")


class FolderTarget(Struct, frozen=True):
    """Server folder to host in this process."""

    path: Path


class UrlTarget(Struct, frozen=True):
    """Server at a URL."""

    url: str
    headers: Mapping[str, str] = {}
    kind: str = ""
    """Transport: `http`, `sse` or `ws`. Empty to detect it."""
    account: str = ""
    """Account whose login is used, if a configuration file names one."""
    login: LoginOptions = NO_OPTIONS
    """Login options from a configuration file."""


class CommandTarget(Struct, frozen=True):
    """Server program to start."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = {}
    """Variables added to the environment."""
    folder: Path | None = None
    title: str = ""
    """Name to show instead of the command."""
    watched: tuple[Path, ...] = ()
    """Files and folders that restart the program when they change, besides the files in the command."""
    sources: tuple[Path, ...] = ()
    """Files and folders of the program's code. Only changes of Python files in them restart the program."""

    @property
    def text(self) -> str:
        """Name to show: the title, or else the command."""
        return self.title or shlex.join(self.argv)


class BrokenTarget(Struct, frozen=True):
    """Entry of a configuration file that cannot be used."""

    problem: str
    is_disabled: bool = False
    """True if the entry may be valid, but is marked as disabled. `problem` names its file."""


RemoteTarget = UrlTarget | CommandTarget | BrokenTarget
"""Target of an entry in a configuration file: a server of another process, or an unusable entry."""
Target = FolderTarget | UrlTarget | CommandTarget
"""Target that the user can name: a folder to host, a URL or a command."""


class UnknownTarget(DeskUserError):
    """A text names no server, folder or file."""


def command_text(argv: Sequence[str]) -> str:
    """Return a command in the form of a target."""
    return COMMAND + shlex.join(argv)


def find_target(
    text: str,
    environ: Mapping[str, str],
    ask: Callable[[InputVariable], str],
    agree: Agree,
    packages: Sequence[str] = (),
) -> Target:
    """Resolve a text to a target.

    `ask` returns the value of an input that a configuration file declares. `agree` is called with a
    configuration file before its content is used. `packages` are dependencies of a Python file.

    Raises: DeskUserError with the reason and the kinds of targets.
    """
    if text.startswith(COMMAND):
        return CommandTarget(tuple(shlex.split(text[len(COMMAND) :])))
    if "://" in text:
        return UrlTarget(text, kind="ws" if text.startswith(("ws://", "wss://")) else "")
    if is_client_server(text):
        from mcpdesk.client.discovery import find_configured_server

        path, name = find_configured_server(text)
    else:
        path, name = split_target(text)
    if path.is_dir():
        return FolderTarget(path.resolve())
    # Imported late, because a folder does not need these modules and must load quickly.
    from mcpdesk.client.config_files import read_config
    from mcpdesk.client.configs.program_names import shell_word
    from mcpdesk.client.configs.python_commands import (
        file_command,
        module_command,
        module_files,
        module_target,
    )

    if not path.exists() and (module_and_object := module_target(text, Path.cwd())):
        module, object_name = module_and_object
        command = module_command(module, object_name, packages, Path.cwd())
        title = f"{module}:{object_name}" if object_name else module
        return CommandTarget(command, title=title, sources=module_files(module, Path.cwd()))
    if not path.exists():
        hint = "A server is a folder, a URL, a configuration or Python file, or `-- COMMAND ARGS`."
        raise UnknownTarget(f"No folder or file {text!r}.", client_hint(text) or hint)
    if path.suffix == ".py":
        command = file_command(path.resolve(), name, packages)
        return CommandTarget(command, title=f"{path.resolve()}:{name}" if name else str(path.resolve()))
    if path.suffix == ".jsonl":
        from mcpdesk.recorder.archive import require_capture

        require_capture(path)  # raises the same error as `mcpdesk open` if the file is not a capture
        open_command = shlex.join(["mcpdesk", "open", text])
        raise DeskUserError(
            f"{text!r} is a capture.", f"Did you mean `{open_command}`?", next_command=open_command
        )
    config = read_config(path)
    agree(config)
    if not name and len(config.servers) != 1:
        names = ", ".join(shell_word(each.name) for each in config.servers) or "none"
        raise DeskUserError(f"{path} has several servers.", f"Name one as {path}:NAME. Names: {names}.")
    server = config.server(name) if name else config.servers[0]
    if server.is_disabled and not name:
        hint = f"Use it anyway: {shell_word(f'{path}:{server.name}')}."
        raise DeskUserError(f"{server.name} is disabled in {path}.", hint)
    return _expanded_target(server, config, environ, ask)


def configured_targets(
    path: Path,
    environ: Mapping[str, str],
    ask: Callable[[InputVariable], str],
    agree: Agree,
    names: Collection[str] = (),
) -> list[tuple[str, RemoteTarget]]:
    """Return the names and targets of a file's servers: those in `names`, or all if `names` is empty.

    A server that cannot be used or is disabled becomes a `BrokenTarget`, and is not expanded. `agree` is
    called with the file before its content is used.

    Raises: DeskUserError for a file that cannot be read.
    """
    from mcpdesk.client.config_files import read_config

    config = read_config(path)
    agree(config)
    targets: list[tuple[str, RemoteTarget]] = []
    for server in config.servers:
        if names and server.name not in names:
            continue
        if server.is_disabled:
            targets.append((server.name, BrokenTarget(f"it is disabled in {path}", is_disabled=True)))
            continue
        try:
            target: RemoteTarget = _expanded_target(server, config, environ, ask)
        except DeskUserError as error:
            problem = f"{error} {error.hint}".strip()
            target = BrokenTarget(problem.removeprefix(f"{server.name}: ").rstrip("."))
        targets.append((server.name, target))
    return targets


def _expanded_target(
    server: ConfiguredServer,
    config: ConfigFile,
    environ: Mapping[str, str],
    ask: Callable[[InputVariable], str],
) -> UrlTarget | CommandTarget:
    """Expand an entry of a trusted configuration file. Raises: DeskUserError if the entry cannot be used."""
    from mcpdesk.client.configs.variables import expanded

    try:
        return entry_target(
            expanded(server, environ, config.inputs, ask, config.workspace_of(server)), config
        )
    except (OSError, ValueError, RuntimeError) as error:  # such as an unknown user in `~user`
        raise DeskUserError(f"{server.name}: a path in it cannot be used: {error}") from None


def entry_target(server: ConfiguredServer, config: ConfigFile) -> UrlTarget | CommandTarget:
    """Return the target for an entry of a trusted configuration file.

    Raises: DeskUserError if the entry cannot be used.
    """
    from mcpdesk.client.configs.fastmcp_file import python_command

    if server.problem:
        raise DeskUserError(f"{server.name}: {server.problem}.")
    if server.url:
        return _url_target(server)
    workspace = config.workspace_of(server)
    folder = workspace if config.is_of_project or server.project else None
    if server.folder:
        folder = workspace / Path(server.folder).expanduser()
    for name in server.environment:
        if not name or "=" in name:
            raise DeskUserError(f"{server.name}: env has {name[:80]!r}, which is not a variable name.")
    if any("\0" in text for text in (*server.argv, server.folder, *server.environment.values())):
        raise DeskUserError(f"{server.name}: its command has a NUL character.")
    _check_program(server, folder)
    argv = python_command(server) if server.python_file else server.argv
    return CommandTarget(argv, server.environment, folder)


def _url_target(server: ConfiguredServer) -> UrlTarget:
    """Return the target of an entry with a URL. Raises: DeskUserError for an invalid URL or header."""
    from mcpdesk.client.http_transports import checked_url

    url = server.url.strip()
    is_socket = url.lower().startswith(("ws://", "wss://"))
    if not is_socket and not url.lower().startswith(("http://", "https://")):
        raise DeskUserError(
            f"{server.name}: its url must begin with http://, https://, ws:// or wss://: {url[:200]}."
        )
    try:
        checked_url(f"http{url[2:]}" if is_socket else url)
    except DeskUserError as error:
        raise DeskUserError(f"{server.name}: {error}", error.hint) from None
    for name, value in server.headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise DeskUserError(f"{server.name}: {name[:80]!r} is not a header name.")
        if not _HEADER_VALUE.fullmatch(value):
            raise DeskUserError(f"{server.name}: the header {name} has characters that cannot be sent.")
    if problem := server.login.problem():
        raise DeskUserError(f"{server.name}: oauth: {problem}.")
    kind = "ws" if is_socket else server.kind
    return UrlTarget(url, server.headers, kind, server.account, server.login)


def _check_program(server: ConfiguredServer, folder: Path | None) -> None:
    """Check the command of an entry. Raises: DeskUserError if arguments are part of the program's name."""
    import shutil

    program = server.argv[0]
    words = program.split()
    if len(words) < 2 or shutil.which(program) or (folder or Path()).joinpath(program).exists():
        return
    if shutil.which(words[0]) or len(server.argv) == 1:
        raise DeskUserError(
            f"{server.name}: program {program[:200]!r} does not exist; a command is one program.",
            f'Write "command": "{words[0][:80]}" and the other words into "args".',
        )


def client_hint(text: str) -> str:
    """Return a hint for a URL without its scheme or a misspelled client in `client:server`, or else ""."""
    from difflib import get_close_matches

    if _HOST_AND_PATH.fullmatch(text):
        return f"Did you mean https://{text}?"
    client, colon, name = text.partition(":")
    similar_clients = get_close_matches(client, CLIENTS, n=1) if colon and name else []
    return f"Did you mean {similar_clients[0]}:{name[:80]}?" if similar_clients else ""


def split_target(text: str) -> tuple[Path, str]:
    """Split a text into the path of a file and the name after its last colon.

    If the text is an existing path, or no file is before the colon, the name is empty.
    """
    path = Path(text).expanduser()
    path_text, colon, name = text.rpartition(":")
    if colon and not path.exists() and Path(path_text).expanduser().is_file():
        return Path(path_text).expanduser(), name
    return path, ""
