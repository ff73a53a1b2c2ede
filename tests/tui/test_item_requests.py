from __future__ import annotations

import pytest

from mcpdesk.link.values import CatalogueItem, ItemKind
from mcpdesk.tui.workbench.item_requests import (
    completion_for,
    item_of,
    repeated_request,
    request_for,
    schema_of,
)


def item(kind: ItemKind, name: str, **definition: object) -> CatalogueItem:
    return CatalogueItem(kind, name, name, definition=dict(definition))


def test_each_kind_makes_its_request() -> None:
    assert request_for(item(ItemKind.TOOL, "t"), {"a": 1}) == (
        "tools/call",
        {"name": "t", "arguments": {"a": 1}},
    )
    assert request_for(item(ItemKind.PROMPT, "p"), {}) == ("prompts/get", {"name": "p", "arguments": {}})
    for kind in (ItemKind.RESOURCE, ItemKind.SKILL):
        assert request_for(item(kind, "x://y"), {}) == ("resources/read", {"uri": "x://y"})
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


def test_a_request_is_repeated_without_what_held_for_that_once() -> None:
    once = {"_meta": {}, "inputResponses": {}, "requestState": "s", "task": {}}
    message = {"id": 1, "method": "tools/call", "params": {"name": "a", **once}}
    assert repeated_request(message) == ("tools/call", {"name": "a"})
    assert repeated_request({"id": 1, "method": "ping"}) == ("ping", {})


@pytest.mark.parametrize(
    "message",
    [
        None,
        [],
        {"method": "ping"},
        {"id": 1, "method": 5},
        {"id": 1, "method": "x", "params": []},
        {"id": 1, "method": "subscriptions/listen"},
    ],
)
def test_what_is_no_request_or_opens_something_is_not_repeated(message: object) -> None:
    with pytest.raises(ValueError, match=r".+"):
        repeated_request(message)


def test_a_request_leads_to_the_item_it_is_about() -> None:
    assert item_of("tools/call", {"name": "a", "arguments": {"x": 1}}) == (ItemKind.TOOL, "a", {"x": 1})
    assert item_of("resources/read", {"uri": "file:///a"}) == (ItemKind.RESOURCE, "file:///a", {})
    with pytest.raises(ValueError, match="tools/list has no form"):
        item_of("tools/list", {})
    with pytest.raises(ValueError, match="no form"):
        item_of("prompts/get", {"name": 5})


def test_suggestions_are_asked_for_with_what_is_settled_already() -> None:
    prompt = item(ItemKind.PROMPT, "p")
    assert completion_for(prompt, "a", "x", {"a": "x", "b": "y", "c": "", "d": 1}) == (
        "completion/complete",
        {
            "ref": {"type": "ref/prompt", "name": "p"},
            "argument": {"name": "a", "value": "x"},
            "context": {"arguments": {"b": "y"}},
        },
    )
    template = completion_for(item(ItemKind.TEMPLATE, "x://{a}"), "a", "", {})
    assert template is not None and template[1]["ref"] == {"type": "ref/resource", "uri": "x://{a}"}
    assert "context" not in template[1]
    assert completion_for(item(ItemKind.TOOL, "t"), "a", "", {}) is None
