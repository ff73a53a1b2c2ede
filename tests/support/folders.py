"""Server folders on disk, written by tests."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent


def write(folder: Path, files: dict[str, str]) -> Path:
    """Write files by their relative paths, indentation removed; returns the folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip("\n"), "utf-8")
    return folder
