"""The files of skills as resources, so that a client can read what a skill refers to."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from mcpdesk.errors import RegistrationError
from mcpdesk.hosting.digest import digest
from mcpdesk.hosting.front_matter import read_document, text_of
from mcpdesk.hosting.text_items import mime_type_of, text_or_bytes
from mcpdesk.server.context import Context
from mcpdesk.server.resource import Reader, Resource
from mcpdesk.tools.skills import SKILL, SKILL_BYTES, files_of, skills_below, uri_of


def skill_resources(bases: Sequence[Path]) -> list[Resource]:
    """A resource for each file of each skill. Of two skills with one name that in the earlier base counts."""
    found: dict[str, Path] = {}
    for base in bases:
        for folder in skills_below(base):
            found.setdefault(folder.name, folder)
    return [each for folder in found.values() for each in _resources(folder)]


def _resources(folder: Path) -> Iterator[Resource]:
    root = folder.resolve()
    for path, status in files_of(folder):
        yield _resource(path, status, folder, root)


def _resource(path: Path, status: os.stat_result, folder: Path, root: Path) -> Resource:
    place = path.relative_to(folder).as_posix()
    head = _head(path, place) if place == SKILL and status.st_size <= SKILL_BYTES else {}
    mime_type = mime_type_of(path)
    stamp = f"{path} {status.st_size} {status.st_mtime_ns}"
    return Resource(
        uri=uri_of(folder.name, place),
        name=f"{folder.name}/{place}",
        reader=_reader(path, root, mime_type),
        title=head.get("title", ""),
        description=head.get("description", ""),
        mime_type=mime_type,
        size=status.st_size,
        source=f"skills/{folder.name}/{place}",
        fingerprint=digest(stamp.encode()),
    )


def _reader(path: Path, root: Path, mime_type: str) -> Reader:
    def contents() -> str | bytes:
        if not path.resolve().is_relative_to(root):
            raise PermissionError(f"{path.name} leaves the folder of its skill")
        return text_or_bytes(path.read_bytes(), mime_type)

    async def read(_uri: str, _variables: dict[str, str], _context: Context) -> str | bytes:
        return await asyncio.to_thread(contents)

    return read


def _head(path: Path, place: str) -> dict[str, str]:
    """Title and description of a skill; none when its front matter cannot be read."""
    try:
        document = read_document(path.read_text("utf-8-sig", errors="replace"), place)
        return {key: text_of(document.fields, key, place) for key in ("title", "description")}
    except (RegistrationError, OSError):
        return {}
