"""Registries replace all items at once, and report the changes."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.server.offer.prompts import Prompt
from mcpdesk.server.offer.registry import Registry, Selection, Unavailable
from mcpdesk.server.offer.tool import Tool


async def render(arguments: dict[str, str], context: object) -> str:
    return ""


def make() -> tuple[Registry[Prompt], list[str]]:
    registry: Registry[Prompt] = Registry("prompt", lambda prompt: prompt.name)
    heard: list[str] = []
    registry.subscribe(heard.append)
    return registry, heard


def test_only_real_changes_are_told() -> None:
    registry, heard = make()
    assert registry.replace([Prompt("a", render), Prompt("b", render)])
    assert not registry.replace([Prompt("a", render), Prompt("b", render)])
    assert registry.replace([Prompt("a", render), Prompt("b", render, description="new")])
    assert registry.changed == {"b"}
    assert registry.replace([Prompt("b", render, description="new"), Prompt("a", render)])
    assert heard == ["prompt"] * 3
    assert [prompt.name for prompt in registry] == ["b", "a"]


def test_a_change_of_what_is_left_out_counts_without_being_served() -> None:
    registry, _ = make()
    registry.replace([Prompt("a", render)])
    assert not registry.replace([Prompt("a", render)], [Unavailable("b", "broken", "b.md:1")])
    assert (registry.version, registry.unavailable[0].name) == (2, "b")


def test_two_of_one_name_replace_nothing() -> None:
    registry, _ = make()
    registry.replace([Prompt("a", render)])
    with pytest.raises(ValueError, match="'b'"):
        registry.replace([Prompt("b", render), Prompt("b", render)])
    assert registry.get("a") is not None
    assert len(registry) == 1


def test_what_is_held_back_is_served_from_when_it_is_offered() -> None:
    registry, heard = make()
    registry.replace([Prompt("a", render), Prompt("b", render, is_offered=False)])
    assert [prompt.name for prompt in registry] == ["a"]
    assert registry.get("b") is None
    assert registry.offer("b")
    assert not registry.offer("b")
    assert [prompt.name for prompt in registry] == ["a", "b"]
    assert registry.withdraw("a")
    assert [prompt.name for prompt in registry] == ["b"]
    assert heard == ["prompt"] * 3


def test_a_choice_outlives_a_replacement() -> None:
    registry, _ = make()
    registry.replace([Prompt("a", render), Prompt("b", render, is_offered=False)])
    registry.offer("b")
    registry.withdraw("a")
    registry.replace([Prompt("a", render, title="A"), Prompt("b", render, is_offered=False, title="B")])
    assert [prompt.title for prompt in registry] == ["B"]


def test_nobody_offers_what_is_not_there() -> None:
    registry, _ = make()
    with pytest.raises(LookupError, match="no prompt is called 'b'"):
        registry.offer("b")


def test_a_name_that_is_nearly_right_is_suggested() -> None:
    registry, _ = make()
    registry.replace([Prompt("ret-byte", render), Prompt("ret-bytes", render)])
    assert registry.suggestion("ret_bytes") == "; did you mean ret-bytes?"
    assert registry.suggestion("Ret-Byte") == "; did you mean ret-byte?"
    assert registry.suggestion("retbyte") == "; did you mean ret-byte?"
    assert registry.suggestion("greet") == registry.suggestion("ret_bytes" * 100) == ""


async def nothing(arguments: dict[str, Any], context: object) -> Any:
    return None


def tool(name: str, description: str = "", is_offered: bool = True) -> Tool:
    return Tool(name, nothing, {"type": "object"}, description=description, is_offered=is_offered)


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
    assert (heard, part.changed) == (["tool"], frozenset({"b"}))


def test_other_names_count_once_it_follows(whole: Registry[Tool]) -> None:
    part = Selection(whole, ["b"])
    part.names = frozenset({"a"})
    assert names(part) == ["b"]
    assert part.select_items()
    assert names(part) == ["a"]
    assert not part.select_items()


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
    with pytest.raises(TypeError, match="can only contain tools of its registry"):
        Selection(whole).replace([tool("z")])
