from __future__ import annotations

import pytest

from mcpdesk.link.values import CatalogueItem, ItemKind
from mcpdesk.tui.requests import request_for, schema_of


def item(kind: ItemKind, name: str, **definition: object) -> CatalogueItem:
    return CatalogueItem(kind, name, name, definition=dict(definition))


def test_each_kind_makes_its_request() -> None:
    assert request_for(item(ItemKind.TOOL, "t"), {"a": 1}) == (
        "tools/call",
        {"name": "t", "arguments": {"a": 1}},
    )
    assert request_for(item(ItemKind.PROMPT, "p"), {}) == ("prompts/get", {"name": "p", "arguments": {}})
    assert request_for(item(ItemKind.RESOURCE, "x://y"), {}) == ("resources/read", {"uri": "x://y"})
    assert request_for(item(ItemKind.TEMPLATE, "x://{a}{?b}"), {"a": "1 2", "b": "c"}) == (
        "resources/read",
        {"uri": "x://1%202?b=c"},
    )


def test_templates_need_their_path_variables() -> None:
    schema = schema_of(item(ItemKind.TEMPLATE, "users://{id}/avatar{?size,format}"))
    assert list(schema["properties"]) == ["id", "size", "format"]
    assert schema["required"] == ["id"]


def test_prompt_arguments_become_a_schema() -> None:
    arguments = [{"name": "a", "required": True, "description": "d"}, {"name": "b"}, "rubbish"]
    schema = schema_of(item(ItemKind.PROMPT, "p", arguments=arguments))
    assert schema["required"] == ["a"]
    assert schema["properties"]["a"] == {"type": "string", "title": "", "description": "d"}


def test_a_template_nobody_understands_asks_for_nothing() -> None:
    broken = item(ItemKind.TEMPLATE, "x://{a:3}")
    assert schema_of(broken) == {}
    with pytest.raises(ValueError, match="modifier"):
        request_for(broken, {})


def test_template_variables_have_to_be_an_object() -> None:
    with pytest.raises(ValueError, match="object"):
        request_for(item(ItemKind.TEMPLATE, "x://{a}"), [1])
