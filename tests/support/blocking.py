"""Notices files and databases that are opened on the thread of an event loop."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

EVENTS = frozenset({"open", "sqlite3.connect", "os.mkdir", "os.remove", "os.rename", "os.rmdir"})
MEMORY = ("/proc/", "/dev/")
"""Files that are on no disk."""
_watching: list[list[str]] = []
_is_hooked = False


@contextmanager
def blocking_calls(allowed: tuple[str, ...] = ()) -> Iterator[list[str]]:
    """Collect what blocks in our code while a loop runs on its thread, as `event path (place)`.

    Places that contain one of `allowed` do not count.
    """
    global _is_hooked
    if not _is_hooked:
        sys.addaudithook(_note)  # it cannot be removed again
        _is_hooked = True
    seen: list[str] = []
    _watching.append(seen)
    try:
        yield seen
    finally:
        _watching.remove(seen)
        seen[:] = [each for each in seen if not any(place in each for place in allowed)]


def _note(event: str, values: tuple[Any, ...]) -> None:
    if not _watching or event not in EVENTS or str(values[0]).startswith(MEMORY):
        return
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    # Not `extract_stack`: it reads the sources, and so comes here again.
    codes = [frame.f_code for frame, _ in traceback.walk_stack(None)]
    if any(code.co_filename.startswith("<frozen importlib") for code in codes):
        return  # modules are imported at their first use
    own = next((code for code in codes if "/mcpdesk/" in code.co_filename), None)
    if own is not None:
        place = f"{own.co_filename.rpartition('/mcpdesk/')[2]}:{own.co_name}"
        for seen in _watching:
            seen.append(f"{event} {values[0]!r} ({place})")
