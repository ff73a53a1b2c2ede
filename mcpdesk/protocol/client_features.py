"""The terms a request is served under, and what they let a server ask its client for.

Source: MCP basic/versioning, basic/patterns/mrtr.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from mcpdesk.protocol.jsonrpc import JSONObject
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


FORM: JSONObject = {"elicitation": {"form": {}}}
URL: JSONObject = {"elicitation": {"url": {}}}
SAMPLING: JSONObject = {"sampling": {}}
SAMPLING_TOOLS: JSONObject = {"sampling": {"tools": {}}}
SAMPLING_CONTEXT: JSONObject = {"sampling": {"context": {}}}
ROOTS: JSONObject = {"roots": {}}
"""The capability each question needs, as `requiredCapabilities` names it."""

TASKS = "io.modelcontextprotocol/tasks"
"""The extension of 2026-07-28."""
ASKABLE = frozenset({"elicitation", "sampling", "roots"})
_MODES = frozenset({"form", "url"})


def can_be_asked(terms: Terms) -> bool:
    """Whether the client declared anything a handler could ask it for."""
    return not ASKABLE.isdisjoint(terms.capabilities)


def declares_tasks(terms: Terms) -> bool:
    """Whether this very request says that its client knows the extension."""
    extensions = terms.capabilities.get("extensions")
    return isinstance(extensions, dict) and isinstance(extensions.get(TASKS), dict)


def declares(terms: Terms, needed: JSONObject) -> bool:
    """Whether the client declared what a question needs, and its revision has it."""
    return all(_declares(terms, name, frozenset(parts)) for name, parts in needed.items())


def _declares(terms: Terms, name: str, parts: frozenset[str]) -> bool:
    declared = terms.capabilities.get(name)
    if not isinstance(declared, dict):
        return False
    has = frozenset(declared)
    if name == "elicitation":
        if not terms.revision.has_elicitation:
            return False
        # Without a mode it is forms, and before there were modes it is whatever else it says.
        has = has & _MODES if terms.revision.has_elicitation_modes else frozenset()
        return parts <= (has or frozenset({"form"}))
    if name == "sampling" and parts and not terms.revision.has_sampling_tools:
        # Contexts could be asked for before there was a capability to declare for them.
        return "tools" not in parts
    return parts <= has
