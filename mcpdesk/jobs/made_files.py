"""Files that programs put where clients asked for them: what somebody else put there is never written over.

A file is marked, in its extended attributes, with how it was when its program ended: whoever changes it later
makes it theirs. Folders made for it are marked as well. Where a file system keeps no marks, they last as long
as the process, and of those the ones used last alone: what lost its mark counts as somebody else's, so that a
call that would make it anew is refused until it is removed. Used on any thread.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from threading import Lock

MARK = "user.mcpdesk.made"
MOST_MARKS = 10_000
"""Of those kept here: of files and folders on file systems that keep none."""
_FOLDER, _NO_FILE = "folder", "no file"
_OTHERS = stat.S_ISVTX | stat.S_IWOTH
"""Of a folder in which others have files, too."""


class Foreign(Exception):
    """Something is in the way that was not made here."""


class MadeFiles:
    """Those of one server."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._used: Counter[Path] = Counter()
        """Files of calls that run."""
        self._marks: dict[Path, str] = {}
        """Where the file system keeps none; the one used last comes last."""
        self._doubt = ""
        """What a refusal adds once a mark was forgotten."""

    def claim(self, paths: Iterable[Path], roots: Iterable[Path]) -> tuple[Path, ...]:
        """Make room for files below `roots` until `settle` is given what this returns.

        In a root that is everybody's, such as /tmp, folders somebody else made are theirs. Raises: Foreign.
        """
        shared = [root for root in roots if _is_shared(root)]
        wanted = tuple(dict.fromkeys(paths))
        with self._lock:
            for path in wanted:
                self._check(path, shared)
            for path in wanted:
                self._make_folders(path.parent)
            self._used.update(wanted)
        return wanted

    def settle(self, claimed: Collection[Path], more: Iterable[Path] = ()) -> None:
        """The program has ended: what is there now was made by it, and so was `more`."""
        with self._lock:
            for path in claimed:
                self._used[path] -= 1
                if not self._used[path]:
                    del self._used[path]
            for path in (*claimed, *more):
                looks = _looks(path)
                if looks not in ("", _FOLDER, _NO_FILE):
                    self._mark(path, looks)

    def _check(self, path: Path, shared: Iterable[Path]) -> None:
        looks = _looks(path)
        is_in_the_way = looks in (_FOLDER, _NO_FILE)
        if is_in_the_way or (looks and path not in self._used and looks != self._marked(path)):
            told = f"{str(path)!r} is there already and was not made here, or changed since"
            raise Foreign(told + self._doubt)
        for root in shared:
            if not path.is_relative_to(root):
                continue
            for folder in path.parents[: len(path.relative_to(root).parts) - 1]:
                if _looks(folder) and self._marked(folder) != _FOLDER:
                    told = f"the folder {str(folder)!r} was not made here, and {root} is everybody's"
                    raise Foreign(told + self._doubt)

    def _make_folders(self, folder: Path) -> None:
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        for each in reversed(missing):
            each.mkdir(exist_ok=True)
            self._mark(each, _FOLDER)

    def _mark(self, path: Path, text: str) -> None:
        try:
            os.setxattr(path, MARK, text.encode(), follow_symlinks=False)
        except PermissionError:  # it is somebody else's
            return
        except (OSError, AttributeError):  # neither every file system nor every system has them
            self._keep(path, text)

    def _marked(self, path: Path) -> str:
        try:
            return os.getxattr(path, MARK, follow_symlinks=False).decode("ascii", "replace")
        except (OSError, AttributeError):
            text = self._marks.get(path, "")
            if text:
                self._keep(path, text)
            return text

    def _keep(self, path: Path, text: str) -> None:
        """Keep a mark here; of too many, the one that was not used for longest is forgotten."""
        self._marks.pop(path, None)
        self._marks[path] = text
        if len(self._marks) > MOST_MARKS:
            del self._marks[next(iter(self._marks))]
            self._doubt = f" (the last {MOST_MARKS} made are known)"


def _is_shared(root: Path) -> bool:
    try:
        return bool(root.stat().st_mode & _OTHERS)
    except OSError:
        return False


def _looks(path: Path) -> str:
    """How something looks that can be replaced; empty where there is nothing."""
    try:
        facts = path.lstat()
    except OSError:
        return ""
    if stat.S_ISDIR(facts.st_mode):
        return _FOLDER
    if not stat.S_ISREG(facts.st_mode):
        return _NO_FILE
    return f"{facts.st_ino}-{facts.st_size}-{facts.st_mtime_ns}"
