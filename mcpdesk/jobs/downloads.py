"""Files produced by a job. The files are recorded when the job ends, and can be downloaded until they change.

A path alone does not identify a file: another job may write the same file later, and a link may lead to any
file. Files outside the given folders are never opened. These functions block; call them on a worker thread.
"""

from __future__ import annotations

import errno
import hashlib
import mimetypes
import os
import stat
import tempfile
import time
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath

from msgspec import Struct

from mcpdesk.errors import ArchiveTooLarge, FileUnavailable
from mcpdesk.portable_files import NO_FOLLOW, NON_BLOCKING, OPEN_FLAGS

PIECE_BYTES = 1 << 20
"""Number of bytes of a file that are read at a time."""
MAX_CLOCK_DIFFERENCE_S = 2.0
"""Maximum difference between the clock of the file system and ours, in seconds."""
MAX_ARCHIVE_BYTES = 4 << 30
"""Maximum bytes of an archive. If the files of a job are larger, they can only be downloaded one by one."""
DISK_FULL_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
MIN_ZIP_TIME, MAX_ZIP_TIME = (1980, 1, 1, 0, 0, 0), (2107, 12, 31, 23, 59, 58)
"""Earliest and latest time that a zip archive can store."""


class ProducedFile(Struct, frozen=True):
    """One file."""

    name: str
    """Path relative to the first root, or only the file name if the file is outside the first root. Unique in
    its job.
    """
    path: Path
    size: int
    """Size in bytes."""
    stamp: tuple[int, int, int, int]
    """Device, inode, size in bytes, and modification time in nanoseconds."""
    is_output: bool = False
    """True for the full output of a program, False for a file that the job produced."""

    @property
    def tag(self) -> str:
        """Entity tag. It changes when the content changes, as far as the file system can tell."""
        return "-".join(f"{part:x}" for part in self.stamp[1:])


def record_files(
    paths: Iterable[Path], roots: Sequence[Path], since: float = 0.0
) -> tuple[ProducedFile, ...]:
    """Return records of the files among `paths`, in order. Names are relative to the first of `roots`.

    Missing files, links, devices and files outside `roots` are left out. A file that was not changed after
    `since` (Unix seconds) is left out too, because the job did not produce it.
    """
    files: dict[str, ProducedFile] = {}
    resolved_roots = [root.resolve() for root in roots]
    for path in paths:
        try:
            descriptor, real_path = _open_checked(path, resolved_roots)
        except FileUnavailable:
            continue
        status = os.fstat(descriptor)
        os.close(descriptor)
        if status.st_ctime < since - MAX_CLOCK_DIFFERENCE_S:
            continue
        stamp = _stamp(status)
        name = _unique_name(real_path, resolved_roots[0] if resolved_roots else None, files)
        files[name] = ProducedFile(name, real_path, stamp[2], stamp)
    return tuple(files.values())


def open_unchanged(file: ProducedFile, roots: Sequence[Path]) -> int:
    """Open a file for reading and return the descriptor.

    Raises: FileUnavailable if the file was changed, replaced or removed after the job produced it.
    """
    descriptor, _ = _open_checked(file.path, [root.resolve() for root in roots])
    if _stamp(os.fstat(descriptor)) != file.stamp:
        os.close(descriptor)
        raise FileUnavailable(f"{file.name} was changed after the job made it")
    return descriptor


def check_unchanged(file: ProducedFile, roots: Sequence[Path]) -> None:
    """Check that a file is unchanged since the job produced it. Raises: FileUnavailable."""
    os.close(open_unchanged(file, roots))


def digest(file: ProducedFile, roots: Sequence[Path]) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal. Reads the whole file.

    Raises: FileUnavailable.
    """
    hasher = hashlib.sha256()
    with os.fdopen(open_unchanged(file, roots), "rb") as source:
        while piece := source.read(PIECE_BYTES):
            hasher.update(piece)
        if _stamp(os.fstat(source.fileno())) != file.stamp:
            raise FileUnavailable(f"{file.name} was changed while it was read")
    return hasher.hexdigest()


def _open_checked(path: Path, resolved_roots: Sequence[Path]) -> tuple[int, Path]:
    """Open a file in one of the roots, and return the descriptor and the resolved path."""
    try:
        real_path = path.resolve(strict=True)
        if not any(real_path.is_relative_to(root) for root in resolved_roots):
            raise FileUnavailable(f"{path.name} is outside of the folders whose files may be returned")
        flags = os.O_RDONLY | OPEN_FLAGS | NO_FOLLOW | NON_BLOCKING
        descriptor = os.open(real_path, flags)
    except (OSError, ValueError, RuntimeError) as error:
        raise FileUnavailable(f"{path.name} no longer exists") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileUnavailable(f"{path.name} is not a file")
    return descriptor, real_path


def _stamp(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _unique_name(path: Path, root: Path | None, used_names: dict[str, ProducedFile]) -> str:
    is_in_root = root is not None and path.is_relative_to(root)
    text = path.relative_to(root).as_posix() if is_in_root and root is not None else path.name
    name = PurePath(text.encode("utf-8", "replace").decode())
    free_name, number = name, 1
    while free_name.as_posix() in used_names and used_names[free_name.as_posix()].path != path:
        number += 1
        free_name = name.with_name(f"{name.stem}-{number}{name.suffix}")
    return free_name.as_posix()


class Download(Struct, frozen=True):
    """An open file to be sent. The receiver must close `descriptor`."""

    descriptor: int
    size: int
    name: str
    media_type: str
    tag: str
    """Entity tag. It changes when the bytes change, so that a client does not combine ranges of different
    versions.
    """


def single_download(file: ProducedFile, roots: Sequence[Path]) -> Download:
    """Return one file as a download. Raises: FileUnavailable."""
    guessed_type, encoding = mimetypes.guess_type(file.name, strict=False)
    media_type = "application/octet-stream" if guessed_type is None or encoding else guessed_type
    descriptor = open_unchanged(file, roots)
    return Download(descriptor, file.size, PurePath(file.name).name, media_type, file.tag)


def archive_download(files: Sequence[ProducedFile], roots: Sequence[Path], name: str) -> Download:
    """Return all files as one zip archive. The same files always give the same bytes.

    Raises: FileUnavailable, ArchiveTooLarge.
    """
    size = sum(file.size for file in files)
    if size > MAX_ARCHIVE_BYTES:
        raise ArchiveTooLarge(
            f"{len(files)} files have {size} bytes; an archive is limited to {MAX_ARCHIVE_BYTES} bytes"
        )
    try:
        descriptor, length = _write_archive(files, roots)
    except OSError as error:
        if error.errno not in DISK_FULL_ERRORS:
            raise
        subject = f"an archive of {len(files)} files ({size} bytes)"
        raise ArchiveTooLarge(f"{subject} does not fit on this disk: {error.strerror}") from error
    tag = hashlib.sha256("\0".join(f"{file.name}\0{file.tag}" for file in files).encode()).hexdigest()[:32]
    return Download(descriptor, length, f"{name}.zip", "application/zip", tag)


def _write_archive(files: Sequence[ProducedFile], roots: Sequence[Path]) -> tuple[int, int]:
    """Write the archive to a temporary file. Return its descriptor and size."""
    with tempfile.TemporaryFile() as target:
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for file in files:
                _add_to_archive(archive, file, roots)
        return os.dup(target.fileno()), target.tell()


def _add_to_archive(archive: zipfile.ZipFile, file: ProducedFile, roots: Sequence[Path]) -> None:
    """Add a file to an archive, with its modification time in UTC and a fixed mode."""
    modification_time = time.gmtime(file.stamp[3] // 10**9)[:6]
    member = zipfile.ZipInfo(file.name, min(max(modification_time, MIN_ZIP_TIME), MAX_ZIP_TIME))
    member.compress_type, member.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
    with (
        os.fdopen(open_unchanged(file, roots), "rb") as source,
        archive.open(member, "w", force_zip64=file.size >= 1 << 31) as sink,
    ):
        while piece := source.read(PIECE_BYTES):
            sink.write(piece)
