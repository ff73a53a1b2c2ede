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

FALLBACK_EDITORS = ("nano", "vim", "vi")
_COLON_EDITORS = frozenset({"hx", "helix", "subl", "zed", "micro"})
"""Editors that expect `FILE:LINE`."""
_GOTO_EDITORS = frozenset({"code", "code-insiders", "codium", "cursor", "windsurf"})
"""Editors that expect `-g FILE:LINE` and return at once."""
_PLUS_EDITORS = frozenset(
    {"vi", "vim", "nvim", "nano", "emacs", "emacsclient", "kak", "gedit", "kate", "joe", "mg"}
)
"""Editors that expect `+LINE FILE`."""

_FRAME_LOCATION = LatePattern(r"""File "([^"\n]+)", line (\d+)|((?:/|[A-Za-z]:[\\/])[^\s:│"']*):(\d+) ?in""")
"""Pattern for the location of a traceback frame, as Python or the library rich writes it."""
_BOX_GAP = LatePattern(r"\n[ \t]*│[ \t]*│[ \t]*(?=\n)")
"""Pattern for an empty line of a box that rich draws around a traceback."""
_BOX_FOLD = LatePattern(r"[ \t]*│[ \t]*\n[ \t]*│ ")
"""Pattern for the break in a long line that rich wrapped inside such a box."""
_INSTALLED_PATH_PARTS = ("site-packages", "dist-packages", "/lib/python3")
"""Parts of the paths of installed packages and of Python's own library."""


def editor_command(environ: Mapping[str, str], path: Path, line: int = 0) -> list[str]:
    """Return the command that opens a file at a line. The first line is 1. Empty if there is no editor.

    The editor is `VISUAL`, or else `EDITOR`, or else an installed common editor.
    """
    configured = environ.get("VISUAL") or environ.get("EDITOR") or ""
    words = shlex.split(configured) or [editor for editor in FALLBACK_EDITORS if shutil.which(editor)][:1]
    if not words:
        return []
    name = Path(words[0]).stem
    if line and name in _GOTO_EDITORS:
        return [*words, "-g", f"{path}:{line}"]
    if line and name in _COLON_EDITORS:
        return [*words, f"{path}:{line}"]
    return [*words, f"+{line}", str(path)] if line and name in _PLUS_EDITORS else [*words, str(path)]


def source_location(folder: str, location: str) -> tuple[Path, int] | None:
    """Return the file and the line that a text such as `tools/prices.py:12` names.

    The path is relative to the server folder. Without a folder, it must be absolute. Return None if the text
    names no line or the file does not exist.
    """
    file, _, number = location.rpartition(":")
    path = Path(folder) / file
    is_complete = bool(file) and number.isdigit() and (bool(folder) or path.is_absolute())
    return (path, int(number)) if is_complete and path.is_file() else None


def traceback_location(text: str, folder: str = "") -> str:
    """Return the location of the error in a Python traceback, such as `/home/me/server.py:12`.

    This is the last location whose file exists and is not in an installed package. Without such a location,
    it is the last location whose file exists. If no file exists, return an empty text. `text` may contain a
    box with wrapped lines, as the library rich draws it. Relative locations are relative to `folder`.
    """
    unfolded = _BOX_FOLD.regex.sub("", _BOX_GAP.regex.sub("\n", text))
    frames = _FRAME_LOCATION.regex.finditer(unfolded)
    locations = dict.fromkeys(f"{frame[1] or frame[3]}:{frame[2] or frame[4]}" for frame in frames)
    existing_locations = [location for location in locations if source_location(folder, location) is not None]
    own_locations = [
        location
        for location in existing_locations
        if not any(part in location for part in _INSTALLED_PATH_PARTS)
    ]
    return (own_locations or existing_locations or [""])[-1]


def edit(app: App[Any], path: Path, line: int = 0) -> None:
    """Suspend the screen and run the editor until it ends. If it cannot be started, notify the person."""
    run_in_terminal(app, editor_command(os.environ, path, line), "VISUAL or EDITOR")


def run_in_terminal(app: App[Any], command: list[str], variable: str) -> None:
    """Suspend the screen and run a program until it ends.

    `variable` is the environment variable that selects the program.
    """
    if not command:
        app.notify(f"No program is configured for this: set {variable}.", severity="warning", markup=False)
        return
    try:
        with app.suspend(), _open_terminal() as terminal:
            subprocess.run(command, check=False, stdin=terminal, stdout=terminal, stderr=terminal)
    except SuspendNotSupported:
        app.notify(f"The terminal cannot be handed over to {command[0]}.", severity="warning", markup=False)
    except OSError as error:
        message = f"{command[0]!r} cannot be started: {error.strerror}. Set {variable} to another program."
        app.notify(message, severity="error", markup=False)
    app.refresh(layout=True)


def _open_terminal() -> AbstractContextManager[Any]:
    """Open the terminal itself, because standard input and output carry the protocol and stray prints.

    Raises: OSError without a terminal.
    """
    return nullcontext() if os.name == "nt" else open("/dev/tty", "r+b", buffering=0)
