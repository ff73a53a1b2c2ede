"""What was noticed about a server folder: how bad it is, where it stands, and what it is."""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import Struct

_PLACED = re.compile(r"([^\s:]+(?::\d+)?): (.+)", re.DOTALL)


class Level(StrEnum):
    """How bad it is."""

    ERROR = "error"
    """Something does not work."""
    WARNING = "warning"
    """It works, but a model or a client is worse off than it could be."""
    NOTE = "note"
    """Nothing is wrong; good to know."""


class Finding(Struct, frozen=True):
    """One thing. `place` is `tools/slow.py:3`, or empty; `subject` is `tool slow`, or empty."""

    level: Level
    message: str
    place: str = ""
    subject: str = ""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.place, self.level, self.subject, self.message) if part)


def from_text(level: Level, text: str) -> Finding:
    """A finding from `place: what it is`."""
    found = _PLACED.fullmatch(text)
    return Finding(level, text) if found is None else Finding(level, found[2], found[1])
