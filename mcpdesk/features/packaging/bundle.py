"""MCPB bundle of a server folder: selection of its files, start command, and content.

The bundle contains this program as a wheel, because the person who installs the bundle may have neither
mcpdesk nor access to a package index. The build is reproducible: times, owners and the order on disk do not
matter. Source: MCPB manifest 0.4.
"""

from __future__ import annotations

import io
import json
import os
import re
import stat
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from mcpdesk.errors import DeskUserError
from mcpdesk.features.packaging.runtime_wheel import EPOCH, NAME, WHEEL_FILE, runtime_wheel
from mcpdesk.hosting.folder.manifest import LOCK_NAME
from mcpdesk.hosting.folder.reload import IGNORED_ENDINGS, IGNORED_FOLDERS
from mcpdesk.protocol.jsonrpc import JSONObject
from mcpdesk.recorder.masking import holds_token
from mcpdesk.settings import ENV_FILES
from mcpdesk.tools import BUILTINS, EXTRA

MAX_FILES = 5_000
MAX_BYTES = 64 << 20
"""Maximum total size in bytes of the files before compression."""
ENTRY = "main.py"
"""Path of the program in a bundle that a client starts."""
START: JSONObject = {
    "type": "uv",
    "entry_point": ENTRY,
    "mcp_config": {"command": "uv", "args": ["run", "--directory", "${__dirname}", ENTRY]},
}
"""Start command for a client. At the first start, uv installs the wheel and downloads the requirements."""
PRIVATE_ENDINGS = (".env", ".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx")
PRIVATE_NAMES = frozenset({*ENV_FILES, "id_rsa", "id_ecdsa", "id_ed25519", "credentials", "credentials.json"})
OWN_OUTPUT = re.compile(r".*\.mcpb|server\.json")
MAX_SEARCHED_BYTES = 1 << 20
"""Maximum size in bytes of a file that is searched for secrets."""
WHEEL = f"wheels/{WHEEL_FILE}"
"""Path of this program's wheel in a bundle."""
TEST_FOLDERS = frozenset({"cases"})
"""Folders at the top of a server folder that only `mcpdesk test` reads."""
_MAIN = '''\
"""Serves the folder in this bundle over stdio."""

import sys
from pathlib import Path

from mcpdesk.__main__ import main

sys.argv = ["mcpdesk", "stdio", str(Path(__file__).resolve().parent / "servers" / {name!r})]
main()
'''
_PROJECT = """\
[project]
name = "{name}-bundle"
version = "{version}"
requires-python = ">=3.11"
dependencies = {dependencies}

[tool.uv]
package = false

[tool.uv.sources]
{program} = {{path = "{wheel}"}}
"""


class FolderFiles(NamedTuple):
    """Files of a folder, selected for a bundle."""

    files: dict[str, Path]
    """Selected files, by path below the folder."""
    left_out: list[tuple[str, str]]
    """Paths that are left out, each with the reason."""
    secrets: list[str]
    """Selected files that seem to contain a token or a key."""


def folder_files(folder: Path) -> FolderFiles:
    """Select the files of a bundle. Raises: DeskUserError for a folder that is too large."""
    selection = FolderFiles({}, [], [])
    total = 0
    for directory, folders, names in os.walk(folder):
        directory_path = Path(directory)
        for name in sorted(folders):
            if reason := _folder_exclusion(directory_path / name, folder):
                folders.remove(name)
                selection.left_out.append(
                    (f"{(directory_path / name).relative_to(folder).as_posix()}/", reason)
                )
        folders.sort()
        for name in sorted(names):
            path = directory_path / name
            relative = path.relative_to(folder).as_posix()
            if reason := _file_exclusion(path, folder):
                selection.left_out.append((relative, reason))
                continue
            selection.files[relative] = path
            total += path.stat().st_size
            if len(selection.files) > MAX_FILES or total > MAX_BYTES:
                raise _too_large(selection.files)
            if path.stat().st_size <= MAX_SEARCHED_BYTES and holds_token(path.read_bytes().decode("latin-1")):
                selection.secrets.append(relative)
    return selection


def pack(
    name: str,
    version: str,
    files: Mapping[str, Path],
    manifest: JSONObject,
    requires: Iterable[str],
    builtins: Iterable[str] = (),
) -> bytes:
    """Return the content of a bundle with these files of the server's folder.

    `requires` are the requirements of the folder, and `builtins` the built-in tools that it offers.
    """
    needs_extra = any(BUILTINS[each].libraries for each in builtins if each in BUILTINS)
    program = f"{NAME}[{EXTRA}]" if needs_extra else NAME
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        _add(archive, "manifest.json", json.dumps(manifest, indent=2, ensure_ascii=False).encode() + b"\n")
        _add(archive, ENTRY, _MAIN.format(name=name).encode())
        _add(archive, "pyproject.toml", _project(name, version, [program, *requires]).encode())
        _add(archive, WHEEL, runtime_wheel())
        for entry_name, path in sorted(files.items()):
            is_program = bool(path.stat().st_mode & stat.S_IXUSR)
            _add(archive, f"servers/{name}/{entry_name}", path.read_bytes(), is_program)
    return buffer.getvalue()


def _project(name: str, version: str, requires: Iterable[str]) -> str:
    """Return the text of `pyproject.toml`. An invalid version is replaced by 0."""
    from packaging.version import InvalidVersion, Version

    try:
        version_text = str(Version(version))
    except InvalidVersion:
        version_text = "0"
    requirements = json.dumps(list(dict.fromkeys(requires)))
    return _PROJECT.format(
        name=name, version=version_text, dependencies=requirements, program=NAME, wheel=WHEEL
    )


def _add(archive: zipfile.ZipFile, name: str, data: bytes, is_program: bool = False) -> None:
    entry = zipfile.ZipInfo(name, EPOCH)
    entry.create_system = 3  # Unix, because the file modes are Unix modes
    entry.external_attr = (stat.S_IFREG | (0o755 if is_program else 0o644)) << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, data)


def _folder_exclusion(path: Path, folder: Path) -> str:
    """Return the reason why a folder is left out, or "" if it is packed."""
    if path.is_symlink():
        return "a link to a folder"
    if path.name in IGNORED_FOLDERS or path.name.endswith(".egg-info"):
        return "caches, environments and histories are not packed"
    if path.parent == folder and path.name in TEST_FOLDERS:
        return "test cases"
    return "hidden" if path.name.startswith(".") else ""


def _file_exclusion(path: Path, folder: Path) -> str:
    """Return the reason why a file is left out, or "" if it is packed."""
    name = path.name.lower()
    if name in PRIVATE_NAMES or name.endswith(PRIVATE_ENDINGS):
        return "may contain secrets"
    if name.startswith("."):
        return "hidden"
    if name.endswith(IGNORED_ENDINGS):
        return "left behind by a program"
    if name == LOCK_NAME or name.endswith(f".{LOCK_NAME}"):
        return "a lock of the contract"
    if path.parent == folder and OWN_OUTPUT.fullmatch(name):
        return "made by this command"
    real_path = Path(os.path.realpath(path))
    if not real_path.is_relative_to(folder):
        return "a link out of the folder"
    if real_path != path and _is_left_out(real_path, folder):
        return "a link to a file that is left out"
    if not path.is_file():
        return "not a file"
    if name.endswith(".jsonl"):
        with path.open("rb") as file:
            if file.read(11) == b'{"capture":':
                return "a capture"
    return ""


def _is_left_out(path: Path, folder: Path) -> bool:
    """Return True if a file of the folder, or a folder that contains the file, is left out."""
    parents = path.relative_to(folder).parents
    return any(_folder_exclusion(folder / each, folder) for each in parents if each.name) or bool(
        _file_exclusion(path, folder)
    )


def _too_large(files: Mapping[str, Path]) -> DeskUserError:
    sizes = sorted(((path.stat().st_size, name) for name, path in files.items()), reverse=True)
    largest_files = ", ".join(f"{name} ({size} bytes)" for size, name in sizes[:3])
    limit = f"{MAX_FILES} files with {MAX_BYTES >> 20} MiB together"
    return DeskUserError(
        f"The folder is too large: a bundle has at most {limit}.", f"The largest: {largest_files}."
    )
