"""The catalogue as rows: groups, items, reasons. Pure; filtering and folding happen here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from textual.fuzzy import Matcher

from mcpdesk.link.values import CatalogueItem, ItemKind, ModeView, Policy

TITLES = {
    ItemKind.TOOL: "Tools",
    ItemKind.RESOURCE: "Resources",
    ItemKind.TEMPLATE: "Templates",
    ItemKind.PROMPT: "Prompts",
}
_BADGES: tuple[tuple[str, bool, str, str, str], ...] = (
    ("readOnlyHint", True, "read-only", "◇", "lines--muted"),
    ("destructiveHint", True, "destructive", "!", "lines--bad"),
    ("openWorldHint", True, "open world", "↗", "lines--muted"),
    ("idempotentHint", True, "idempotent", "", "lines--muted"),
)

_POLICIES = {
    Policy.ASK: ("?", "lines--warn"),
    Policy.DENY: ("⊘", "lines--bad"),
}
"""Glyph and style of what is out of the ordinary."""


@dataclass(frozen=True, slots=True)
class Badge:
    """An annotation in a word and a glyph; `style` is a component class of lines."""

    word: str
    glyph: str
    style: str


@dataclass(frozen=True, slots=True)
class GroupRow:
    """The heading of a group: how many items it has, and how many of them the filter lets through."""

    kind: ItemKind
    total: int
    shown: int
    is_open: bool


@dataclass(frozen=True, slots=True)
class ItemRow:
    """An item; `hits` are the positions in its label the filter matched."""

    item: CatalogueItem
    hits: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ProblemRow:
    """The problem of the item above it."""

    item: CatalogueItem


CatalogueRow = GroupRow | ItemRow | ProblemRow


def label(item: CatalogueItem) -> str:
    """What an item is called in the catalogue: tools and prompts by name, others by title."""
    return item.name if item.kind in (ItemKind.TOOL, ItemKind.PROMPT) else item.title


def badges(item: CatalogueItem) -> list[Badge]:
    """What a tool's policy and its annotations say about it."""
    said: dict[str, Any] = item.definition.get("annotations") or {}
    policy = _POLICIES.get(item.policy)
    origin = f" ({item.policy_origin})" if item.policy_origin else ""
    ruled = [] if policy is None else [Badge(f"{item.policy}{origin}", *policy)]
    return ruled + [
        Badge(word, glyph, style) for key, value, word, glyph, style in _BADGES if said.get(key) is value
    ]


def is_destructive(item: CatalogueItem) -> bool:
    """Whether the item says of itself that it may destroy something."""
    return (item.definition.get("annotations") or {}).get("destructiveHint") is True


def items_in_mode(mode: ModeView | None, items: Iterable[CatalogueItem]) -> list[CatalogueItem]:
    """The items of a mode: its tools in its order, those that are missing, and all that are no tools."""
    if mode is None:
        return list(items)
    by_name: dict[str, CatalogueItem] = {}
    others = []
    for item in items:
        if item.kind is ItemKind.TOOL:
            by_name[item.name] = item
        else:
            others.append(item)
    offered = [by_name[name] for name in mode.tools if name in by_name]
    missing = [
        by_name.get(name) or CatalogueItem(ItemKind.TOOL, name, name, problem=reason)
        for name, reason in mode.missing
    ]
    return offered + missing + others


def rows(items: Iterable[CatalogueItem], query: str, folded: frozenset[ItemKind]) -> list[CatalogueRow]:
    """Headings and items; while filtering, the best match first, nothing folded and empty groups left out."""
    by_kind: dict[ItemKind, list[CatalogueItem]] = {kind: [] for kind in TITLES}
    for item in items:
        by_kind[item.kind].append(item)
    return [row for kind, group in by_kind.items() for row in _group_rows(kind, group, query.strip(), folded)]


def _group_rows(
    kind: ItemKind, items: list[CatalogueItem], query: str, folded: frozenset[ItemKind]
) -> Iterator[CatalogueRow]:
    entries = _matching(items, query) if query else [ItemRow(item) for item in items]
    if not entries:
        return
    is_open = bool(query) or kind not in folded
    yield GroupRow(kind, len(items), len(entries), is_open)
    for row in entries if is_open else ():
        yield row
        if row.item.problem:
            yield ProblemRow(row.item)


def _matching(items: list[CatalogueItem], query: str) -> list[ItemRow]:
    matcher, needle = Matcher(query), query.casefold()
    found = []
    for item in items:
        score, hits = matcher.fuzzy_search.match(query, label(item))
        if score <= 0:
            score = 0.5 * matcher.match(f"{item.name} {item.title}")
            score = score or (0.1 if needle in item.description.casefold() else 0.0)
            hits = ()
        if score > 0:
            found.append((score, ItemRow(item, tuple(hits))))
    return [row for _, row in sorted(found, key=lambda pair: -pair[0])]
