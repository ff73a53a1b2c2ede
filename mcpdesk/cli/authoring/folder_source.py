"""Sources of server folders for `mcpdesk new`: the sample, and the sources that features add."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mcpdesk.errors import DeskUserError
from mcpdesk.feature import FolderSource
from mcpdesk.features import features_with
from mcpdesk.runtime.core_process import loaded_host

if TYPE_CHECKING:
    from mcpdesk.hosting.folder.findings import Finding

PARTS = {
    "tools": "Call greet with a name.",
    "resources": "",
    "prompts": "",
    "skills": "InvokeSkill knows the skill welcome.",
    "tests": "",
}
"""Parts of a new folder. The value is a sentence about the part in the server's instructions."""


def folder_sources() -> list[FolderSource]:
    """Return the sources of all features."""
    return [source for feature in features_with("folder_sources") for source in feature.folder_sources()]


def source_options(command: click.decorators.FC) -> click.decorators.FC:
    """Add the options of all sources to a command."""
    for source in reversed(folder_sources()):
        for option in reversed(source.options):
            command = option(command)
    return command


def folder_errors(folder: Path) -> list[Finding]:
    """Return the errors of a folder. Raises: DeskError if the folder cannot be hosted."""
    from mcpdesk.hosting.folder.findings import load_errors

    with loaded_host(folder) as host:
        server = host.endpoints()[0].server
        return load_errors(server, host.folders[server.name].warnings)


def write_folder(folder: Path, content: Mapping[str, bytes]) -> None:
    """Create a folder with these files, by path. The folder is removed on failure. Raises: DeskUserError."""
    try:
        folder.mkdir()
        try:
            for path, data in content.items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(data)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    except OSError as error:
        message = f"{folder} cannot be written: {error.strerror}."
        raise DeskUserError(message, "Choose another folder.") from None


def has_command(name: str) -> bool:
    """Return True if mcpdesk has a command with this name. The command may belong to a feature."""
    from mcpdesk.cli.main import COMMANDS

    return name in COMMANDS


def as_argument(name: str) -> str:
    """Return the name as an argument that is not mistaken for a command."""
    return f"./{name}" if has_command(name) else name
