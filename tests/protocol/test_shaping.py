"""Each revision gets only members that it defines."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from mcpdesk.protocol import content, shaping
from mcpdesk.protocol.revisions import (
    REVISIONS,
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
    Revision,
)
from tests.support.official_schema import problems

TOOL: dict[str, Any] = {
    "name": "t",
    "title": "T",
    "description": "d",
    "inputSchema": {"type": "object"},
    "outputSchema": {"type": "array"},
    "annotations": {"readOnlyHint": True},
    "icons": [{"src": "https://example.org/i.png"}],
    "_meta": {"a": 1},
}


@pytest.mark.parametrize(
    ("revision", "fields"),
    [
        (V2024_11_05, {"name", "description", "inputSchema"}),
        (V2025_03_26, {"name", "description", "inputSchema", "annotations"}),
        (V2025_06_18, set(TOOL) - {"icons"}),
        (V2025_11_25, set(TOOL)),
        (V2026_07_28, set(TOOL)),
    ],
)
def test_tools_carry_the_fields_of_the_revision(revision: Revision, fields: set[str]) -> None:
    assert set(shaping.item("tools", TOOL, revision)) == fields


def test_object_output_schemas_reach_the_revisions_that_know_them() -> None:
    tool = TOOL | {"outputSchema": {"type": "object"}}
    carried = [revision for revision in REVISIONS if "outputSchema" in shaping.item("tools", tool, revision)]
    assert carried == [V2025_06_18, V2025_11_25, V2026_07_28]


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_a_property_that_may_be_anything_is_an_object_where_it_has_to_be(revision: Revision) -> None:
    properties = {"any": True, "none": False, "text": {"type": "string", "not": True}}
    schema = {"type": "object", "properties": properties}
    shaped = shaping.item("tools", {"name": "t", "inputSchema": schema, "outputSchema": schema}, revision)
    spelt = properties if revision is V2026_07_28 else properties | {"any": {}, "none": {"not": {}}}
    assert shaped["inputSchema"] == {"type": "object", "properties": spelt}
    assert shaped.get("outputSchema", shaped["inputSchema"]) == shaped["inputSchema"]
    assert problems(revision.name, "Tool", shaped) == []
    assert schema["properties"] is properties and properties["any"] is True


@pytest.mark.parametrize(
    ("revision", "carries"),
    [
        (V2024_11_05, False),
        (V2025_03_26, False),
        (V2025_06_18, True),
        (V2025_11_25, True),
        (V2026_07_28, True),
    ],
)
def test_structured_objects_are_dropped_for_old_peers(revision: Revision, carries: bool) -> None:
    body = {"content": [content.text("{}")], "structuredContent": {}, "isError": False}
    assert ("structuredContent" in shaping.tool_result(body, revision)) is carries


ROWS = {
    "type": "array",
    "items": {"$ref": "#/$defs/Row"},
    "$defs": {"Row": {"type": "object", "properties": {"below": {"$ref": "#"}, "id": {"type": "integer"}}}},
}


@pytest.mark.parametrize("revision", [V2025_06_18, V2025_11_25])
@pytest.mark.parametrize(
    ("schema", "value"),
    [({"type": "integer"}, 5), (ROWS, [{"id": 1, "below": []}]), ({"anyOf": [{"type": "object"}]}, {"a": 1})],
)
def test_output_that_need_not_be_an_object_is_a_member_of_one_before_the_newest(
    revision: Revision, schema: dict[str, Any], value: Any
) -> None:
    listed = shaping.item("tools", TOOL | {"outputSchema": schema}, revision)["outputSchema"]
    body = {"content": [content.text("x")], "structuredContent": value, "isError": False}
    sent = shaping.tool_result(body, revision, schema)["structuredContent"]
    assert (listed["type"], listed["required"], sent) == ("object", ["result"], {"result": value})
    check = Draft202012Validator(listed)
    assert check.is_valid(sent) and not check.is_valid({"result": "text"}) and not check.is_valid(value)
    failed = body | {"isError": True, "structuredContent": {"why": 1}}
    assert shaping.tool_result(failed, revision, schema)["structuredContent"] == {"why": 1}
    assert shaping.tool_result(body, V2026_07_28, schema)["structuredContent"] == value
    assert "structuredContent" not in shaping.tool_result(body, V2025_03_26, schema)


def test_structured_values_other_than_objects_that_nobody_declared_are_for_the_newest_only() -> None:
    body = {"content": [content.text("1")], "structuredContent": 1}
    carried = [each for each in REVISIONS if "structuredContent" in shaping.tool_result(body, each)]
    assert carried == [V2026_07_28]


def test_unknown_content_becomes_text() -> None:
    link = content.resource_link("file:///a", "a")
    sound = content.audio(b"x")
    assert shaping.block(link, V2025_03_26) == {"type": "text", "text": "a: file:///a"}
    assert shaping.block(sound, V2024_11_05)["type"] == "text"
    assert shaping.block(sound, V2025_03_26) is not sound or sound["type"] == "audio"
    assert shaping.block(link, V2025_06_18) == link


@pytest.mark.requirement("2.5", "2.11")
def test_only_the_stateless_era_gets_its_envelope_members() -> None:
    identity = {"name": "s", "version": "1"}
    assert shaping.result("tools/list", {"tools": []}, V2025_11_25, identity) == {"tools": []}
    shaped = shaping.result("tools/list", {"tools": []}, V2026_07_28, identity)
    assert shaped["resultType"] == "complete"
    assert {"ttlMs", "cacheScope"} <= shaped.keys()
    assert shaped["_meta"] == {"io.modelcontextprotocol/serverInfo": identity}
    assert "ttlMs" not in shaping.result("tools/call", {"content": []}, V2026_07_28, identity)


def test_links_and_annotations_inside_content_are_those_of_the_revision() -> None:
    notes = {"priority": 1, "lastModified": "2026-01-12T15:00:58Z"}
    link = {"type": "resource_link", "uri": "note://1", "name": "first", "icons": [{"src": "i"}]}
    assert shaping.block(link, V2025_06_18) == {"type": "resource_link", "uri": "note://1", "name": "first"}
    assert shaping.block(link, V2025_11_25) == link
    dated = {"type": "text", "text": "hi", "annotations": notes}
    assert shaping.block(dated, V2025_03_26) == {"type": "text", "text": "hi", "annotations": {"priority": 1}}
    assert shaping.block(dated, V2025_06_18) == dated and "lastModified" in notes


def test_metadata_inside_embedded_resources_is_for_those_who_know_it() -> None:
    inner = {"uri": "note://1", "text": "t", "_meta": {"example.org/kept": 1}}
    block = {"type": "resource", "resource": inner}
    assert shaping.block(block, V2025_06_18) == block
    assert shaping.block(block, V2024_11_05)["resource"] == {"uri": "note://1", "text": "t"}
