"""Search for environment variables that the Python code of a folder reads under a literal name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

MAX_FILES = 500
"""Maximum number of files that are searched."""
MAX_BYTES = 1 << 20
"""Maximum number of bytes searched in one file."""
_VARIABLE_READ = re.compile(
    r"""(?:environ(?:\.get|\.pop|\.setdefault)?|getenv)\s*[\[(]\s*["']([A-Za-z_][A-Za-z0-9_]*)["']"""
)


def variables_in(folder: Path) -> set[str]:
    """Return the names of the variables that the code in a folder reads.

    Names that the code computes are not found. Reads files.
    """
    names: set[str] = set()
    for number, path in enumerate(_python_files(folder)):
        if number == MAX_FILES:
            break
        try:
            with path.open(encoding="utf-8", errors="replace") as file:
                names.update(_VARIABLE_READ.findall(file.read(MAX_BYTES)))
        except OSError:
            continue  # the loader reports a file that cannot be read
    return names


def _python_files(folder: Path) -> Iterator[Path]:
    """Yield the Python files of a folder, except those of installed packages and hidden folders."""
    for directory, folders, names in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith((".", "__")) and name not in ("node_modules", "venv")
        )
        yield from (Path(directory, name) for name in sorted(names) if name.endswith(".py"))
