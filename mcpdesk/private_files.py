"""Files that only their owner can read, such as histories, keys and other state of the user."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mcpdesk.portable_files import OPEN_FLAGS, RETRY_S, try_lock


def create(path: Path, flags: int = os.O_EXCL) -> int:
    """Create a file and its folder, and return a descriptor for appending to it.

    With `flags=0`, open the file if it exists. Raises: FileExistsError if the file exists and `flags` is not
    0; OSError if it cannot be created.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | OPEN_FLAGS | flags, 0o600)


def append(path: Path, data: bytes) -> None:
    """Append to a file, creating it if needed. Raises: OSError if it cannot be written."""
    with os.fdopen(create(path, flags=0), "ab") as file:
        file.write(data)


def write(path: Path, data: bytes, *, replaces: bool = True, mode: int = 0o600) -> None:
    """Write a file atomically: another process reads either the old content or all of `data`.

    Raises: FileExistsError if the file exists and `replaces` is false; OSError if it cannot be written.
    """
    temporary_path = path.with_name(f"{path.name}.{os.urandom(4).hex()}")
    try:
        with os.fdopen(create(temporary_path), "wb") as file:
            file.write(data)
            if mode != 0o600:
                temporary_path.chmod(mode)
        (os.replace if replaces else os.link)(temporary_path, path)
    finally:
        temporary_path.unlink(missing_ok=True)


def hold(descriptor: int) -> None:
    """Mark an open file as in use until it is closed. Other processes check this with `is_held`."""
    if sys.platform != "win32":
        import fcntl

        with suppress(OSError):  # not every file system supports locks
            fcntl.flock(descriptor, fcntl.LOCK_SH)


@contextmanager
def locked(path: Path, timeout_s: float = 10.0) -> Iterator[None]:
    """Hold a lock file across processes while the block runs.

    Raises: TimeoutError if another process keeps the lock; OSError if the lock file cannot be created.
    """
    with os.fdopen(create(path, flags=0), "ab") as file:
        deadline = time.monotonic() + timeout_s
        while not try_lock(file.fileno()):
            if time.monotonic() > deadline:
                raise TimeoutError(errno.ETIMEDOUT, f"another process keeps {path} locked")
            time.sleep(RETRY_S)
        yield


def is_held(path: Path) -> bool:
    """Return True if a running process holds this file."""
    if sys.platform != "win32":
        import fcntl

        with suppress(OSError), path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    return False


def is_unused(path: Path) -> bool:
    """Return True if no process holds this file, or on Windows. False if the file system has no locks."""
    if sys.platform != "win32":
        import fcntl

        with suppress(OSError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False
    return True  # Windows itself refuses to remove a file that is in use
