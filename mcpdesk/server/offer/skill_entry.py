"""Skills that a server publishes, with their files."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from mcpdesk.server.offer.registry import Item


class ListedFile(Struct, frozen=True):
    """File of a skill, with its digest and size at the time of listing."""

    uri: str
    digest: str
    size: int
    """Size in bytes."""


class SkillEntry(Item, frozen=True):
    """Skill in the list."""

    uri: str
    """URI of the skill's SKILL.md."""
    name: str
    frontmatter: dict[str, Any]
    """Front matter of SKILL.md."""
    files: tuple[ListedFile, ...]
    """All files of the skill, SKILL.md first."""
