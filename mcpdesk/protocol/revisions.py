"""The five published revisions and their features, as data.

Source: MCP basic/versioning, schema, server/resources.
"""

from __future__ import annotations

from enum import Enum
from typing import Literal

from msgspec import Struct
from msgspec.structs import force_setattr, replace


class Era(Enum):
    """Era of the protocol, which determines when version and capabilities are agreed."""

    HANDSHAKE = "handshake"
    """Version and capabilities are agreed once, in `initialize`."""
    STATELESS = "stateless"
    """Each request has its version and capabilities, in `params._meta`."""


Structured = Literal["none", "object", "any"]


class Revision(Struct, frozen=True):
    """One published revision. The order of revisions is their position in `REVISIONS`, not their name."""

    name: str
    era: Era
    tool_fields: frozenset[str]
    resource_fields: frozenset[str]
    template_fields: frozenset[str]
    prompt_fields: frozenset[str]
    argument_fields: frozenset[str]
    implementation_fields: frozenset[str]
    content_types: frozenset[str]
    structured: Structured
    resource_not_found: int
    has_batches: bool = False
    has_version_header: bool = False
    has_content_meta: bool = False
    has_last_modified: bool = False
    has_completions: bool = False
    """True if a capability for completions exists. The method exists in all revisions."""
    has_completion_context: bool = False
    has_elicitation: bool = False
    has_elicitation_modes: bool = False
    """True if forms have multiple choice, titles and defaults, and a question may be a link to open."""
    has_sampling_tools: bool = False
    """True if sampling can use tools, and a message can have several blocks."""
    has_boolean_schemas: bool = False
    """True if a property of a tool's schema may be `true` or `false` instead of an object."""
    has_core_tasks: bool = False
    """True if tasks are part of the protocol itself. In later revisions they are an extension."""

    is_stateless: bool = False
    """True if requests have no session.

    Stored as an attribute, because it is read several times per request.
    """

    def __post_init__(self) -> None:
        force_setattr(self, "is_stateless", self.era is Era.STATELESS)

    def __str__(self) -> str:
        return self.name


_TITLED = frozenset({"title", "_meta"})
_ICONS = frozenset({"icons"})

V2024_11_05 = Revision(
    name="2024-11-05",
    era=Era.HANDSHAKE,
    tool_fields=frozenset({"name", "description", "inputSchema"}),
    resource_fields=frozenset({"uri", "name", "description", "mimeType", "annotations", "size"}),
    template_fields=frozenset({"uriTemplate", "name", "description", "mimeType", "annotations"}),
    prompt_fields=frozenset({"name", "description", "arguments"}),
    argument_fields=frozenset({"name", "description", "required"}),
    implementation_fields=frozenset({"name", "version"}),
    content_types=frozenset({"text", "image", "resource"}),
    structured="none",
    resource_not_found=-32002,
)
V2025_03_26 = replace(
    V2024_11_05,
    name="2025-03-26",
    tool_fields=V2024_11_05.tool_fields | {"annotations"},
    content_types=V2024_11_05.content_types | {"audio"},
    has_batches=True,
    has_completions=True,
)
V2025_06_18 = replace(
    V2025_03_26,
    name="2025-06-18",
    tool_fields=V2025_03_26.tool_fields | _TITLED | {"outputSchema"},
    resource_fields=V2025_03_26.resource_fields | _TITLED,
    template_fields=V2025_03_26.template_fields | _TITLED,
    prompt_fields=V2025_03_26.prompt_fields | _TITLED,
    argument_fields=V2025_03_26.argument_fields | {"title"},
    implementation_fields=V2025_03_26.implementation_fields | {"title"},
    content_types=V2025_03_26.content_types | {"resource_link"},
    structured="object",
    has_batches=False,
    has_version_header=True,
    has_content_meta=True,
    has_last_modified=True,
    has_completion_context=True,
    has_elicitation=True,
)
V2025_11_25 = replace(
    V2025_06_18,
    name="2025-11-25",
    tool_fields=V2025_06_18.tool_fields | _ICONS | {"execution"},
    resource_fields=V2025_06_18.resource_fields | _ICONS,
    template_fields=V2025_06_18.template_fields | _ICONS,
    prompt_fields=V2025_06_18.prompt_fields | _ICONS,
    implementation_fields=V2025_06_18.implementation_fields | _ICONS | {"description", "websiteUrl"},
    has_elicitation_modes=True,
    has_sampling_tools=True,
    has_core_tasks=True,
)
V2026_07_28 = replace(
    V2025_11_25,
    name="2026-07-28",
    era=Era.STATELESS,
    tool_fields=V2025_11_25.tool_fields - {"execution"},
    structured="any",
    resource_not_found=-32602,
    has_boolean_schemas=True,
    has_core_tasks=False,
)

REVISIONS: tuple[Revision, ...] = (V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28)
"""Published revisions, oldest first."""
BY_NAME: dict[str, Revision] = {revision.name: revision for revision in REVISIONS}
SERVED_NAMES: tuple[str, ...] = tuple(revision.name for revision in reversed(REVISIONS))
"""Names of the revisions that we serve, newest first, as in `data.supported` and `supportedVersions`."""
LATEST_HANDSHAKE = V2025_11_25
LATEST = V2026_07_28
ERAS = {"handshake": LATEST_HANDSHAKE.name, "stateless": LATEST.name}
"""Name of the newest revision, by era."""
SESSIONLESS_DEFAULT = replace(V2025_03_26, structured="object")
"""Revision for an HTTP peer that names neither a version nor a session (a plain `curl`).

Such a peer also gets structured content, because scripts look for it. The revision allows this, because
results may have additional members.
"""


def negotiate(offered: str) -> Revision:
    """Return the revision for a handshake: the offered revision if we serve it, else `LATEST_HANDSHAKE`.

    Source: spec 2025-11-25, lifecycle.
    """
    revision = BY_NAME.get(offered)
    return revision if revision is not None and not revision.is_stateless else LATEST_HANDSHAKE


def with_era(name: str) -> str:
    """Return the name of a revision for people, with its era if it is a published revision."""
    revision = BY_NAME.get(name)
    return f"{name} {revision.era.value}" if revision else name
