"""Paths of the configuration files of known clients.

The data file `client_files.json` has a row for each file, with its source and the date of the check.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from mcpdesk.errors import DeskUserError

CLIENTS = (
    "claude-desktop", "claude-code", "codex", "continue", "copilot", "cursor", "gemini", "goose", "junie",
    "opencode", "vscode", "windsurf", "zed",
)  # fmt: skip
MAX_FILES = 50
"""Maximum number of files that are read in a folder such as `.continue/mcpServers`."""
_DATA = Path(__file__).with_name("client_files.json")
_FOLDER_FILE_SUFFIXES = frozenset({".json", ".yaml", ".yml"})
_SYSTEMS = {"darwin": "macos", "win32": "windows"}


class ClientFile(Struct, frozen=True):
    """File, or folder of files, where a client keeps its servers."""

    client: str
    scope: Literal["project", "user", "system"]
    """`project`: in the folder of a project; `user`: of one person; `system`: of all users."""
    path: str
    """Path with a variable such as `{home}`. The last part `*` means all files of the folder."""
    source: str
    """URL of the documentation."""
    date: str
    """Date when the documentation was checked."""
    platforms: tuple[str, ...] = ()
    """`macos`, `linux` and `windows`. Empty for all."""
    note: str = ""


@cache
def client_files() -> tuple[ClientFile, ...]:
    """Return all rows of the data file. For each client, the files of a project come first."""
    return msgspec.json.decode(_DATA.read_bytes(), type=tuple[ClientFile, ...])


def is_client_server(text: str) -> bool:
    """Return True if a text has the form `client:server` with a known client, and is not a path or URL."""
    client, colon, name = text.partition(":")
    has_form = bool(colon and name) and not name.startswith("//") and "/" not in client and "\\" not in client
    return has_form and client in CLIENTS and not Path(text).exists()


def client_named(name: str) -> str:
    """Return the name of a known client. Raises: DeskUserError with similar names."""
    from difflib import get_close_matches

    if name in CLIENTS:
        return name
    hint = f"Known clients: {', '.join(CLIENTS)}."
    if similar_names := get_close_matches(name, CLIENTS, n=3):
        hint = f"Did you mean {' or '.join(similar_names)}?"
    raise DeskUserError(f"Unknown client {name[:80]!r}.", hint)


def config_paths(
    client: str, home: Path, folder: Path, environ: Mapping[str, str], platform: str = sys.platform
) -> list[Path]:
    """Return the possible paths of a client's configuration, those in the project's `folder` first.

    System-wide files are left out. A name that is not in `CLIENTS` is the path of a file.
    """
    config_files = [
        path
        for row in platform_rows(platform)
        if row.client == client and row.scope != "system"
        for path in row_paths(row, home, folder, environ)
    ]
    return config_files or [Path(client).expanduser()]


def platform_rows(platform: str = sys.platform) -> Iterator[ClientFile]:
    """Yield the rows of one platform, a value of `sys.platform`."""
    system = _SYSTEMS.get(platform, "linux")
    return (row for row in client_files() if not row.platforms or system in row.platforms)


def row_paths(row: ClientFile, home: Path, folder: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return the path of a row. If the row stands for a folder of files, return the existing files in it."""
    path = Path(row.path.format_map(_variables(home, folder, environ)))
    if path.name != "*":
        return [path]
    try:
        return sorted(
            each for each in islice(path.parent.iterdir(), MAX_FILES) if each.suffix in _FOLDER_FILE_SUFFIXES
        )
    except OSError:
        return []


def _variables(home: Path, folder: Path, environ: Mapping[str, str]) -> dict[str, str | Path]:
    """Return the values of the variables in the paths of the data file."""

    def location(variable: str, default: Path | str) -> str | Path:
        return environ.get(variable) or default

    return {
        "home": home,
        "project": folder,
        "library": home / "Library" / "Application Support",
        "config": location("XDG_CONFIG_HOME", home / ".config"),
        "roaming": location("APPDATA", home / "AppData" / "Roaming"),
        "programs": location("ProgramFiles", "C:/Program Files"),
        "programdata": location("ProgramData", "C:/ProgramData"),
        "claude": location("CLAUDE_CONFIG_DIR", home),
        "codex": location("CODEX_HOME", home / ".codex"),
        "copilot": location("COPILOT_HOME", home / ".copilot"),
    }
