"""Replicas that offer different versions of a server are told apart, once a difference has lasted."""

from __future__ import annotations

from mcpdesk.features.replicas.desk.combined_views import (
    MIN_DIFFERING_COMPARISONS,
    Offer,
    OfferComparison,
    difference,
)
from mcpdesk.link.values import Catalogue, CatalogueItem, ItemKind


def offer(version: str, *names: str) -> Offer:
    items = tuple(CatalogueItem(ItemKind.TOOL, name, name) for name in names)
    return Offer(version, Catalogue("hello", 1, items), "")


OLD, NEW = offer("1", "greet"), offer("2", "greet", "wave")


def test_replicas_with_the_same_offer_are_grouped() -> None:
    assert difference({"a": OLD, "b": offer("1", "greet")}) == ""
    assert difference({"a": OLD, "b": NEW, "c": OLD}) == (
        f"not the same on every replica · a, c: version 1, 1 item ({OLD.digest})"
        f" · b: version 2, 2 items ({NEW.digest})"
    )


def test_a_difference_is_told_once_when_it_has_lasted_and_when_it_is_over() -> None:
    told: list[str] = []
    comparison = OfferComparison(lambda text, *_: told.append(text))
    for _ in range(MIN_DIFFERING_COMPARISONS - 1):
        comparison.compare({"hello": {"a": OLD, "b": NEW}})
    assert told == [] and comparison.problem("hello") == ""
    for _ in range(2):
        comparison.compare({"hello": {"a": OLD, "b": NEW}})
    assert (
        told
        == [f"hello is {difference({'a': OLD, 'b': NEW})}"]
        == [f"hello is {comparison.problem('hello')}"]
    )
    comparison.compare({"hello": {"a": NEW, "b": NEW}})
    assert told[1:] == ["hello is the same on every replica again"] and comparison.problem("hello") == ""
