"""What is sent of a job's files: the one there is, or all of them in an archive. Blocks: not for the loop."""

from __future__ import annotations

import errno
import hashlib
import mimetypes
import os
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePath

from msgspec import Struct

from mcpdesk.errors import ArchiveTooLarge
from mcpdesk.jobs import files
from mcpdesk.jobs.files import Produced

ARCHIVE_BYTES = 4 << 30
"""More than this is not put into one archive: its files can be had one by one."""
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
EARLIEST, LATEST = (1980, 1, 1, 0, 0, 0), (2107, 12, 31, 23, 59, 58)
"""Archives know no other times."""


class Parcel(Struct, frozen=True):
    """An open file to be sent. Whoever gets it closes `descriptor`."""

    descriptor: int
    size: int
    name: str
    media_type: str
    tag: str
    """The same for the same bytes: what is asked for in ranges fits together."""


def single(file: Produced, roots: Sequence[Path]) -> Parcel:
    """One file as it is. Raises: FileGone."""
    kind, coding = mimetypes.guess_type(file.name, strict=False)
    media_type = "application/octet-stream" if kind is None or coding else kind
    descriptor = files.opened(file, roots)
    return Parcel(descriptor, file.size, PurePath(file.name).name, media_type, file.tag)


def archive(made: Sequence[Produced], roots: Sequence[Path], name: str) -> Parcel:
    """All of them in one zip, the same bytes each time. Raises: FileGone, ArchiveTooLarge."""
    size = sum(file.size for file in made)
    if size > ARCHIVE_BYTES:
        raise ArchiveTooLarge(
            f"{len(made)} files of {size} bytes are too much for one archive ({ARCHIVE_BYTES})"
        )
    try:
        descriptor, length = _packed(made, roots)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        told = f"an archive of {len(made)} files of {size} bytes finds no room here: {error.strerror}"
        raise ArchiveTooLarge(told) from error
    tag = hashlib.sha256("\0".join(f"{file.name}\0{file.tag}" for file in made).encode()).hexdigest()[:32]
    return Parcel(descriptor, length, f"{name}.zip", "application/zip", tag)


def _packed(made: Sequence[Produced], roots: Sequence[Path]) -> tuple[int, int]:
    """A descriptor of the archive, and its size."""
    with tempfile.TemporaryFile() as target:
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
            for file in made:
                _pack(packed, file, roots)
        return os.dup(target.fileno()), target.tell()


def _pack(packed: zipfile.ZipFile, file: Produced, roots: Sequence[Path]) -> None:
    changed = time.gmtime(file.stamp[3] // 10**9)[:6]
    member = zipfile.ZipInfo(file.name, min(max(changed, EARLIEST), LATEST))
    member.compress_type, member.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
    with (
        os.fdopen(files.opened(file, roots), "rb") as source,
        packed.open(member, "w", force_zip64=file.size >= 1 << 31) as sink,
    ):
        while piece := source.read(files.PIECE):
            sink.write(piece)
