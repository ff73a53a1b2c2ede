"""Trust in configuration files: a person agrees to the content of a file before it is first used.

A client configuration names programs to start, variables to read, and URLs that receive their values.
The person who opens the file may not have written it. Agreement is stored in `trust.json` in the state
folder, by path of the file and SHA-256 of its content. The path matters, because a relative path in the
content names a different program in each folder.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from mcpdesk import private_files
from mcpdesk.client.config_files import ConfigFile
from mcpdesk.client.configs.servers import ConfiguredServer
from mcpdesk.client.configs.variables import EDITOR_VARIABLES, variables
from mcpdesk.client.untrusted_file import UntrustedFile
from mcpdesk.errors import DeskUserError
from mcpdesk.recorder.masking import is_secret

FILE_NAME = "trust.json"
MAX_ENTRIES = 1000
"""Maximum entries in `trust.json`. The oldest are dropped first."""
MAX_BYTES = 4 << 20
"""Maximum bytes of `trust.json`."""
MAX_LINE_LENGTH = 4000
"""Maximum characters shown of one command or URL."""
MAX_LINES = 400
"""Maximum lines shown of one file."""
_OTHER_PREFIXES = ("input:", "workspaceFolder:", "workspaceFolderBasename:")
"""Prefixes of variables that are not in the environment."""


class TrustEntry(Struct, frozen=True):
    """File content that a person agreed to."""

    path: str
    sha256: str
    agreed: float
    """Unix time in seconds."""


class TrustFile(Struct, frozen=True):
    """Content of `trust.json`."""

    entries: tuple[TrustEntry, ...] = ()
    """Oldest first."""
    dropped: int = 0
    """Number of entries dropped because of the limit."""


class UntrustedFileError(DeskUserError):
    """A file has servers that the person has not agreed to."""

    def __init__(self, file: UntrustedFile) -> None:
        command = f"mcpdesk trust {shlex.quote(file.path)}"
        super().__init__(
            f"{file.path} names servers to start or connect to, and you have not trusted this content.",
            f"Read it and trust it: {command}. Or trust it once with --trust.",
            next_command=command,
        )
        self.file = file


class TrustRefused(DeskUserError):
    """A person was asked to trust the content of a file, and refused."""


Agree = Callable[[ConfigFile], None]
"""Called with a file before its content is used. Raises: DeskUserError unless the person agreed."""


class TrustStore:
    """Store of agreements in a state folder. Several processes may use it at the same time."""

    def __init__(self, state: Path) -> None:
        self._path = state / FILE_NAME
        self._lock = state / f"{FILE_NAME}.lock"

    def read(self) -> TrustFile:
        """Return all entries. Raises: DeskUserError if the file cannot be read."""
        try:
            with self._path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
            if len(data) > MAX_BYTES:
                raise ValueError(f"it has more than {MAX_BYTES} bytes")
            return msgspec.json.decode(data, type=TrustFile)
        except FileNotFoundError:
            return TrustFile()
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            raise DeskUserError(f"{self._path} cannot be read: {error}.", "Repair or delete it.") from None

    def is_trusted(self, path: Path, sha256: str) -> bool:
        """Return True if the person agreed to this content of the file."""
        key = (str(path.resolve()), sha256)
        return any((each.path, each.sha256) == key for each in self.read().entries)

    def trust(self, path: Path, sha256: str) -> None:
        """Store the person's agreement. Raises: DeskUserError if the file cannot be written."""
        entry = TrustEntry(str(path.resolve()), sha256, time.time())
        key = (entry.path, entry.sha256)

        def with_entry(trusted: TrustFile) -> TrustFile:
            other_entries = [each for each in trusted.entries if (each.path, each.sha256) != key]
            entries = [*other_entries, entry][-MAX_ENTRIES:]
            return TrustFile(tuple(entries), trusted.dropped + len(other_entries) + 1 - len(entries))

        self._change(with_entry)

    def forget(self, path: Path) -> int:
        """Remove all entries of a file and return their number. Raises: DeskUserError."""
        count = 0

        def without_file(trusted: TrustFile) -> TrustFile:
            nonlocal count
            entries = tuple(each for each in trusted.entries if each.path != str(path.resolve()))
            count = len(trusted.entries) - len(entries)
            return TrustFile(entries, trusted.dropped)

        self._change(without_file)
        return count

    def _change(self, change: Callable[[TrustFile], TrustFile]) -> None:
        try:
            with private_files.locked(self._lock):
                new_content = change(self.read())
                private_files.write(
                    self._path, msgspec.json.format(msgspec.json.encode(new_content), indent=1)
                )
        except OSError as error:
            raise DeskUserError(f"{self._path} cannot be written: {error.strerror}.") from None


def describe_untrusted(config: ConfigFile) -> UntrustedFile:
    """Describe a file for the trust question. Variables in it are not expanded."""
    lines = [line for server in config.servers for line in _lines(server, config)]
    if len(lines) > MAX_LINES:
        lines = [*lines[:MAX_LINES], f"... {len(lines) - MAX_LINES} more lines: read the file"]
    return UntrustedFile(str(config.path.resolve()), config.sha256, tuple(lines))


def _lines(server: ConfiguredServer, config: ConfigFile) -> Iterator[str]:
    """Yield the lines that describe one server for the trust question."""
    if server.problem:
        yield f"{server.name}: cannot be used: {server.problem}"
        return
    if server.url:
        yield _shortened(f"{server.name}: connects to {server.url}")
    else:
        yield _shortened(f"{server.name}: starts {shlex.join(server.argv)}")
    if server.folder or server.project:
        yield _shortened(f"  in the folder {Path(server.project) / server.folder}")
    if server.environment_file:
        yield _shortened(f"  reads the variables in the file {server.environment_file}")
    for verb, pairs in (("sets the variable", server.environment), ("sends the header", server.headers)):
        for name, value in pairs.items():
            is_hidden = is_secret(name) and "${" not in value
            yield _shortened(f"  {verb} {name}={'••••' if is_hidden else value}")
    if server.account:
        yield _shortened(f"  uses your login {server.account}")
    yield from map(_shortened, _login_lines(server))
    variable_names = variables(server)
    environment_names = [
        name
        for name in variable_names
        if not name.startswith(_OTHER_PREFIXES) and name not in EDITOR_VARIABLES
    ]
    input_names = [name.partition(":")[2] for name in variable_names if name.startswith("input:")]
    if environment_names:
        yield _shortened(f"  reads the environment variables {', '.join(environment_names)}")
    if input_names:
        yield _shortened(f"  asks you for {', '.join(input_names)}")
    if server.is_disabled:
        yield "  only if you name it, because it is disabled"
    for remark in server.remarks:
        yield _shortened(f"  note: {remark}")


def _login_lines(server: ConfiguredServer) -> Iterator[str]:
    login = server.login
    if login.client_id:
        yield f"  logs in as the client {login.client_id}"
    if login.client_metadata_url:
        yield f"  logs in as the client described at {login.client_metadata_url}"
    if login.provider_url:
        yield f"  sends an ID token to {login.provider_url}"
    for file in login.files:
        yield f"  reads a secret for the login in the file {file}"


def _shortened(line: str) -> str:
    """Shorten the middle of a line that is too long, because both ends of a command matter."""
    if len(line) <= MAX_LINE_LENGTH:
        return line
    half = MAX_LINE_LENGTH // 2
    return f"{line[:half]} [{len(line) - 2 * half} characters left out: read the file] {line[-half:]}"
