"""Skills of a server: their files as resources, and the list that clients can read."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from mcpdesk.errors import RegistrationError
from mcpdesk.hosting.folder.file_items import digest
from mcpdesk.hosting.folder.text_items import TEXT_TYPES, mime_type_of, text_of
from mcpdesk.protocol.catalogue import skill_entries
from mcpdesk.protocol.catalogue.front_matter import BYTE_ORDER_MARK, read_document, verbatim_fields
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.registry import Unavailable
from mcpdesk.server.offer.resources import Reader, Resource
from mcpdesk.server.offer.skill_entry import ListedFile, SkillEntry
from mcpdesk.server.offer.tool import Tool
from mcpdesk.tools.skills import SKILL, SKILL_BYTES, files_of, skills_below, uri_of

MAX_NAMED_SKILLS = 50
"""Maximum number of skills that the description of the tool InvokeSkill names."""
MAX_DESCRIPTION_LENGTH = 200
"""Maximum length in characters of a skill's description in the description of InvokeSkill."""

SkillFiles = list[tuple[Path, os.stat_result]]
"""Files of one skill with their status. SKILL.md is first."""


class SkillSet(Struct, frozen=True):
    """Skills found in some folders. All except `broken` can be invoked. Clients can list `entries`."""

    resources: dict[str, tuple[Resource, ...]]
    """Files of each skill, by name of the skill."""
    descriptions: dict[str, str]
    """Descriptions by name of the skill."""
    broken: dict[str, Unavailable]
    """Skills that cannot be used, by name, with reasons."""
    entries: tuple[SkillEntry, ...]
    unpublished: tuple[Unavailable, ...]
    """Skills that can be invoked but not listed, with reasons."""

    def with_names(self, tool: Tool) -> Tool:
        """Return the tool InvokeSkill with the names of the skills in its description."""
        names = sorted(self.descriptions)
        lines = [_skill_line(name, self.descriptions[name]) for name in names[:MAX_NAMED_SKILLS]]
        if len(names) > MAX_NAMED_SKILLS:
            lines.append(
                f"and {len(names) - MAX_NAMED_SKILLS} more; an unknown name is answered with all of them"
            )
        listing = "\n".join(["Skills:", *lines]) if lines else "No skills at present."
        return replace(tool, description=f"{tool.description}\n\n{listing}")

    def files(self) -> list[Resource]:
        """Return the files of all skills that can be invoked."""
        return [resource for files in self.resources.values() for resource in files]

    def published(self) -> list[Resource]:
        """Return the files of the skills that clients can list."""
        return [resource for entry in self.entries for resource in self.resources[entry.name]]


def read_skills(bases: Sequence[Path]) -> SkillSet:
    """Read the skills in some folders. If two have the same name, the one in the earlier folder is used."""
    folders: dict[str, Path] = {}
    for base in bases:
        for folder in skills_below(base):
            folders.setdefault(folder.name, folder)
    skills = SkillSet({}, {}, {}, (), ())
    entries: list[SkillEntry] = []
    unpublished: list[Unavailable] = []
    for name, folder in folders.items():
        source = f"skills/{name}/{SKILL}"
        try:
            files = list(files_of(folder))
            resources = _resources(folder, files)
        except RegistrationError as error:
            skills.broken[name] = Unavailable(f"skill {name}", error.message, error.source or source)
            continue
        except OSError as error:
            reason = f"cannot be read: {error.strerror}"
            skills.broken[name] = Unavailable(f"skill {name}", reason, source)
            continue
        skills.resources[name] = resources
        skills.descriptions[name] = resources[0].description
        try:
            entries.append(_entry(folder, files, source))
        except RegistrationError as error:
            unpublished.append(Unavailable(name, error.message, error.source or source))
        except OSError as error:
            unpublished.append(Unavailable(name, f"cannot be read: {error.strerror}", source))
    return replace(skills, entries=tuple(entries), unpublished=tuple(unpublished))


def _skill_line(name: str, description: str) -> str:
    """Return the line about a skill in the description of InvokeSkill."""
    shown_text = " ".join(description.split())
    if len(shown_text) > MAX_DESCRIPTION_LENGTH:
        shown_text = f"{shown_text[: MAX_DESCRIPTION_LENGTH - 1].rstrip()}…"
    return f"- {name}: {shown_text}" if shown_text else f"- {name}"


def _entry(folder: Path, files: SkillFiles, source: str) -> SkillEntry:
    """Return the list entry of a skill.

    Raises: RegistrationError if the skill cannot be published; OSError.
    """
    if len(files) > skill_entries.MAX_FILES:
        message = f"it has more than {skill_entries.MAX_FILES} files, the limit for clients"
        raise RegistrationError(message, source)
    total_bytes = sum(status.st_size for _, status in files)
    if total_bytes > skill_entries.MAX_BYTES:
        limit = f"the limit of {skill_entries.MAX_BYTES} for clients"
        raise RegistrationError(f"its files have {total_bytes} bytes together, more than {limit}", source)
    try:
        fields = verbatim_fields(files[0][0].read_bytes().decode(), source)
    except UnicodeDecodeError:
        raise RegistrationError("it must be UTF-8 text", source) from None
    if fault := skill_entries.front_matter_fault(folder.name, fields):
        raise RegistrationError(fault, f"{source}:1")
    listed_files = tuple(
        ListedFile(
            uri_of(folder.name, path.relative_to(folder).as_posix()),
            _digest_of(path, status.st_size, status.st_mtime_ns),
            status.st_size,
        )
        for path, status in files
    )
    description: str = fields["description"]
    return SkillEntry(
        uri=listed_files[0].uri,
        name=folder.name,
        description=description,
        frontmatter=fields,
        files=listed_files,
        source=f"{source}:1",
    )


@lru_cache(maxsize=8 * skill_entries.MAX_FILES)
def _digest_of(path: Path, _size: int, _mtime_ns: int) -> str:
    """Return the digest of a file, cached by its size and modification time."""
    return skill_entries.digest_of(path.read_bytes())


def _resources(folder: Path, files: SkillFiles) -> tuple[Resource, ...]:
    root = folder.resolve()
    return tuple(_resource(path, status, folder, root) for path, status in files)


def _resource(path: Path, status: os.stat_result, folder: Path, root: Path) -> Resource:
    """Return one file of a skill as a resource."""
    location = path.relative_to(folder).as_posix()
    source = f"skills/{folder.name}/{location}"
    has_readable_header = location == SKILL and status.st_size <= SKILL_BYTES
    header = _header_fields(path, source) if has_readable_header else {}
    mime_type = mime_type_of(path)
    stamp = f"{path} {status.st_size} {status.st_mtime_ns}"
    return Resource(
        uri=uri_of(folder.name, location),
        name=folder.name if location == SKILL else f"{folder.name}/{location}",
        reader=_reader(path, root, mime_type),
        title=header.get("title", ""),
        description=header.get("description", ""),
        mime_type=mime_type,
        size=status.st_size,
        source=source,
        fingerprint=digest(stamp.encode()),
    )


def _reader(path: Path, root: Path, mime_type: str) -> Reader:
    """Return a function that reads a file, unless it leads out of `root`."""

    def read_content() -> str | bytes:
        if not path.resolve().is_relative_to(root):
            raise PermissionError(f"{path.name} leaves the folder of its skill")
        return _lossless_content(path.read_bytes(), mime_type)

    async def read(_uri: str, _variables: dict[str, str], _context: Context) -> str | bytes:
        return await asyncio.to_thread(read_content)

    return read


def _lossless_content(data: bytes, mime_type: str) -> str | bytes:
    """Return a file as text if encoding the text restores the same bytes, else as bytes.

    Clients check a digest of the bytes.
    """
    if TEXT_TYPES.fullmatch(mime_type) is None or b"\0" in data:
        return data
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _header_fields(path: Path, location: str) -> dict[str, str]:
    """Return title and description of a skill.

    Raises: RegistrationError for invalid front matter; OSError.
    """
    text = path.read_text("utf-8", errors="replace").removeprefix(BYTE_ORDER_MARK)
    fields = read_document(text, location).fields
    return {key: text_of(fields, key, location) for key in ("title", "description")}
