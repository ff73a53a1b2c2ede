"""Detects files, locks and databases that are used on the thread of an event loop."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from mcpdesk.paths import PACKAGE

EVENTS = frozenset(
    {
        *("open", "sqlite3.connect", "fcntl.flock", "fcntl.lockf", "subprocess.Popen"),
        *(
            "os.chmod",
            "os.chown",
            "os.getxattr",
            "os.link",
            "os.listdir",
            "os.mkdir",
            "os.remove",
            "os.rename",
        ),
        *("os.rmdir", "os.scandir", "os.setxattr", "os.symlink", "os.truncate", "os.utime"),
    }
)
"""Audit events of the interpreter."""
LOOKS = ("stat", "lstat", "readlink", "fsync")
"""Functions of `os` that use the disk and have no audit event."""
MEMORY = ("/proc/", "/dev/")
"""Files that are not on a disk."""
DISK_THREAD = "programs"
"""The thread whose loop follows the programs of tools: it writes their output, so that no other loop does."""
_watching: list[list[str]] = []
_is_hooked = False


@contextmanager
def blocking_calls(allowed: tuple[str, ...] = ()) -> Iterator[list[str]]:
    """Collect blocking calls of our code on the thread of a running loop, as `event path (place)`.

    Places that contain one of `allowed` do not count.
    """
    global _is_hooked
    if not _is_hooked:
        sys.addaudithook(_note)  # it cannot be removed again
        _is_hooked = True
    seen: list[str] = []
    with ExitStack() as patches:
        for name in LOOKS:
            patches.enter_context(patch.object(os, name, _noted(name, getattr(os, name))))
        _watching.append(seen)
        try:
            yield seen
        finally:
            _watching.remove(seen)
    seen[:] = [each for each in seen if not any(frame in each for frame in allowed)]


def _noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def noted(*values: Any, **named: Any) -> Any:
        _note(f"os.{name}", values)
        return function(*values, **named)

    return noted


def _note(event: str, values: tuple[Any, ...]) -> None:
    if not _watching or not (event in EVENTS or event.removeprefix("os.") in LOOKS):
        return
    if isinstance(values[0], int) and event == "open":
        return  # the descriptor is open already
    if str(values[0]).startswith(MEMORY) or threading.current_thread().name == DISK_THREAD:
        return
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    # Not `extract_stack`: it reads the sources, and so comes here again.
    codes = [frame.f_code for frame, _ in traceback.walk_stack(None)]
    if any(code.co_filename.startswith("<frozen importlib") for code in codes):
        return  # modules are imported at their first use
    places = [
        f"{Path(code.co_filename).relative_to(PACKAGE)}:{code.co_name}"
        for code in codes
        if code.co_filename.startswith(f"{PACKAGE}/")
    ]
    if places:
        for seen in _watching:
            seen.append(f"{event} {values[0]!r} ({' < '.join(places[:3])})")
