"""Reload of a server folder: watch its files, and apply a new version to the running server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, to_builtins

from mcpdesk.hosting.folder.file_items import Item, name_of
from mcpdesk.hosting.folder.folder_watcher import FolderWatcher
from mcpdesk.hosting.folder.loader import LoadedFolder
from mcpdesk.hosting.server_access import with_required_tokens
from mcpdesk.server.offer.registry import Registry, Unavailable
from mcpdesk.server.offer.server import Server
from mcpdesk.server.offer.tool import Tool

T = TypeVar("T", bound=Item)
MAX_NAMES = 3
"""Maximum number of names in one clause of a summary."""


class OfferChanges(Struct, frozen=True):
    """Names of the items that a reload affected. Resources are named by their URI."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    """Items that became unusable, even if their previous version is still served."""
    repaired: tuple[str, ...] = ()
    """Items that were broken and now work, with the same definition as before."""
    updated: tuple[str, ...] = ()
    """URIs of known resources whose content may have changed."""

    def __bool__(self) -> bool:
        return any((self.added, self.changed, self.removed, self.broken, self.repaired, self.updated))

    def summary(self) -> str:
        """Return one line for a notice, such as `1 changed: user-profile; 1 broken: clock`, or "" if nothing
        changed.
        """
        parts = {
            "added": self.added,
            "changed": self.changed,
            "removed": self.removed,
            "broken": self.broken,
            "repaired": self.repaired,
        }
        return "; ".join(f"{len(names)} {verb}: {listed(names)}" for verb, names in parts.items() if names)


def apply(
    loaded: LoadedFolder,
    server: Server,
    built_in: Iterable[Tool] = (),
    refused: Iterable[Unavailable] = (),
) -> OfferChanges:
    """Serve the loaded items and the built-in tools. `refused` are built-in tools that cannot be used.

    Running calls keep their handlers. A tool of the folder replaces a built-in tool with the same name.
    """
    manifest = loaded.manifest
    server.version = manifest.version
    server.title = manifest.title
    server.description = manifest.description
    server.instructions = manifest.instructions
    server.website_url = manifest.website_url
    server.public_name = manifest.publish.name
    server.repository = manifest.publish.repository
    server.icons = tuple(to_builtins(icon) for icon in manifest.icons)
    server.folder = manifest.folder
    server.problems = loaded.problems
    server.helpers = loaded.helpers
    server.create_context = loaded.create_context
    server.lifespan = loaded.lifespan
    server.around_call = loaded.around_call
    tools, clashes = _with_built_in(loaded.tools, built_in)
    changes = [
        _replace(
            server.tools,
            with_required_tokens(tools, manifest.auth),
            [*_unavailable_of(loaded, "tool"), *refused, *clashes],
        ),
        _replace(server.resources, loaded.resources, _unavailable_of(loaded, "resource")),
        _replace(server.templates, loaded.templates, _unavailable_of(loaded, "template")),
        _replace(server.prompts, loaded.prompts, _unavailable_of(loaded, "prompt")),
    ]
    return OfferChanges(
        added=tuple(name for change in changes for name in change.added),
        changed=tuple(name for change in changes for name in change.changed),
        removed=tuple(name for change in changes for name in change.removed),
        broken=tuple(name for change in changes for name in change.broken),
        repaired=tuple(name for change in changes for name in change.repaired),
        updated=changes[1].changed,
    )


def _replace(registry: Registry[T], items: Iterable[T], unavailable: Iterable[Unavailable]) -> OfferChanges:
    """Replace the content of one registry. Clients are notified only if something differs."""
    old_items = {name_of(item): item for item in registry}
    old_unavailable = set(registry.unavailable)
    registry.replace(items, unavailable)
    new_items = {name_of(item): item for item in registry}
    new_unavailable = set(registry.unavailable)
    unavailable_names = {item.name for item in new_unavailable}
    differing_names = [name for name, item in new_items.items() if old_items.get(name) != item]
    unchanged_names = new_items.keys() - unavailable_names - set(differing_names)
    return OfferChanges(
        added=tuple(name for name in differing_names if name not in old_items),
        changed=tuple(name for name in differing_names if name in old_items),
        removed=tuple(name for name in old_items if name not in new_items and name not in unavailable_names),
        broken=tuple(sorted(item.name for item in new_unavailable - old_unavailable if not item.is_fit)),
        repaired=tuple(sorted({item.name for item in old_unavailable} & unchanged_names)),
    )


def _with_built_in(own_tools: list[Tool], built_in: Iterable[Tool]) -> tuple[list[Tool], list[Unavailable]]:
    """Add the built-in tools whose names the folder does not use. Return all tools, and the other built-in
    tools with reasons.
    """
    by_name = {tool.name: tool for tool in own_tools}
    tools, clashes = list(own_tools), []
    for tool in built_in:
        if tool.name in by_name:
            source = by_name[tool.name].source
            reason = f"{tool.name} in {source} of the folder replaces the built-in one"
            clashes.append(Unavailable(tool.name, reason, "mcp.json"))
        else:
            tools.append(tool)
    return tools, clashes


def _unavailable_of(loaded: LoadedFolder, kind: str) -> list[Unavailable]:
    """Return the unavailable items of one kind."""
    return [item for item_kind, item in loaded.unavailable if item_kind == kind]


def listed(names: Sequence[str]) -> str:
    """Return the first names, followed by the number of further names."""
    omitted_count = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {omitted_count} more" if omitted_count > 0 else "")


DEBOUNCE_MS = 200
"""Milliseconds in which changes are collected into one report."""
POLL_MS = 300
"""Milliseconds between two comparisons of the files, if the operating system reports no changes."""
STEP_MS = 100
"""Milliseconds between two reads of collected changes by the watcher's thread."""
COLLECT_MS = 1_000
"""Maximum time in milliseconds to collect changes after the operating system has announced them."""
RETRY_S = 1.0
"""Seconds between two checks whether a removed folder exists again."""
IGNORED_FOLDERS = frozenset(
    {"__pycache__", ".git", ".hg", ".svn", ".venv", "venv", "node_modules", ".mypy_cache", ".ruff_cache",
     ".pytest_cache", ".idea", ".vscode"}
)  # fmt: skip
"""Names of folders whose changes are ignored."""
IGNORED_ENDINGS = (".pyc", ".pyo", "~", ".swp", ".swx", ".tmp", "4913")
"""Endings of compiled files and of temporary files that editors write."""

_log = logging.getLogger(__name__)
logging.getLogger("watchfiles").setLevel(logging.WARNING)


OnChange = Callable[[frozenset[Path]], object]
"""Function that is called with the changed paths. It must not block."""


async def watch(folder: Path, on_change: OnChange, polling: bool = False) -> None:
    """Call `on_change(paths)` after each series of changes, until cancelled.

    The first call passes the folder itself when the watch begins, because earlier changes were not seen. If
    the folder is removed, the watch waits until it exists again and then starts over.

    `polling` compares the files at intervals. This is for network and container mounts, where the operating
    system reports no changes.
    """
    folder = await asyncio.to_thread(folder.resolve)
    while True:
        with suppress(FileNotFoundError):
            await _watch_until_gone(folder, on_change, polling)
        _log.warning("%s was removed; waiting until it exists again", folder)
        while not await asyncio.to_thread(folder.is_dir):  # noqa: ASYNC110 (no event reports a new path)
            await asyncio.sleep(RETRY_S)


async def _watch_until_gone(folder: Path, on_change: OnChange, polling: bool) -> None:
    """Call `on_change` after each series of changes, until the folder is removed."""
    await asyncio.to_thread(import_module, "watchfiles")  # importing takes long, and clients are waiting
    from watchfiles import Change, awatch

    watcher = None if polling else await _folder_watcher(folder)
    stream = awatch(
        folder,
        watch_filter=lambda _, path: is_watched(Path(path), folder),
        debounce=DEBOUNCE_MS,
        step=STEP_MS,
        rust_timeout=COLLECT_MS,
        yield_on_timeout=watcher is not None,
        force_polling=polling,
        poll_delay_ms=POLL_MS,
    )
    # The stream sets up the watch before it first waits. This callback runs when it waits.
    first_call = asyncio.get_running_loop().call_soon(on_change, frozenset({folder}))
    try:
        async for changes in stream:
            if (Change.deleted, str(folder)) in changes or not await asyncio.to_thread(folder.is_dir):
                return
            if paths := frozenset(Path(path) for _, path in changes) - {folder}:
                on_change(paths)
            elif watcher is not None:
                await watcher.wait_for_change()
                try:
                    await asyncio.to_thread(watcher.watch_subfolders)
                except OSError:
                    watcher.close()
                    watcher = None
    finally:
        first_call.cancel()
        if watcher is not None:
            watcher.close()


async def _folder_watcher(folder: Path) -> FolderWatcher | None:
    """Return an object that waits for changes of the folder, or None if the watcher must poll."""
    with suppress(OSError):
        return await asyncio.to_thread(FolderWatcher, folder, IGNORED_FOLDERS)
    return None


def is_watched(path: Path, folder: Path) -> bool:
    """Return True if a change of this path matters. The folder itself counts, because it may be deleted."""
    if path.name.endswith(IGNORED_ENDINGS) or path.name.startswith((".#", "#")):
        return False
    return IGNORED_FOLDERS.isdisjoint(path.relative_to(folder).parts)
