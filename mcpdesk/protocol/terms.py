"""What one request is served under, whichever era agreed upon it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from mcpdesk.protocol.revisions import Revision


class Terms(Struct, frozen=True):
    """Revision, capabilities and identity that hold for one stateless request or one session."""

    revision: Revision
    capabilities: dict[str, Any] = field(default_factory=dict)
    client: str = ""
    """Self-reported name and version, for display only: `claude-code 2.1`."""
    log_level: int | None = None
    """Index into `LOG_LEVELS` from which log messages are wanted; None: none are."""
    unknown_level: Any = None
    """What was named instead of a level: refused once the method is known to exist."""


def display_name(implementation: object) -> str:
    """`name version` of a self-reported Implementation, or an empty string."""
    if not isinstance(implementation, dict):
        return ""
    parts = (implementation.get("title") or implementation.get("name"), implementation.get("version"))
    return " ".join([part for part in parts if isinstance(part, str) and part])[:80]
