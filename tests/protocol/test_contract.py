"""Effect of a changed definition on clients that know the old one."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.protocol.catalogue.contract import ContractVerdict, contract_changes


def told(kind: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> list[str]:
    """Messages about one item, with `!` before breaking changes and `~` before wording."""
    sides = [{} if one is None else {(kind, "it"): one} for one in (before, after)]
    marks = {ContractVerdict.BREAKING: "!", ContractVerdict.COMPATIBLE: "", ContractVerdict.WORDING: "~"}
    return [f"{marks[change.verdict]}{change.description}" for change in contract_changes(*sides)]


def arguments(*required: str, **properties: Any) -> dict[str, Any]:
    return {"inputSchema": {"type": "object", "properties": properties, "required": list(required)}}


def result(*required: str, **properties: Any) -> dict[str, Any]:
    return {"inputSchema": {}, "outputSchema": arguments(*required, **properties)["inputSchema"]}


TEXT, NUMBER, INTEGER = {"type": "string"}, {"type": "number"}, {"type": "integer"}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, arguments(), ["is new"]),
        (arguments(), None, ["!was removed"]),
        (arguments(a=TEXT), arguments(a=TEXT), []),
        (arguments(), arguments(a=TEXT), ['"a" is new']),
        (arguments(), arguments("a", a=TEXT), ['!"a" is new and required']),
        (arguments("a", a=TEXT), arguments(), ['!"a" was removed']),
        (arguments(a=TEXT), arguments("a", a=TEXT), ['!"a" is required now']),
        (arguments("a", a=TEXT), arguments(a=TEXT), ['"a" is optional now']),
        (arguments(a=INTEGER), arguments(a=NUMBER), ['"a" is number now']),
        (arguments(a=NUMBER), arguments(a=INTEGER), ['!"a" is integer now']),
        (arguments(a=TEXT), arguments(a=NUMBER), ['!"a" is number now']),
        (arguments(a=TEXT), arguments(a={}), ['"a" is anything now']),
        (arguments(a={"enum": [1, 2]}), arguments(a={"enum": [2, 1]}), []),
        (arguments(a={"enum": [1]}), arguments(a={"enum": [1, 2]}), ['"a" is one of 1 or 2 now']),
        (arguments(a={"enum": [1, 2]}), arguments(a={"enum": [1]}), ['!"a" is one of 1 now']),
        (arguments(a={"maxLength": 3}), arguments(a={"maxLength": 9}), ['"a": maxLength is 9 now']),
        (arguments(a={"minimum": 3}), arguments(a={"minimum": 9}), ['!"a": minimum is 9 now']),
        (arguments(a={"minimum": 3}), arguments(a={}), ['"a": minimum 3 was removed']),
        (arguments(a={}), arguments(a={"pattern": "x"}), ['!"a": pattern is x now']),
        (arguments(a={"anyOf": [TEXT]}), arguments(a={"anyOf": [NUMBER]}), ['!"a": anyOf changed']),
        (arguments(a=TEXT), arguments(a={"anyOf": [TEXT, NUMBER]}), ['"a" may also be number now']),
        (arguments(a={"anyOf": [NUMBER, TEXT]}), arguments(a=TEXT), ['!"a" may no longer be number']),
        (arguments(a={"anyOf": [NUMBER, TEXT]}), arguments(a={"anyOf": [TEXT, NUMBER]}), []),
        (arguments(a={"type": ["string", "null"]}), arguments(a={"anyOf": [TEXT, {"type": "null"}]}), []),
        (
            arguments(a={"anyOf": [TEXT, NUMBER], "default": 1}),
            arguments(a={"anyOf": [TEXT, NUMBER, INTEGER], "default": 2}),
            ['"a" may also be integer now', '"a" is 2 by default now'],
        ),
        (
            result(a=TEXT),
            result(a={"anyOf": [TEXT, NUMBER]}),
            ['!"a" of the result may also be number now'],
        ),
        (result(a={"anyOf": [TEXT, NUMBER]}), result(a=TEXT), ['"a" of the result may no longer be number']),
        (
            arguments(a={"type": "string", "maxLength": 5}),
            arguments(a={"anyOf": [{"type": "string", "maxLength": 3}, NUMBER]}),
            ['!"a": anyOf changed', '"a" is anything now', '"a": maxLength 5 was removed'],
        ),
        (arguments(a={"default": 1}), arguments(a={"default": 2}), ['"a" is 2 by default now']),
        (arguments(a={"default": 1}), arguments(a={}), ['"a" has no default now']),
        (arguments(a=TEXT), arguments(a=TEXT | {"title": "A"}), ['~"a" has a different description']),
        (arguments(a={"items": TEXT}), arguments(a={"items": NUMBER}), ['!"a[]" is number now']),
        (arguments(a={"properties": {}}), arguments(a={"properties": {"b": {}}}), ['"a.b" is new']),
        (
            {"inputSchema": {}},
            {"inputSchema": {"additionalProperties": False}},
            ["!the arguments: no other members now"],
        ),
        (result(a=TEXT), result("a", a=TEXT), ['"a" of the result is required now']),
        (result("a", a=TEXT), result(a=TEXT), ['!"a" of the result is optional now']),
        (result(a=INTEGER), result(a=NUMBER), ['!"a" of the result is number now']),
        (result(), result("a", a=TEXT), ['"a" of the result is new and required']),
        (result(a=TEXT), result(), ['!"a" of the result was removed']),
        (result(), {}, ["!its result no longer has a schema"]),
        ({"description": "a"}, {"description": "b"}, ["~the description changed"]),
        ({"title": "a"}, {}, ["~the title changed"]),
        ({}, {"annotations": {"readOnlyHint": True}}, ["readOnlyHint is true now"]),
        (
            {"annotations": {"title": "A", "openWorldHint": True}},
            {"annotations": {"title": "B"}},
            ["openWorldHint was removed", '~title is "B" now'],
        ),
        ({}, {"execution": {"taskSupport": "required"}}, ["!a call must be a task now"]),
    ],
)
def test_what_breaks_clients_of_a_tool_is_told_apart(
    before: dict[str, Any] | None, after: dict[str, Any] | None, expected: list[str]
) -> None:
    assert told("tool", before, after) == expected


def test_what_breaks_comes_first() -> None:
    assert told("tool", arguments(a=TEXT), arguments("c", b=TEXT, c=TEXT)) == [
        '!"a" was removed',
        '!"c" is new and required',
        '"b" is new',
    ]


def test_prompts_and_resources_have_contracts_too() -> None:
    before = {"arguments": [{"name": "a"}]}
    assert told("prompt", before, {"arguments": [{"name": "a", "required": True}]}) == [
        '!"a" is required now'
    ]
    assert told("resource", {"mimeType": "text/plain"}, {"mimeType": "text/html"}) == [
        "!its media type is text/html now, was text/plain"
    ]
    assert told("resource", {"mimeType": "text/plain"}, {}) == [
        "!its media type is missing now, was text/plain"
    ]


def test_references_are_followed_once() -> None:
    def tree(leaf: str) -> dict[str, Any]:
        inner = {"$ref": "#/$defs/tree"}
        node = {"properties": {"left": inner, "right": inner, "leaf": {"type": leaf}}}
        return {"inputSchema": {"$defs": {"tree": node}, "properties": {"top": inner}}}

    assert told("tool", tree("string"), tree("number")) == ['!"top.leaf" is number now']
