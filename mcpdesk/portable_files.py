"""Flags and functions for files. On Windows, which lacks some of them, the closest replacement is used."""

from __future__ import annotations

import os
import sys
import threading
import time

OPEN_FLAGS: int = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""Flags for each `os.open`: child processes do not inherit the file, and Windows converts no line ends."""
NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
"""Flag that refuses a symbolic link. 0 on Windows, where only administrators can create symbolic links."""
NON_BLOCKING: int = getattr(os, "O_NONBLOCK", 0)
"""Flag that refuses to wait for the other end of a named pipe. 0 on Windows, where folders contain no named
pipes.
"""
RETRY_S = 0.005
"""Seconds between attempts to acquire a lock."""
LOCKED_BYTE = 1 << 60
"""Position of the byte that `lock` locks on Windows. The byte is after the end of the content, so that other
processes can still read the content.
"""
_POSITION_LOCK = threading.Lock()
"""Lock that a thread holds while it moves the position of a file on Windows."""


def read_at(descriptor: int, count: int, offset: int) -> bytes:
    """Return up to `count` bytes from `offset`. On Windows this moves the position of the file."""
    if hasattr(os, "pread"):
        return os.pread(descriptor, count, offset)
    with _POSITION_LOCK:
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.read(descriptor, count)


def lock(descriptor: int) -> None:
    """Lock a file until it is closed. Waits for another process that has locked it. Raises: OSError."""
    if sys.platform != "win32":
        import fcntl

        return fcntl.flock(descriptor, fcntl.LOCK_EX)
    while not try_lock(descriptor):
        time.sleep(RETRY_S)


def try_lock(descriptor: int) -> bool:
    """Lock a file until it is closed. Return False if another process has locked it. Raises: OSError."""
    if sys.platform != "win32":
        import fcntl

        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
    import msvcrt

    with _POSITION_LOCK:
        position = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        finally:
            os.lseek(descriptor, position, os.SEEK_SET)
    return True


def is_own(status: os.stat_result) -> bool:
    """Return True if a file belongs to the user of this process. Always True on Windows."""
    return not hasattr(os, "getuid") or status.st_uid == os.getuid()


def is_shared(status: os.stat_result) -> bool:
    """Return True if the mode of a file lets other users read or write it.

    Always False on Windows: the mode contains nothing about other users, and the folders of a user are
    private.
    """
    return hasattr(os, "getuid") and bool(status.st_mode & 0o077)
