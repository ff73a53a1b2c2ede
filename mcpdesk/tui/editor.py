"""The person's editor, opened at a line of a file."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

FALLBACKS = ("nano", "vim", "vi")
_COLON = frozenset({"hx", "helix", "subl", "zed", "micro"})
"""Editors that take `FILE:LINE`."""
_GOTO = frozenset({"code", "code-insiders", "codium", "cursor", "windsurf"})
"""Editors that take `-g FILE:LINE`, and return at once."""
_PLUS = frozenset({"vi", "vim", "nvim", "nano", "emacs", "emacsclient", "kak", "gedit", "kate", "joe", "mg"})
"""Editors that take `+LINE FILE`."""


def editor_command(environ: Mapping[str, str], path: Path, line: int = 0) -> list[str]:
    """The command that opens a file at a line, counted from 1; empty where there is no editor.

    It is `VISUAL`, else `EDITOR`, else one that most systems have.
    """
    chosen = environ.get("VISUAL") or environ.get("EDITOR") or ""
    words = shlex.split(chosen) or [each for each in FALLBACKS if shutil.which(each)][:1]
    if not words:
        return []
    name = Path(words[0]).stem
    if line and name in _GOTO:
        return [*words, "-g", f"{path}:{line}"]
    if line and name in _COLON:
        return [*words, f"{path}:{line}"]
    return [*words, f"+{line}", str(path)] if line and name in _PLUS else [*words, str(path)]


def source_place(folder: str, where: str) -> tuple[Path, int] | None:
    """The file and line of `tools/prices.py:12` in a server's folder; None where there is no such file."""
    file, _, number = where.rpartition(":")
    path = Path(folder) / file
    return (path, int(number)) if folder and file and number.isdigit() and path.is_file() else None


def edit(app: App[Any], path: Path, line: int = 0) -> None:
    """Leave the screen to the editor until it ends; what keeps it from starting is told."""
    leave_to(app, editor_command(os.environ, path, line), "VISUAL or EDITOR")


def leave_to(app: App[Any], command: list[str], variable: str) -> None:
    """Leave the screen to a program until it ends; `variable` is what names another one."""
    if not command:
        app.notify(f"There is no program for this: set {variable} to one.", severity="warning", markup=False)
        return
    try:
        with app.suspend(), _terminal() as terminal:
            subprocess.run(command, check=False, stdin=terminal, stdout=terminal, stderr=terminal)
    except SuspendNotSupported:
        app.notify(f"This terminal cannot be left to {command[0]}.", severity="warning", markup=False)
    except OSError as error:
        told = f"{command[0]!r} cannot be started: {error.strerror}. {variable} names another program."
        app.notify(told, severity="error", markup=False)
    app.refresh(layout=True)


def _terminal() -> AbstractContextManager[Any]:
    """The terminal itself: standard input and output are the core's, for protocol and stray prints.

    Raises: OSError where there is none.
    """
    return nullcontext() if os.name == "nt" else open("/dev/tty", "r+b", buffering=0)
