"""Registries replace as a whole, and say what changed."""

from __future__ import annotations

import pytest

from mcpdesk.server.offer.prompts import Prompt
from mcpdesk.server.offer.registry import Registry, Unavailable


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
