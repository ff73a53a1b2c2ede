"""Prompt for the path of a new file, with a proposed path that can be changed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from textual import on
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from mcpdesk.plain_text import from_field
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.fields import LineField
from mcpdesk.tui.widgets.menu import Dialog

MAX_PATH_LENGTH = 4_096
"""Maximum length in characters of a typed path."""


class PathPrompt(Dialog[Path]):
    """Prompt for the path of a new file. The result is None if the person cancels.

    While the prompt is open, it refuses the path of an existing file, and a path in a folder that does not
    exist.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("path_prompt")
    DEFAULT_CSS = """
    PathPrompt > .box { width: 100; margin-top: 4; }
    PathPrompt .problem { height: auto; color: $text-error; padding: 0 1; }
    """

    def __init__(self, title: str, proposed_path: Path) -> None:
        super().__init__()
        self._title = title
        self._proposed_path = proposed_path

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = Content(one_line(self._title))
            box.border_subtitle = "enter write the file · esc close"
            yield LineField(
                str(self._proposed_path), max_length=MAX_PATH_LENGTH, compact=True, select_on_focus=False
            )
            yield Static("", classes="problem", markup=False)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        """Close with the path, or show the reason why no file can be written there."""
        event.stop()
        path = self._entered_path(from_field(event.value).strip())
        if problem := _problem(path):
            self.query_one(".problem", Static).update(Content(problem))
        else:
            self.dismiss(path)

    def _entered_path(self, text: str) -> Path:
        """Return the entered path. In a folder, the file gets the proposed name."""
        try:
            path = Path(text).expanduser()
        except RuntimeError:  # the home folder of `~NAME` does not exist
            path = Path(text)
        path = in_working_folder(path)
        return path / self._proposed_path.name if os.path.isdir(path) else path


async def write_to_new_file(app: App[Any], create_text: Callable[[], str], name: str, contents: str) -> None:
    """Ask for a path, write a text to a private file there, and notify the person. Must run in a worker.

    `create_text` is called on another thread. `name` is the proposed file name. `contents` describes the
    text, such as `12 rows`.
    """
    prompt = PathPrompt(f"Write {contents} to a new file", in_working_folder(Path(name)))
    if (path := await app.push_screen_wait(prompt)) is None:
        return
    try:
        await asyncio.to_thread(_write, path, create_text)
    except OSError as error:
        app.notify(f"Not exported: {error.strerror} ({error.filename})", severity="error", markup=False)
    else:
        app.notify(f"{contents} written to {path}", markup=False)


def _write(path: Path, create_text: Callable[[], str]) -> None:
    """Write a new private file. Raises: OSError."""
    text = create_text()
    opener = partial(os.open, mode=0o600)
    with open(path, "x", encoding="utf-8", errors="backslashreplace", opener=opener) as file:
        file.write(text)


def in_working_folder(path: Path) -> Path:
    """Return a path relative to the working folder as an absolute path, unless that folder was deleted."""
    try:
        return Path.cwd() / path
    except OSError:
        return path


def _problem(path: Path) -> str:
    """Return the reason why a new file cannot be written at a path, or "" if it can be written."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        is_folder = os.path.isdir(path.parent)
        return "" if is_folder else f"The folder {one_line(str(path.parent))} does not exist."
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        return f"This path is not possible: {one_line(str(reason))}"
    return f"{one_line(path.name)} already exists. Enter another name."
