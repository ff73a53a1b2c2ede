"""Putting a freshly read folder in place of what a living server offers, and saying what became of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from msgspec import Struct

from mcpdesk.hosting.access import guarded
from mcpdesk.hosting.found import Item, name_of
from mcpdesk.hosting.loader import Loaded
from mcpdesk.server.registry import Registry, Unavailable
from mcpdesk.server.server import Server
from mcpdesk.server.tool import Tool

T = TypeVar("T", bound=Item)
SHOWN = 3
"""Names in one part of a summary."""


class Changes(Struct, frozen=True):
    """What a reload did to the items, by name; resources by URI."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    """Items whose file or definition became unusable, whether or not an older version serves."""
    repaired: tuple[str, ...] = ()
    """Items whose trouble is over and that are what they were before it."""
    updated: tuple[str, ...] = ()
    """URIs of resources that were there before and whose content may be another now."""

    def __bool__(self) -> bool:
        return any((self.added, self.changed, self.removed, self.broken, self.repaired, self.updated))

    def summary(self) -> str:
        """One line for a notice: `1 changed: user-profile; 1 broken: clock`. Empty when nothing happened."""
        parts = {
            "added": self.added,
            "changed": self.changed,
            "removed": self.removed,
            "broken": self.broken,
            "repaired": self.repaired,
        }
        return "; ".join(f"{len(names)} {verb}: {_listed(names)}" for verb, names in parts.items() if names)


def apply(
    loaded: Loaded,
    server: Server,
    built_in: Iterable[Tool] = (),
    refused: Iterable[Unavailable] = (),
) -> Changes:
    """Serve what was loaded, besides the built-in tools given; `refused` are built-in tools left out.

    Calls under way keep the handlers they started with. A tool of the folder wins over a built-in one.
    """
    manifest = loaded.manifest
    server.version = manifest.version
    server.title = manifest.title
    server.description = manifest.description
    server.instructions = manifest.instructions
    server.website_url = manifest.website_url
    server.icons = manifest.icons
    server.folder = manifest.folder
    server.problems = loaded.problems
    server.create_context = loaded.create_context
    tools, clashes = _with_built_in(loaded.tools, built_in)
    changes = [
        _replace(server.tools, guarded(tools, manifest.auth), [*_of(loaded, "tool"), *refused, *clashes]),
        _replace(server.resources, loaded.resources, _of(loaded, "resource")),
        _replace(server.templates, loaded.templates, _of(loaded, "template")),
        _replace(server.prompts, loaded.prompts, _of(loaded, "prompt")),
    ]
    return Changes(
        added=tuple(name for each in changes for name in each.added),
        changed=tuple(name for each in changes for name in each.changed),
        removed=tuple(name for each in changes for name in each.removed),
        broken=tuple(name for each in changes for name in each.broken),
        repaired=tuple(name for each in changes for name in each.repaired),
        updated=changes[1].changed,
    )


def _replace(registry: Registry[T], items: Iterable[T], refused: Iterable[Unavailable]) -> Changes:
    """Replace one registry's content, quietly when nothing differs."""
    before = {name_of(item): item for item in registry}
    refused_before = set(registry.unavailable)
    registry.replace(items, refused)
    after = {name_of(item): item for item in registry}
    refused_now = set(registry.unavailable)
    trouble = {each.name for each in refused_now}
    news = [name for name, item in after.items() if before.get(name) != item]
    return Changes(
        added=tuple(name for name in news if name not in before),
        changed=tuple(name for name in news if name in before),
        removed=tuple(name for name in before if name not in after and name not in trouble),
        broken=tuple(sorted(each.name for each in refused_now - refused_before if not each.is_fit)),
        repaired=tuple(sorted({each.name for each in refused_before} & (after.keys() - trouble - set(news)))),
    )


def _with_built_in(own: list[Tool], built_in: Iterable[Tool]) -> tuple[list[Tool], list[Unavailable]]:
    by_name = {tool.name: tool for tool in own}
    tools, clashes = list(own), []
    for tool in built_in:
        if tool.name in by_name:
            source = by_name[tool.name].source
            reason = f"the folder's own {tool.name} in {source} serves instead of the built-in one"
            clashes.append(Unavailable(tool.name, reason, "mcp.json"))
        else:
            tools.append(tool)
    return tools, clashes


def _of(loaded: Loaded, kind: str) -> list[Unavailable]:
    return [each for its_kind, each in loaded.unavailable if its_kind == kind]


def _listed(names: tuple[str, ...]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")
