"""A selection shows its part of a registry, follows it, and tells of its own changes alone."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.server.offer.registry import Registry, Selection, Unavailable
from mcpdesk.server.offer.tool import Tool


async def nothing(arguments: dict[str, Any], context: object) -> Any:
    return None


def tool(name: str, description: str = "", is_offered: bool = True) -> Tool:
    return Tool(name, nothing, {"type": "object"}, description, is_offered=is_offered)


@pytest.fixture
def whole() -> Registry[Tool]:
    registry: Registry[Tool] = Registry("tool", lambda item: item.name)
    registry.replace(
        [tool("a"), tool("b"), tool("c", is_offered=False)], [Unavailable("x", "broken", "x.py")]
    )
    return registry


def names(registry: Registry[Tool]) -> list[str]:
    return [each.name for each in registry]


def test_only_named_items_are_served_in_the_order_of_the_whole(whole: Registry[Tool]) -> None:
    part = Selection(whole, ["b", "a", "x", "nothing"])
    assert names(part) == ["a", "b"]
    assert part.get("a") is whole.get("a")
    assert [each.name for each in part.unavailable] == ["x"]
    assert Selection(whole, ["b"]).get("a") is None
    assert Selection(whole, ["b"]).unavailable == ()


def test_change_outside_of_a_selection_is_none_of_its_business(whole: Registry[Tool]) -> None:
    part = Selection(whole, ["b"])
    heard: list[str] = []
    part.subscribe(heard.append)
    before = part.version
    whole.replace([tool("a", "new"), tool("b")])
    assert (heard, part.version) == ([], before)
    whole.replace([tool("a", "new"), tool("b", "new")])
    assert (heard, part.changed) == (["tool"], {"b"})


def test_other_names_count_once_it_follows(whole: Registry[Tool]) -> None:
    part = Selection(whole, ["b"])
    part.names = frozenset({"a"})
    assert names(part) == ["b"]
    assert part.follow()
    assert names(part) == ["a"]
    assert not part.follow()


def test_what_is_offered_through_a_selection_is_offered_by_the_whole(whole: Registry[Tool]) -> None:
    part = Selection(whole, ["c"])
    assert names(part) == []
    part.offer("c")
    assert names(part) == ["c"]
    assert names(whole) == ["a", "b", "c"]
    part.withdraw("c")
    assert names(part) == []
    part.withdraw("a")
    assert names(whole) == ["b"]


def test_selection_cannot_be_filled_by_itself(whole: Registry[Tool]) -> None:
    with pytest.raises(TypeError, match="those of its registry"):
        Selection(whole).replace([tool("z")])
