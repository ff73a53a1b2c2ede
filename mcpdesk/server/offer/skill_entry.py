"""Skills a server publishes: what each is for, and which files belong to it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from mcpdesk.server.offer.registry import Item


class ListedFile(Struct, frozen=True):
    """A file of a skill, as it was when the entry was made."""

    uri: str
    digest: str
    size: int
    """Bytes."""


class SkillEntry(Item, frozen=True):
    """One skill. `uri` is that of its SKILL.md, `frontmatter` that file's, as JSON."""

    uri: str
    name: str
    frontmatter: dict[str, Any]
    files: tuple[ListedFile, ...]
    """All of them, SKILL.md first."""
