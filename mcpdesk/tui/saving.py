"""Saving a part of a result into a new file; nothing is ever overwritten."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

from textual.app import App

from mcpdesk.tui.drafts import Draft
from mcpdesk.tui.render.content import size_text
from mcpdesk.tui.render.savable import Savable, savables
from mcpdesk.tui.render.text import one_line
from mcpdesk.tui.widgets.menu import Choice, Menu


async def save_result(app: App[None], draft: Draft) -> None:
    """Let the person choose a part of a draft's result and write it into the working folder."""
    if draft.outcome is None or draft.outcome.result is None:
        app.notify("there is no result to save yet", severity="warning", markup=False)
        return
    chosen = await app.push_screen_wait(save_menu(savables(draft.outcome.result, draft.item.title)))
    if chosen is None:
        return
    try:
        path = save(chosen, Path.cwd())
    except OSError as error:
        app.notify(f"not saved: {error.strerror}", severity="error", markup=False)
    else:
        app.notify(f"saved as {path}", markup=False)


def save_menu(parts: list[Savable]) -> Menu:
    """Ends with the chosen part."""
    choices = [
        Choice(one_line(part.name, 50), part, f"{one_line(part.kind, 30)}, {size_text(len(part.data))}")
        for part in parts
    ]
    return Menu("Save into the working folder", choices, filtered=True)


def save(part: Savable, folder: Path) -> Path:
    """Write it to a file that was not there before; returns which. Raises: OSError."""
    for path in _names(folder / part.name):
        try:
            with path.open("xb") as file:
                file.write(part.data)
        except FileExistsError:
            continue
        return path
    raise AssertionError("names never end")


def _names(path: Path) -> Iterator[Path]:
    yield path
    for number in count(2):
        yield path.with_name(f"{path.stem}-{number}{path.suffix}")
