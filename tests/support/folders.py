"""Server folders on disk, written by tests."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent


def write(folder: Path, files: dict[str, str]) -> Path:
    """Write files by their relative paths; an indented block loses its indentation. Returns the folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text[1:]) if text.startswith("\n ") else text, "utf-8")
    return folder


def save(path: Path, text: str) -> None:
    """Replace a watched file atomically, as editors do: no reader sees half of it."""
    draft = path.with_name(f".{path.name}.tmp")
    draft.write_text(text, "utf-8")
    draft.replace(path)
