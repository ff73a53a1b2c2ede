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

from mcpdesk.late_pattern import LatePattern

FALLBACKS = ("nano", "vim", "vi")
_COLON = frozenset({"hx", "helix", "subl", "zed", "micro"})
"""Editors that expect `FILE:LINE`."""
_GOTO = frozenset({"code", "code-insiders", "codium", "cursor", "windsurf"})
"""Editors that expect `-g FILE:LINE` and return at once."""
_PLUS = frozenset({"vi", "vim", "nvim", "nano", "emacs", "emacsclient", "kak", "gedit", "kate", "joe", "mg"})
"""Editors that expect `+LINE FILE`."""

_FRAME = LatePattern(r"""File "([^"\n]+)", line (\d+)|((?:/|[A-Za-z]:[\\/])[^\s:│"']*):(\d+) ?in""")
"""Pattern for the location of a traceback frame, as Python or the library rich writes it."""
_BOX_GAP = LatePattern(r"\n[ \t]*│[ \t]*│[ \t]*(?=\n)")
_BOX_FOLD = LatePattern(r"[ \t]*│[ \t]*\n[ \t]*│ ")
_INSTALLED = ("site-packages", "dist-packages", "/lib/python3")


def editor_command(environ: Mapping[str, str], path: Path, line: int = 0) -> list[str]:
    """Return the command that opens a file at a line. The first line is 1. Empty if there is no editor.

    The editor is `VISUAL`, or else `EDITOR`, or else an installed common editor.
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


def source_location(folder: str, where: str) -> tuple[Path, int] | None:
    """Return the file and the line that a text such as `tools/prices.py:12` names.

    The path is relative to the server folder. Without a folder, it must be absolute. None if the file does
    not exist.
    """
    file, _, number = where.rpartition(":")
    path = Path(folder) / file
    is_known = bool(file) and number.isdigit() and (bool(folder) or path.is_absolute())
    return (path, int(number)) if is_known and path.is_file() else None


def traceback_location(text: str, folder: str = "") -> str:
    """Return the location of the error in a Python traceback, such as `/home/me/server.py:12`.

    This is the last location whose file exists and is not in an installed package. If there is none, it is
    the last location whose file exists. Empty if no file exists. The library rich draws tracebacks in a box
    and wraps long paths.
    """
    unfolded = _BOX_FOLD.regex.sub("", _BOX_GAP.regex.sub("\n", text))
    named = (f"{match[1] or match[3]}:{match[2] or match[4]}" for match in _FRAME.regex.finditer(unfolded))
    here = [location for location in dict.fromkeys(named) if source_location(folder, location) is not None]
    own = [location for location in here if not any(part in location for part in _INSTALLED)]
    return (own or here or [""])[-1]


def edit(app: App[Any], path: Path, line: int = 0) -> None:
    """Suspend the screen and run the editor until it ends. If it cannot be started, notify the person."""
    leave_to(app, editor_command(os.environ, path, line), "VISUAL or EDITOR")


def leave_to(app: App[Any], command: list[str], variable: str) -> None:
    """Suspend the screen and run a program until it ends.

    `variable` is the environment variable that selects the program.
    """
    if not command:
        app.notify(f"No program is configured for this: set {variable}.", severity="warning", markup=False)
        return
    try:
        with app.suspend(), _terminal() as terminal:
            subprocess.run(command, check=False, stdin=terminal, stdout=terminal, stderr=terminal)
    except SuspendNotSupported:
        app.notify(f"The terminal cannot be handed over to {command[0]}.", severity="warning", markup=False)
    except OSError as error:
        message = f"{command[0]!r} cannot be started: {error.strerror}. Set {variable} to another program."
        app.notify(message, severity="error", markup=False)
    app.refresh(layout=True)


def _terminal() -> AbstractContextManager[Any]:
    """Open the terminal itself, because standard input and output carry the protocol and stray prints.

    Raises: OSError without a terminal.
    """
    return nullcontext() if os.name == "nt" else open("/dev/tty", "r+b", buffering=0)
