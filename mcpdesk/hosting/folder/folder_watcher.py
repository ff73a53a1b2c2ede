"""Notification of changes in a folder without polling. Linux only (inotify)."""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

_MODIFY, _ATTRIB, _CLOSE_WRITE, _MOVE, _CREATE, _DELETE = 0x2, 0x4, 0x8, 0xC0, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF, _ONLYDIR = 0x400, 0x800, 0x01000000
_MASK = (
    _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVE | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF | _ONLYDIR
)  # fmt: skip
_READ_BYTES = 1 << 16
MAX_FOLDERS = 2_000
"""Maximum number of folders watched; a larger tree is polled."""


class FolderWatcher:
    """Signals that something in a folder or one of its subfolders has changed.

    It does not report what changed. After a signal, use another watcher to find the changes.
    """

    def __init__(self, folder: Path, ignored: Collection[str] = ()) -> None:
        """Watch a folder, except subfolders named in `ignored`. Raises: OSError if that is impossible."""
        if sys.platform != "linux":
            raise OSError("inotify is not available")
        self._folder, self._ignored = folder, ignored
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        try:
            self.watch_subfolders()
        except OSError:
            self.close()
            raise

    def watch_subfolders(self) -> None:
        """Watch every existing subfolder, also through links. This takes time in a large tree.

        Raises: OSError.
        """
        watched_folders = set[tuple[int, int]]()
        for path, folders, _ in os.walk(self._folder, followlinks=True):
            try:
                status = os.stat(path)
            except FileNotFoundError:  # removed in the meantime
                continue
            identity = status.st_dev, status.st_ino
            if identity in watched_folders:  # a link to a parent folder, or a second link
                folders.clear()
                continue
            watched_folders.add(identity)
            folders[:] = [name for name in folders if name not in self._ignored]
            if len(watched_folders) > MAX_FOLDERS:
                raise OSError(f"more than {MAX_FOLDERS:,} folders")
            if self._libc.inotify_add_watch(self._fd, os.fsencode(path), _MASK) < 0:
                error_number = ctypes.get_errno()
                if os.path.isdir(path):  # otherwise the folder was removed in the meantime
                    raise OSError(error_number, os.strerror(error_number), path)

    async def wait_for_change(self) -> None:
        """Wait until something has changed since the last call."""
        loop = asyncio.get_running_loop()
        has_change = asyncio.Event()
        loop.add_reader(self._fd, has_change.set)
        try:
            await has_change.wait()
        finally:
            loop.remove_reader(self._fd)
        with suppress(BlockingIOError):
            while os.read(self._fd, _READ_BYTES):
                pass

    def close(self) -> None:
        """Stop watching."""
        os.close(self._fd)
