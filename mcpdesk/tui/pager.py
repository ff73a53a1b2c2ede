"""Texts of the screen in the user's pager and editor, as temporary files."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from textual.app import App

from mcpdesk.tui.editor import editor_command, run_in_terminal

FALLBACK_PAGERS = ("less", "more")
_WAIT_OPTION_EDITORS = frozenset({"code", "code-insiders", "codium", "cursor", "windsurf", "subl", "zed"})
"""Editors that return immediately unless they are started with `--wait`."""


def pager_command(environ: Mapping[str, str], path: Path) -> list[str]:
    """Return the command that shows a file: `PAGER`, or a common pager, or an empty list if none is
    installed.
    """
    installed = [pager for pager in FALLBACK_PAGERS if shutil.which(pager)]
    words = shlex.split(environ.get("PAGER", "")) or installed[:1]
    return [*words, str(path)] if words else []


def page(app: App[Any], text: str, name: str) -> None:
    """Show a text, without control characters, in the pager. `name` is a plain file name."""
    with TemporaryDirectory(prefix="mcpdesk-") as folder:
        path = _write_file(Path(folder) / name, text)
        run_in_terminal(app, pager_command(os.environ, path), "PAGER")


def edit_text(app: App[Any], text: str, name: str) -> str:
    """Let the person edit a text in the editor, and return the new text.

    If it was not changed or could not be opened, return the old text.
    """
    with TemporaryDirectory(prefix="mcpdesk-") as folder:
        path = _write_file(Path(folder) / name, text)
        command = editor_command(os.environ, path)
        if command and Path(command[0]).stem in _WAIT_OPTION_EDITORS and not {"--wait", "-w"} & set(command):
            command.insert(1, "--wait")
        run_in_terminal(app, command, "VISUAL or EDITOR")
        try:
            return path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            app.notify(f"The edited file cannot be read: {error}", severity="error", markup=False)
            return text


def _write_file(path: Path, text: str) -> Path:
    """Write the text, and return the path. The temporary folder is readable only by the user."""
    path.write_text(text, "utf-8", errors="replace")
    return path
