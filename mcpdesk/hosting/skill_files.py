"""The files of skills as resources, so that a client can read what a skill refers to."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from mcpdesk.errors import RegistrationError
from mcpdesk.hosting.digest import digest
from mcpdesk.hosting.front_matter import read_document, text_of
from mcpdesk.hosting.text_items import mime_type_of, text_or_bytes
from mcpdesk.server.context import Context
from mcpdesk.server.registry import Unavailable
from mcpdesk.server.resource import Reader, Resource
from mcpdesk.server.tool import Tool
from mcpdesk.tools.skills import SKILL, SKILL_BYTES, files_of, skills_below, uri_of

LISTED = 50
"""Skills named in the description of InvokeSkill."""
DESCRIPTION_LENGTH = 200
"""Characters of a skill's own description there."""


class Skills(Struct, frozen=True):
    """What there is below some folders: the files of skills, what each skill is for, and the broken ones."""

    resources: tuple[Resource, ...]
    descriptions: dict[str, str]
    """By name of the skill."""
    broken: dict[str, Unavailable]
    """By name of the skill; these are left out."""

    def described(self, tool: Tool) -> Tool:
        """InvokeSkill with the skills there are in its description."""
        names = sorted(self.descriptions)
        lines = [_line(name, self.descriptions[name]) for name in names[:LISTED]]
        if len(names) > LISTED:
            lines.append(f"and {len(names) - LISTED} more; an unknown name is answered with all of them")
        told = "\n".join(["Skills:", *lines]) if lines else "There are no skills now."
        return replace(tool, description=f"{tool.description}\n\n{told}")


def read_skills(bases: Sequence[Path]) -> Skills:
    """The skills of some folders. Of two skills with one name that in the earlier base counts."""
    found: dict[str, Path] = {}
    for base in bases:
        for folder in skills_below(base):
            found.setdefault(folder.name, folder)
    resources: list[Resource] = []
    descriptions: dict[str, str] = {}
    broken: dict[str, Unavailable] = {}
    for name, folder in found.items():
        source = f"skills/{name}/{SKILL}"
        try:
            resources += _resources(folder)
            main = uri_of(name, SKILL)
            descriptions[name] = next(each.description for each in resources if each.uri == main)
        except RegistrationError as error:
            broken[name] = Unavailable(f"skill {name}", error.message, error.source or source)
        except OSError as error:
            broken[name] = Unavailable(f"skill {name}", f"cannot be read: {error.strerror}", source)
    return Skills(tuple(resources), descriptions, broken)


def _line(name: str, description: str) -> str:
    words = " ".join(description.split())
    cut = words if len(words) <= DESCRIPTION_LENGTH else f"{words[: DESCRIPTION_LENGTH - 1].rstrip()}…"
    return f"- {name}: {cut}" if cut else f"- {name}"


def _resources(folder: Path) -> list[Resource]:
    root = folder.resolve()
    return [_resource(path, status, folder, root) for path, status in files_of(folder)]


def _resource(path: Path, status: os.stat_result, folder: Path, root: Path) -> Resource:
    place = path.relative_to(folder).as_posix()
    source = f"skills/{folder.name}/{place}"
    head = _head(path, source) if place == SKILL and status.st_size <= SKILL_BYTES else {}
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
        source=source,
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
    """Title and description of a skill. Raises: RegistrationError for broken front matter; OSError."""
    document = read_document(path.read_text("utf-8-sig", errors="replace"), place)
    return {key: text_of(document.fields, key, place) for key in ("title", "description")}
