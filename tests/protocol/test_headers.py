"""Header values that repeat the body: encoding and comparison."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from mcpdesk.errors import RemoteProtocolError
from mcpdesk.protocol.headers import (
    MirroredArgument,
    check_parameters,
    check_routing,
    decode_value,
    encode_value,
    mirrored_arguments,
)
from mcpdesk.protocol.jsonrpc import ErrorCode

V = "2026-07-28"


@pytest.mark.parametrize(
    ("value", "header"),
    [
        ("eu-west", "eu-west"),
        (" x ", "=?base64?IHgg?="),
        ("a\nb", "=?base64?YQpi?="),
        ("日本語", "=?base64?5pel5pys6Kqe?="),
        ("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="),
        ("", ""),
    ],
)
def test_values_are_encoded_as_the_specification_shows(value: str, header: str) -> None:
    assert encode_value(value) == header
    assert decode_value(header) == value


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_every_text_survives_the_trip(value: str) -> None:
    header = encode_value(value)
    assert all(" " <= char <= "~" for char in header)
    assert decode_value(header) == value


@pytest.mark.requirement("5.4")
@pytest.mark.parametrize("header", ["=?base64?####?=", "=?base64?YQ?=", "=?base64?/w==?=", "=?base64?YR==?="])
def test_malformed_sentinels_are_refused(header: str) -> None:
    with pytest.raises(ValueError):
        decode_value(header)


def test_other_spellings_of_the_sentinel_are_literal() -> None:
    assert decode_value("=?BASE64?YQ==?=") == "=?BASE64?YQ==?="
    assert decode_value("=?base64?=") == "=?base64?="


@pytest.mark.requirement("5.2", "5.3")
@pytest.mark.parametrize(
    ("headers", "named"),
    [
        ({}, "MCP-Protocol-Version"),
        ({"mcp-protocol-version": "2025-11-25"}, "MCP-Protocol-Version"),
        ({"mcp-protocol-version": V}, "Mcp-Method"),
        ({"mcp-protocol-version": V, "mcp-method": "TOOLS/CALL"}, "Mcp-Method"),
        ({"mcp-protocol-version": V, "mcp-method": "tools/call"}, "Mcp-Name"),
        ({"mcp-protocol-version": V, "mcp-method": "tools/call", "mcp-name": "other"}, "Mcp-Name"),
        ({"mcp-protocol-version": V, "mcp-method": "tools/call", "mcp-name": "=?base64?#?="}, "Mcp-Name"),
    ],
)
def test_a_header_that_disagrees_is_named(headers: dict[str, str], named: str) -> None:
    with pytest.raises(RemoteProtocolError, match=named) as caught:
        check_routing(headers, V, "tools/call", {"name": "echo"})
    assert caught.value.code == -32020


@pytest.mark.parametrize(
    ("given", "version", "method"),
    [("v", "v" * 10_000, "m"), ("v", "v", "m" * 10_000), ("v" * 10_000, "v", "m")],
)
def test_a_long_value_is_not_repeated(given: str, version: str, method: str) -> None:
    with pytest.raises(RemoteProtocolError, match="but the body has") as caught:
        check_routing({"mcp-protocol-version": given, "mcp-method": "other"}, version, method, {})
    assert len(str(caught.value)) < 300


REGION = {"type": "string", "x-mcp-header": "Region"}


def of(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


def test_annotated_properties_are_found_at_any_depth_of_properties() -> None:
    schema = of({"region": REGION, "deep": of({"id": {"type": "integer", "x-mcp-header": "Method"}})})
    assert mirrored_arguments(schema) == (
        MirroredArgument(("region",), "mcp-param-region"),
        MirroredArgument(("deep", "id"), "mcp-param-method"),
    )


def test_names_and_values_that_look_like_annotations_are_none() -> None:
    schema = of({"x-mcp-header": {"type": "string"}, "y": {"default": {"x-mcp-header": 5}}})
    assert mirrored_arguments(schema) == ()


@pytest.mark.parametrize(
    "schema",
    [
        *(
            of({"a": {"type": "string", "x-mcp-header": name}})
            for name in ("", "a b", "a:b", "é", "a\n", 5, None)
        ),
        *(
            of({"a": {"type": kind, "x-mcp-header": "A"}})
            for kind in ("number", "object", "array", "null", ["string", "null"], None)
        ),
        of({"a": REGION, "b": {"type": "string", "x-mcp-header": "rEGION"}}),
        of({}, **{"x-mcp-header": "Root"}),
        of({"a": {"type": "array", "items": REGION}}),
        of({"a": {"type": "array", "prefixItems": [REGION]}}),
        of({}, additionalProperties=REGION),
        of({}, anyOf=[of({"a": REGION})]),
        of({"a": {"oneOf": [REGION]}}),
        of({}, **{"not": of({"a": REGION})}),
        of({}, **{"if": of({"a": REGION})}),
        of({"a": {"$ref": "#/$defs/r"}}, **{"$defs": {"r": REGION}}),
        of({}, patternProperties={"^a": REGION}),
        of({}, dependentSchemas={"a": of({"b": REGION})}),
    ],
)
def test_annotations_that_break_a_rule_are_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="x-mcp-header"):
        mirrored_arguments(schema)


def agrees(value: Any, *headers: str) -> bool:
    sent = CIMultiDict([("Mcp-Param-A", each) for each in headers] + [("Mcp-Param-Other", "x")])
    try:
        check_parameters(
            [MirroredArgument(("a",), "mcp-param-a")], {} if value is ... else {"a": value}, sent
        )
    except RemoteProtocolError as error:
        assert error.code == ErrorCode.HEADER_MISMATCH
        return False
    return True


@pytest.mark.parametrize(
    ("value", "headers", "verdict"),
    [
        ("eu-west", ["eu-west"], True),
        ("eu-west", ["EU-WEST"], False),
        ("eu-west", [], False),
        ("eu-west", ["eu-west", "eu-west"], False),
        (..., [], True),
        (None, [], True),
        (..., ["eu-west"], False),
        (None, ["null"], False),
        ("", [""], True),
        ("Hello", ["=?base64?SGVsbG8=?="], True),
        ("Hello", ["=?base64?SGVsbG8?="], False),
        ("Hello", ["=?base64?SGVs!!!bG8=?="], False),
        ("Hello", ["SGVsbG8="], False),
        ("SGVsbG8=", ["SGVsbG8="], True),
        ("=?base64?SGVsbG8=", ["=?base64?SGVsbG8="], True),
        ("日本語", ["=?base64?5pel5pys6Kqe?="], True),
        ("日本語", ["日本語"], False),
        ("a\tb", ["a\tb"], True),
        (42, ["42"], True),
        (42, ["42.0"], True),
        (42.0, ["42"], True),
        (-7, ["-7"], True),
        (42, ["43"], False),
        (42, ["forty-two"], False),
        (42, [" 42"], False),
        (2**53, ["9007199254740993"], False),
        (1, ["1e400"], False),
        (0, ["NaN"], False),
        (True, ["true"], True),
        (True, ["1"], False),
        (False, ["False"], False),
        ({"b": 1}, ["x"], False),
    ],
)
def test_header_and_body_have_to_agree(value: Any, headers: list[str], verdict: bool) -> None:
    assert agrees(value, *headers) is verdict


def test_arguments_that_are_no_objects_on_the_way_have_no_value() -> None:
    check_parameters([MirroredArgument(("a", "b"), "mcp-param-b")], {"a": "text"}, {})
