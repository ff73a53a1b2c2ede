"""The palette: actions of the focused pane first, then other actions, items of the catalogue, themes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from mcpdesk.link.values import ItemKind
from mcpdesk.tui.actions import Reachable, key_name, reachable
from mcpdesk.tui.widgets.menu import Choice, Menu

if TYPE_CHECKING:
    from mcpdesk.tui.app import DeskApp

VERBS = {
    ItemKind.TOOL: "call",
    ItemKind.RESOURCE: "read",
    ItemKind.TEMPLATE: "read",
    ItemKind.PROMPT: "render",
}

Command = Callable[[], Awaitable[object]]


@runtime_checkable
class ItemOpener(Protocol):
    """A pane that can bring up one item of the catalogue."""

    def open_item(self, kind: ItemKind, name: str) -> None:
        """Select the item and focus what is needed to use it."""


async def open_palette(app: DeskApp) -> None:
    """Let the person choose a command and run it."""
    choices = [*action_choices(app), *item_choices(app), *theme_choices(app)]
    command: Command | None = await app.push_screen_wait(Menu("Palette", choices, filtered=True))
    if command is not None:
        await command()


def action_choices(app: DeskApp) -> Iterator[Choice]:
    """One line an action that can be done now, context first."""
    for found in reachable(app.main, app.main.pane):
        if found.action.name != "palette":
            action = found.action
            keys = key_name(action.keys.partition(",")[0])
            yield Choice(action.title, partial(_run, app, found), action.group, keys, action.help)


def item_choices(app: DeskApp) -> Iterator[Choice]:
    """One line a working item of the catalogue: `call user-profile`."""
    if not app.server:
        return
    for item in app.link.catalogue(app.server).items:
        if not item.problem or item.stale:
            label = f"{VERBS[item.kind]} {item.name}"
            hint = item.title if item.title != item.name else item.kind.value
            yield Choice(label, partial(_open, app, item.kind, item.name), hint, help=item.description)


def theme_choices(app: DeskApp) -> Iterator[Choice]:
    """One line a theme."""
    for name in sorted(app.available_themes):
        yield Choice(f"theme {name}", partial(_wear, app, name), "Theme")


async def _run(app: DeskApp, found: Reachable) -> None:
    await app.run_action(found.action.name, default_namespace=found.owner)


async def _open(app: DeskApp, kind: ItemKind, name: str) -> None:
    await app.main.show_screen("workbench")
    pane = app.main.pane
    if isinstance(pane, ItemOpener):
        pane.open_item(kind, name)


async def _wear(app: DeskApp, name: str) -> None:
    app.themes.use(app, name)
