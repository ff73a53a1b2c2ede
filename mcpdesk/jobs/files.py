"""Files a job made: noted as they were when it ended, and given out only while they are still the same.

A path alone is no proof: another job may write the same file later, and a link may lead anywhere. Nothing
here opens what lies outside the folders it is told.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath

from msgspec import Struct

from mcpdesk.errors import FileGone

PIECE = 1 << 20
CLOCK_S = 2.0
"""How far the clocks of files and of ours may be apart."""


class Produced(Struct, frozen=True):
    """One file. `name` is unique among those of its job: the path inside the folder, else the last part."""

    name: str
    path: Path
    size: int
    stamp: tuple[int, int, int, int]
    """Device, inode, size and time of the last change."""

    @property
    def tag(self) -> str:
        """The same for the same content, as far as the system tells."""
        return "-".join(f"{part:x}" for part in self.stamp[1:])


def noted(paths: Iterable[Path], roots: Sequence[Path], since: float = 0.0) -> tuple[Produced, ...]:
    """Those of the files that are there, in order; nothing outside `roots`, no links, no devices.

    The first of `roots` is the folder names are relative to. What was not touched after `since` (Unix
    seconds) was there before: whoever names it did not make it.
    """
    found: dict[str, Produced] = {}
    homes = [root.resolve() for root in roots]
    for path in paths:
        try:
            descriptor, real = _opened(path, homes)
        except FileGone:
            continue
        facts = os.fstat(descriptor)
        os.close(descriptor)
        if facts.st_ctime < since - CLOCK_S:
            continue
        stamp = _stamp(facts)
        name = _name(real, homes[0] if homes else None, found)
        found[name] = Produced(name, real, stamp[2], stamp)
    return tuple(found.values())


def opened(file: Produced, roots: Sequence[Path]) -> int:
    """A descriptor to read it by. Raises: FileGone when it was changed, replaced or removed."""
    descriptor, _ = _opened(file.path, [root.resolve() for root in roots])
    if _stamp(os.fstat(descriptor)) != file.stamp:
        os.close(descriptor)
        raise FileGone(f"{file.name} was changed after the job made it")
    return descriptor


def check(file: Produced, roots: Sequence[Path]) -> None:
    """Raises: FileGone when it is not any more what the job made."""
    os.close(opened(file, roots))


def digest(file: Produced, roots: Sequence[Path]) -> str:
    """The SHA-256 of its content, in hexadecimal. Reads all of it. Raises: FileGone."""
    found = hashlib.sha256()
    with os.fdopen(opened(file, roots), "rb") as source:
        while piece := source.read(PIECE):
            found.update(piece)
        if _stamp(os.fstat(source.fileno())) != file.stamp:
            raise FileGone(f"{file.name} was changed while it was read")
    return found.hexdigest()


def _opened(path: Path, homes: Sequence[Path]) -> tuple[int, Path]:
    """A descriptor and where the file really is. The open file decides, not its path a moment before."""
    try:
        real = path.resolve(strict=True)
        if not any(real.is_relative_to(home) for home in homes):
            raise FileGone(f"{path.name} lies outside of what may be given out")
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(real, flags)
    except (OSError, ValueError, RuntimeError) as error:
        raise FileGone(f"{path.name} is not there any more") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileGone(f"{path.name} is no file")
    return descriptor, real


def _stamp(facts: os.stat_result) -> tuple[int, int, int, int]:
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


def _name(path: Path, home: Path | None, taken: dict[str, Produced]) -> str:
    inside = home is not None and path.is_relative_to(home)
    text = path.relative_to(home).as_posix() if inside and home is not None else path.name
    name = PurePath(text.encode("utf-8", "replace").decode())
    chosen, number = name, 1
    while chosen.as_posix() in taken and taken[chosen.as_posix()].path != path:
        number += 1
        chosen = name.with_name(f"{name.stem}-{number}{name.suffix}")
    return chosen.as_posix()
