"""Files that only their owner can read: histories, keys and other state of a person."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

RETRY_S = 0.005
"""How long to wait before a lock is tried again."""


def create(path: Path, flags: int = os.O_EXCL) -> int:
    """Create a file, and its folder, and return a descriptor for appending to it.

    Raises: FileExistsError when there is one already; OSError when it cannot be made.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | flags, 0o600)


def append(path: Path, data: bytes) -> None:
    """Add to a file, which is made if there is none. Raises: OSError when it cannot be written."""
    with os.fdopen(create(path, flags=0), "ab") as file:
        file.write(data)


def write(path: Path, data: bytes, *, replaces: bool = True, mode: int = 0o600) -> None:
    """Write a whole file: another process that reads it sees what was there before, or all of `data`.

    Raises: FileExistsError for a file that must not be replaced; OSError when it cannot be written.
    """
    draft = path.with_name(f"{path.name}.{os.urandom(4).hex()}")
    try:
        with os.fdopen(create(draft), "wb") as file:
            file.write(data)
            if mode != 0o600:
                os.fchmod(file.fileno(), mode)
        (os.replace if replaces else os.link)(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def hold(descriptor: int) -> None:
    """Tell other processes, which ask `is_held`, that an open file is in use, until it is closed."""
    if sys.platform != "win32":
        import fcntl

        with suppress(OSError):  # not every file system can
            fcntl.flock(descriptor, fcntl.LOCK_SH)


@contextmanager
def locked(path: Path, patience_s: float = 10.0) -> Iterator[None]:
    """Hold a lock across processes, by a file of its own, while the block runs.

    Raises: TimeoutError if another process keeps it; OSError if the lock file cannot be made.
    """
    with os.fdopen(create(path, flags=0), "ab") as file:
        if sys.platform != "win32":
            import fcntl

            last = time.monotonic() + patience_s
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > last:
                        raise TimeoutError(errno.ETIMEDOUT, f"another process keeps {path} locked") from None
                    time.sleep(RETRY_S)
        yield


def is_held(path: Path) -> bool:
    """Whether a living process holds this file."""
    if sys.platform != "win32":
        import fcntl

        with suppress(OSError), path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    return False


def is_unused(path: Path) -> bool:
    """True only if it is certain that no process holds this file: not where files cannot be locked."""
    if sys.platform != "win32":
        import fcntl

        with suppress(OSError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False
    return True  # a file that is open cannot be removed there
