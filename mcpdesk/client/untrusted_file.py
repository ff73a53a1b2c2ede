"""Configuration file that a person has not agreed to. The screen shows its content."""

from __future__ import annotations

from msgspec import Struct


class UntrustedFile(Struct, frozen=True):
    """File that needs agreement, with the programs, URLs and variables that it names."""

    path: str
    sha256: str
    lines: tuple[str, ...]
    """Commands, URLs and names of variables. May contain unsafe characters."""
