"""One server's registries as a catalogue, made anew only when they changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mcpdesk.link.values import Catalogue, CatalogueItem, ItemKind
from mcpdesk.server.offer.listing import WIRE
from mcpdesk.server.offer.registry import Registry
from mcpdesk.server.offer.server import Server

_LIST_KEY = {
    ItemKind.TOOL: "tools",
    ItemKind.RESOURCE: "resources",
    ItemKind.TEMPLATE: "resourceTemplates",
    ItemKind.PROMPT: "prompts",
}


class Shelf:
    """Catalogues of one server. Safe to use from any thread: registries replace their items as a whole."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._kept: Catalogue | None = None

    @property
    def version(self) -> int:
        """Grows with every change of any registry, and of the policies."""
        home = self._server.home
        rules = 0 if home is None else home.rules
        return rules + sum(registry.version for _, registry in self._registries())

    def catalogue(self) -> Catalogue:
        """The items of every kind, in serving order; the same object until they change."""
        version = self.version
        if self._kept is None or self._kept.version != version:
            items = [item for kind, registry in self._registries() for item in _items(kind, registry)]
            self._kept = Catalogue(self._server.name, version, tuple(map(self._ruled, items)))
        return self._kept

    def _ruled(self, item: CatalogueItem) -> CatalogueItem:
        """A tool with its policy."""
        home = self._server.home
        if home is None or item.kind is not ItemKind.TOOL:
            return item
        ruling = home.approvals.ruling(item.name)
        return replace(item, policy=ruling.policy, policy_origin=ruling.origin) if ruling.origin else item

    def _registries(self) -> tuple[tuple[ItemKind, Registry[Any]], ...]:
        server = self._server
        return (
            (ItemKind.TOOL, server.tools),
            (ItemKind.RESOURCE, server.resources),
            (ItemKind.TEMPLATE, server.templates),
            (ItemKind.PROMPT, server.prompts),
        )


def _items(kind: ItemKind, registry: Registry[Any]) -> Iterator[CatalogueItem]:
    to_wire = WIRE[_LIST_KEY[kind]]
    stale = {each.name: each for each in registry.unavailable if each.serving}
    for item in registry:
        name = registry.key(item)
        problem = stale.get(name)
        yield CatalogueItem(
            kind=kind,
            name=name,
            title=item.title or item.name,
            description=item.description,
            source=item.source,
            problem=problem.reason if problem else "",
            stale=problem is not None,
            changed=name in registry.changed,
            needs_token=kind is ItemKind.TOOL and item.requires_jwt,
            scopes=item.scopes if kind is ItemKind.TOOL else (),
            definition=to_wire(item),
        )
    for each in registry.unavailable:
        if not each.serving:
            yield CatalogueItem(
                kind=kind,
                name=each.name,
                title=each.name,
                source=each.source,
                problem=each.reason,
                is_fit=each.is_fit,
            )
