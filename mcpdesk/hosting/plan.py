"""What a core is to do, made from folders and flags before there is one."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct, field

from mcpdesk.settings import Settings


class Plan(Struct, frozen=True):
    """What a core is to host and where it listens."""

    folders: tuple[Path, ...]
    settings: Settings
    origins: dict[str, str] = field(default_factory=dict)
    http: bool = True
    may_move: bool = False
    """Take the next free port when the chosen one is taken."""
    meet: bool = True
    """Listen where `mcpdesk stdio FOLDER` looks for a running core."""
    watch: bool = True
    draws_first: bool = False
    """Listen on HTTP only once the screen says it is drawn, or soon all the same."""
    capture: Path | None = None
    """The capture file; None keeps frames in memory only."""
    mode: str = ""
    """Serve every folder in this mode, and nothing else of it."""
