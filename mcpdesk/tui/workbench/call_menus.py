"""The menus of a call: copy, earlier calls, saved arguments, saving a result, confirming a call."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.app import App

from mcpdesk.link.values import CatalogueItem, ItemKind
from mcpdesk.tui.render.amounts import duration, size_text
from mcpdesk.tui.render.json_text import compact, pretty, preview
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.results.result_content import Savable, plain_text, savables
from mcpdesk.tui.widgets.dialog import NamePrompt
from mcpdesk.tui.widgets.menu import Choice, Menu
from mcpdesk.tui.workbench.catalogue_rows import is_destructive
from mcpdesk.tui.workbench.drafts import Draft, Drafts
from mcpdesk.tui.workbench.past_calls import PastCall, saved_menu

if TYPE_CHECKING:
    from mcpdesk.link.link import Link
    from mcpdesk.tui.app import DeskApp


class DestructiveCalls:
    """Asks before a destructive tool is called from the screen.

    One object per program: it remembers for which tools the person does not want to be asked again.
    """

    def __init__(self) -> None:
        self._allowed: set[tuple[str, str]] = set()

    def must_ask(self, server: str, item: CatalogueItem) -> bool:
        """Whether the person must be asked before this item is called."""
        return is_destructive(item) and (server, item.name) not in self._allowed

    async def ask(self, app: App[None], server: str, item: CatalogueItem, arguments: Any) -> bool:
        """Ask; True when the call may be made. Must run in a worker."""
        choices = [
            Choice("Do not call", "no", key="n"),
            Choice("Call", "once", "asks again the next time", key="y"),
            Choice("Call, and do not ask again", "always", "for this tool, in this session", key="s"),
        ]
        choices = [replace(choice, help=f"arguments: {preview(arguments, 200)}") for choice in choices]
        title = f"Call {one_line(item.name, 40)}? It is destructive."
        chosen = await app.push_screen_wait(Menu(title, choices))
        if chosen == "always":
            self._allowed.add((server, item.name))
        return chosen in ("once", "always")


def copy_menu(draft: Draft, curl: str, folder: str) -> Menu:
    """A menu with text and name of what can be copied. `curl` is a command, `folder` the server folder."""
    choices = [Choice(what, (text, what), key=key) for key, what, text in copies(draft, curl, folder)]
    return Menu("Copy", choices)


async def choose_copy(app: DeskApp, link: Link, server: str, draft: Draft) -> None:
    """Let the person choose a part of a call, and copy it."""
    folder = next((one.folder for one in link.view().servers if one.name == server), ".")
    chosen = await app.push_screen_wait(copy_menu(draft, link.client_config(server, "curl"), folder))
    if chosen is not None:
        app.copy(*chosen)


def history_menu(title: str, past: Sequence[PastCall]) -> Menu:
    """A menu of earlier calls; the value is the index in `past`."""
    choices = [
        Choice(one_line(preview(call.arguments, 60)), at, _summary(call)) for at, call in enumerate(past)
    ]
    return Menu(f"History of {title}", choices, filtered=True)


async def choose_saved(
    app: App[None], drafts: Drafts, server: str, draft: Draft | None, entered: Callable[[], Any]
) -> Any:
    """Let the person use, save or delete saved arguments; returns those to use, else None."""
    if draft is None:
        return None
    try:
        now = entered()
    except ValueError as error:
        app.notify(f"cannot be kept yet: {one_line(str(error))}", severity="warning", markup=False)
        return None
    kept = drafts.saved(server, draft.item)
    chosen = await app.push_screen_wait(saved_menu(draft.item.title, kept, now))
    what, name = chosen or ("", "")
    if what == "use":
        return kept[name]
    if what == "keep" and (name := await app.push_screen_wait(NamePrompt("Keep what is entered as"))):
        drafts.save(server, draft, name, now)
        app.notify(f"kept as {one_line(name, 40)}", markup=False)
    elif what == "drop":
        drafts.forget(server, draft, name)
        app.notify(f"{one_line(name, 40)} is no longer kept", markup=False)
    return None


def copies(draft: Draft, curl: str, folder: str) -> Iterator[tuple[str, str, str]]:
    """Key, name and text of what can be copied; results only after a call."""
    outcome = draft.outcome
    if outcome is not None and outcome.result is not None:
        yield "t", "result as text", plain_text(outcome.result)
        structured = outcome.result.get("structuredContent")
        if structured is not None:
            yield "s", "structured result", pretty(structured)
    if outcome is not None and outcome.raw:
        yield "r", "raw message", outcome.raw.decode(errors="replace")
    arguments = draft.shareable if draft.shareable is not None else draft.node.value()
    yield "a", "arguments as JSON", pretty(arguments)
    if draft.item.kind is ItemKind.TOOL:
        params = {"name": draft.item.name, "arguments": arguments}
        yield "m", "mcpdesk command", shell_command("tools/call", params, folder)
    yield "c", "curl command", curl
    yield "n", "name", draft.item.name


def shell_command(method: str, params: Mapping[str, Any], folder: str) -> str:
    """The `mcpdesk` command that sends the same request; empty for methods without a command."""
    verb, member = _COMMANDS.get(method, ("", ""))
    if not verb:
        return ""
    about = [str(params.get(member, ""))] if member else []
    return shlex.join(["mcpdesk", verb, folder, *about, *_words(params.get("arguments"))])


_COMMANDS = {
    "tools/call": ("call", "name"),
    "prompts/get": ("prompt", "name"),
    "resources/read": ("read", "uri"),
    "tools/list": ("list", ""),
}
"""Method -> command, and the member of `params` that is its first argument."""


def _words(arguments: Any) -> list[str]:
    members = arguments.items() if isinstance(arguments, dict) else ()
    return [
        f"{key}={value}" if isinstance(value, str) else f"{key}:={compact(value)}" for key, value in members
    ]


def _summary(call: PastCall) -> str:
    when = time.strftime("%d %b %H:%M", time.localtime(call.time))
    return f"{call.status} {duration(call.elapsed_s)} · {when}"


async def save_result(app: App[None], draft: Draft) -> None:
    """Let the person choose a part of a result, and write it to the working folder."""
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
    """A menu of the parts of a result."""
    choices = [
        Choice(one_line(part.name, 50), part, f"{one_line(part.kind, 30)}, {size_text(len(part.data))}")
        for part in parts
    ]
    return Menu("Save into the working folder", choices, filtered=True)


def save(part: Savable, folder: Path) -> Path:
    """Write a part to a new file, never over an existing one; returns its path. Raises: OSError."""
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
