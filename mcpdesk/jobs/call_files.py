"""Folders and files of single calls. `CallFolders` and `CreatedFiles` may be used on any thread.

Each call has its own folder for the files it produces. Old folders are removed when there are too many.

A client may also choose the path to which a program writes a file. Such a file never replaces a file that
this server did not create. Therefore, when a program has ended, each file that it wrote is marked: an
extended attribute stores the file's inode, size and modification time. If anything else changes the file
later, the mark is no longer valid, and the file is not replaced until a person removes it. Folders that were
created for a file are marked as well. On a file system without extended attributes, the most recent marks
are kept in memory.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import time
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from threading import Lock

MAX_FOLDERS = 1000
"""Maximum number of folders of one server's calls."""
MAX_FOLDER_BYTES = 4 << 30
"""Maximum total bytes of the folders. The oldest are removed first, except those in use."""

MARK_ATTRIBUTE = "user.mcpdesk.made"
"""Extended attribute of a file that contains the mark."""
MAX_MARKS = 10_000
"""Maximum number of marks in memory, for file systems without extended attributes."""
_FOLDER, _NOT_REGULAR = "folder", "no file"
"""Results of `_identity` for a folder, and for anything else that is not a regular file."""
_SHARED_BITS = stat.S_ISVTX | stat.S_IWOTH
"""Mode bits of a folder that other users can write to."""


class CallFolders:
    """Folders of one server's calls, below `root`."""

    def __init__(self, root: Path, max_folders: int = MAX_FOLDERS, max_bytes: int = MAX_FOLDER_BYTES) -> None:
        self.root = root
        self._max_folders, self._max_bytes = max_folders, max_bytes
        self._lock = Lock()
        self._sizes: dict[Path, int | None] | None = None
        """Size of each folder in bytes, oldest folder first. The size is None while the folder is in use. The
        whole dict is None until the first call.
        """

    def begin(self) -> Path:
        """Create a folder that is in use until `end`, and remove old ones. Raises: OSError."""
        folder = self.root / f"{time.time_ns()}-{os.getpid()}-{secrets.token_hex(4)}"
        with self._lock:
            if self._sizes is None:
                self._sizes = {each: _size(each) for each in _folders(self.root)}
            surplus_folders = self._surplus(self._sizes)
            for old_folder in surplus_folders:
                del self._sizes[old_folder]
        for old_folder in surplus_folders:
            shutil.rmtree(old_folder, ignore_errors=True)
        folder.mkdir(mode=0o700, parents=True)
        with self._lock:
            self._sizes[folder] = None
        return folder

    def end(self, folder: Path) -> None:
        """Mark a folder as complete. Remove the folder if it contains no files."""
        for directory, _, _ in os.walk(folder, topdown=False):
            try:
                os.rmdir(directory)
            except OSError:  # the directory is not empty
                continue
        size = _size(folder) if folder.exists() else None
        with self._lock:
            assert self._sizes is not None
            if size is None:
                del self._sizes[folder]
            else:
                self._sizes[folder] = size

    def _surplus(self, sizes: dict[Path, int | None]) -> list[Path]:
        """Return the old folders to remove before another one is created."""
        surplus_folders = []
        folder_count = 1  # the new folder
        total_bytes = 0
        for folder, size in reversed(sizes.items()):
            folder_count += 1
            total_bytes += size or 0
            if (folder_count > self._max_folders or total_bytes > self._max_bytes) and size is not None:
                surplus_folders.append(folder)
        return surplus_folders


def _folders(root: Path) -> list[Path]:
    """Return the folders of earlier runs, oldest first. The names are sorted, because each begins with the
    time.
    """
    try:
        return sorted(root.iterdir())
    except FileNotFoundError:
        return []


def _size(folder: Path) -> int:
    total = 0
    for directory, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(directory, name)).st_size
            except OSError:
                continue
    return total


class NotOwnFile(Exception):
    """A file or folder exists that this server did not create."""


class CreatedFiles:
    """Files created by the programs of one server."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._reservations: Counter[Path] = Counter()
        """Number of running calls that reserved a file, by file."""
        self._marks: dict[Path, str] = {}
        """Most recent marks of files on file systems without extended attributes."""

    def claim(self, paths: Iterable[Path], roots: Iterable[Path]) -> tuple[Path, ...]:
        """Reserve files below `roots` for a call, until `release` is called with the returned paths.

        In a root that other users can write to, such as /tmp, a file must be in the root itself or in folders
        that this server created.

        Raises: NotOwnFile.
        """
        shared_roots = [root for root in roots if _is_shared(root)]
        unique_paths = tuple(dict.fromkeys(paths))
        with self._lock:
            for path in unique_paths:
                self._require_own(path, shared_roots)
            for path in unique_paths:
                self._make_folders(path.parent)
            self._reservations.update(unique_paths)
        return unique_paths

    def release(self, claimed: Collection[Path], other_paths: Iterable[Path] = ()) -> None:
        """Mark the existing files among `claimed` and `other_paths` as created by this server.

        Call this method when the program has ended.
        """
        with self._lock:
            for path in claimed:
                self._reservations[path] -= 1
                if not self._reservations[path]:
                    del self._reservations[path]
            for path in (*claimed, *other_paths):
                identity = _identity(path)
                if identity not in ("", _FOLDER, _NOT_REGULAR):
                    self._mark(path, identity)

    def _require_own(self, path: Path, shared_roots: Iterable[Path]) -> None:
        """Raises: NotOwnFile if this server did not create the file, or its folders in a shared root."""
        identity = _identity(path)
        is_own_file = path in self._reservations or identity == self._stored_mark(path)
        if identity in (_FOLDER, _NOT_REGULAR) or (identity and not is_own_file):
            raise NotOwnFile(f"{str(path)!r} already exists and was not created here, or was changed since")
        for root in shared_roots:
            if not path.is_relative_to(root):
                continue
            for folder in path.parents[: len(path.relative_to(root).parts) - 1]:
                if _identity(folder) and self._stored_mark(folder) != _FOLDER:
                    raise NotOwnFile(f"the folder {str(folder)!r} was not created here, and {root} is shared")

    def _make_folders(self, folder: Path) -> None:
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        for each in reversed(missing):
            each.mkdir(exist_ok=True)
            self._mark(each, _FOLDER)

    def _mark(self, path: Path, mark: str) -> None:
        try:
            os.setxattr(path, MARK_ATTRIBUTE, mark.encode(), follow_symlinks=False)
        except PermissionError:  # the file belongs to another user
            return
        except (OSError, AttributeError):  # not supported by this file system or operating system
            self._marks[path] = mark
            if len(self._marks) > MAX_MARKS:
                del self._marks[next(iter(self._marks))]

    def _stored_mark(self, path: Path) -> str:
        try:
            return os.getxattr(path, MARK_ATTRIBUTE, follow_symlinks=False).decode("ascii", "replace")
        except (OSError, AttributeError):
            return self._marks.get(path, "")


def _is_shared(root: Path) -> bool:
    try:
        return bool(root.stat().st_mode & _SHARED_BITS)
    except OSError:
        return False


def _identity(path: Path) -> str:
    """Return the inode, size and modification time of a regular file as text. Return `_FOLDER` or
    `_NOT_REGULAR` for anything else, or "" if the path does not exist.
    """
    try:
        status = path.lstat()
    except OSError:
        return ""
    if stat.S_ISDIR(status.st_mode):
        return _FOLDER
    if not stat.S_ISREG(status.st_mode):
        return _NOT_REGULAR
    return f"{status.st_ino}-{status.st_size}-{status.st_mtime_ns}"
