"""Findings about a server folder, including the errors that loading the folder reports."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from mcpdesk.server.offer.registry import Registry
    from mcpdesk.server.offer.server import Server

_LOCATED_MESSAGE = re.compile(r"([^\s:]+(?::\d+)?): (.+)", re.DOTALL)


class Level(StrEnum):
    """Severity of a finding."""

    ERROR = "error"
    """Something does not work."""
    WARNING = "warning"
    """The server works, but a client or model could use it better."""
    NOTE = "note"
    """Information that requires no change."""


class Finding(Struct, frozen=True):
    """One finding about a server. `location` is a source line such as `tools/slow.py:3`, `subject` an item
    such as `tool slow`.
    """

    level: Level
    message: str
    location: str = ""
    subject: str = ""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.location, self.level, self.subject, self.message) if part)


def from_text(level: Level, text: str) -> Finding:
    """Create a finding from a text of the form `location: message`."""
    match = _LOCATED_MESSAGE.fullmatch(text)
    return Finding(level, text) if match is None else Finding(level, match[2], match[1])


def registries(server: Server) -> tuple[Registry[Any], ...]:
    """Return the registries whose items a folder's files define."""
    return server.tools, server.resources, server.templates, server.prompts


def load_errors(server: Server, warnings: Iterable[str]) -> list[Finding]:
    """Return the errors of a folder that was loaded. `warnings` are those of the host."""
    broken = [
        Finding(Level.ERROR, item.reason, item.source, f"{registry.kind} {item.name}")
        for registry in registries(server)
        for item in registry.unavailable
        if not item.is_fit
    ]
    return [*(from_text(Level.ERROR, text) for text in (*server.problems, *warnings)), *broken]
