"""Noticing that files of a server folder changed. Says which, never what it means."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path

DEBOUNCE_MS = 200
"""Changes this close together are reported as one."""
POLL_MS = 300
STEP_MS = 100
"""How often its thread wakes to see what it was told."""
RETRY_S = 1.0
"""How often a folder that went away is looked for."""
IGNORED_FOLDERS = frozenset(
    {"__pycache__", ".git", ".hg", ".svn", ".venv", "venv", "node_modules", ".mypy_cache", ".ruff_cache",
     ".pytest_cache", ".idea", ".vscode"}
)  # fmt: skip
IGNORED_ENDINGS = (".pyc", ".pyo", "~", ".swp", ".swx", ".tmp", "4913")
"""Compiled files and what editors put beside a file while saving it."""

_log = logging.getLogger(__name__)
logging.getLogger("watchfiles").setLevel(logging.WARNING)


OnChange = Callable[[frozenset[Path]], object]
"""Takes the changed paths; must not block for long."""


async def watch(folder: Path, on_change: OnChange, polling: bool = False) -> None:
    """Call `on_change(paths)` after every burst of changes, until cancelled.

    The first report is the folder itself, as soon as it is watched: what was saved before was seen by nobody.
    `polling` looks at the files instead of being told: for network and container mounts. A folder that goes
    away is waited for, and its return is reported like the beginning.
    """
    folder = await asyncio.to_thread(folder.resolve)
    while True:
        with suppress(FileNotFoundError):
            await _watch_until_gone(folder, on_change, polling)
        _log.warning("%s is gone; waiting for it to come back", folder)
        while not await asyncio.to_thread(folder.is_dir):  # noqa: ASYNC110 (nothing tells when a path appears)
            await asyncio.sleep(RETRY_S)


async def _watch_until_gone(folder: Path, on_change: OnChange, polling: bool) -> None:
    await asyncio.to_thread(import_module, "watchfiles")  # slow, and somebody waits for a first answer
    from watchfiles import Change, awatch

    stream = awatch(
        folder,
        watch_filter=lambda _, path: is_watched(Path(path), folder),
        debounce=DEBOUNCE_MS,
        step=STEP_MS,
        rust_timeout=1_000,
        force_polling=polling,
        poll_delay_ms=POLL_MS,
    )
    # The watch is set up before the stream waits for the first time, and this runs once it waits.
    begun = asyncio.get_running_loop().call_soon(on_change, frozenset({folder}))
    try:
        async for changes in stream:
            if (Change.deleted, str(folder)) in changes or not await asyncio.to_thread(folder.is_dir):
                return
            if paths := frozenset(Path(path) for _, path in changes) - {folder}:
                on_change(paths)
    finally:
        begun.cancel()


def is_watched(path: Path, folder: Path) -> bool:
    """Whether a change of this path can matter. The folder itself does: it may be gone."""
    if path.name.endswith(IGNORED_ENDINGS) or path.name.startswith((".#", "#")):
        return False
    return IGNORED_FOLDERS.isdisjoint(path.relative_to(folder).parts)
