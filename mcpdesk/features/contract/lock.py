"""Finds, compares and writes the lock of a server's contract."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mcpdesk.cli.printing import print_message, write_report
from mcpdesk.cli.reach import server_folder
from mcpdesk.client.targets import COMMAND
from mcpdesk.errors import DeskUserError
from mcpdesk.features.contract.lock_file import Lock, lock_text, read_lock
from mcpdesk.features.contract.reports import Remark
from mcpdesk.hosting.folder.manifest import LOCK_NAME
from mcpdesk.protocol.catalogue.contract import Definitions, contract_changes, contract_part

if TYPE_CHECKING:
    from mcpdesk.link.values import CatalogueItem


class LockLocation(NamedTuple):
    """Lock file to compare with, or to write."""

    file: Path
    will_write: bool
    """True if the lock file must be written after the comparison."""
    is_own: bool
    """True for the lock file in the server's own folder."""


class Contract(NamedTuple):
    """Names and definitions of a server's items, on which clients rely."""

    server: str
    """Name of the server."""
    definitions: Definitions
    sources: Mapping[tuple[str, str], str]
    """File and line of each item, if known."""


def contract_of(server: str, items: Sequence[CatalogueItem]) -> Contract:
    """Return the contract of a server's items."""
    return Contract(
        server,
        {(item.kind.value, item.name): contract_part(item.definition) for item in items if item.definition},
        {(item.kind.value, item.name): item.source for item in items},
    )


def lock_file_path(
    target: str, is_folder: bool, file: str | None, update: bool, packages: Sequence[str] = ()
) -> LockLocation | None:
    """Return the lock file to use, or None if no lock was requested.

    `file` is the value of --lock, or empty. Raises: DeskUserError if the file cannot be determined, or if no
    lock exists to compare with.
    """
    if file is None and not update:
        return None
    if not file and not is_folder:
        command = _update_command(target, "NAME.lock.json", packages)
        raise DeskUserError(
            "The lock file of a server that is not a folder must be named with --lock FILE.",
            f"Write it with `{command}`, and compare without --update.",
            next_command=command,
        )
    own_lock = server_folder(target) / LOCK_NAME if is_folder else None
    path = Path(file).expanduser() if file else own_lock
    assert path is not None
    if not update and not path.exists():
        message = f"No lock {path}, so nothing was compared."
        command = _update_command(target, file or "", packages)
        hint = f"Write it with `{command}`, and keep it with the source."
        raise DeskUserError(message, hint, next_command=command)
    return LockLocation(path, update, own_lock is not None and path.resolve() == own_lock)


def compare_with_lock(location: LockLocation, current: Contract, *, has_errors: bool) -> list[Remark]:
    """Return the differences of a contract from the lock, and write the lock if requested.

    `has_errors` is True if the check of the server found errors. The lock is then not written.

    Raises: DeskUserError if the lock file cannot be read or written, or belongs to another server.
    """
    if location.file.exists():
        lock = _read_lock_file(location.file)
    else:
        lock = Lock(current.server, current.definitions)
    is_other_server = bool(lock.server and current.server and lock.server != current.server)
    if is_other_server and not (location.will_write and location.is_own):
        raise DeskUserError(
            f"{location.file} is the lock of the server {lock.server!r}, and this is {current.server!r}.",
            "Use another lock file with --lock FILE"
            + (", or remove this one first." if location.will_write else "."),
        )
    remarks = [
        Remark(
            change.verdict,
            change.description,
            current.sources.get((change.kind, change.name)) or location.file.name,
            f"{change.kind} {change.name}",
            change.is_breaking and not location.will_write,
        )
        for change in contract_changes(lock.definitions, current.definitions)
    ]
    if location.will_write and has_errors:
        print_message(f"mcpdesk: {location.file} is not written until the errors are fixed.")
    elif location.will_write:
        write_report(location.file, lock_text(current.definitions, current.server))
        print_message(f"mcpdesk: wrote {location.file}; keep it with the source")
    return remarks


def _read_lock_file(file: Path) -> Lock:
    """Read a lock file. Raises: DeskUserError."""
    try:
        return read_lock(file.read_bytes())
    except OSError as error:
        raise DeskUserError(f"{file} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise DeskUserError(
            f"{file} {error}.", "Fix it, or remove it and write it again with --update."
        ) from None


def _update_command(target: str, file: str, packages: Sequence[str]) -> str:
    """Return the command that writes a lock.

    The value of `--lock` may follow as a separate word only if it ends in `.lock.json`.
    """
    separator = " " if file.endswith(".lock.json") else "="
    lock_option = f" --lock{separator}{shlex.quote(file)}" if file else ""
    with_options = "".join(f" --with {shlex.quote(each)}" for each in packages)
    options = f"{with_options}{lock_option} --update"
    if target.startswith(COMMAND):
        return f"mcpdesk check{options} -- {target[len(COMMAND) :]}"
    return f"mcpdesk check {shlex.quote(target)}{options}"
