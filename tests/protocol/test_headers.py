"""Header values that repeat the body: encoding and comparison."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpdesk.errors import RemoteProtocolError
from mcpdesk.protocol.headers import check_routing, decode_value, encode_value

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


@pytest.mark.parametrize(("version", "method"), [("v" * 10_000, "m"), ("v", "m" * 10_000)])
def test_a_long_value_is_not_repeated(version: str, method: str) -> None:
    with pytest.raises(RemoteProtocolError, match="the body says") as caught:
        check_routing({"mcp-protocol-version": "v", "mcp-method": "other"}, version, method, {})
    assert len(str(caught.value)) < 300


def test_agreeing_headers_pass() -> None:
    headers = {"mcp-protocol-version": V, "mcp-method": "tools/call", "mcp-name": encode_value("écho")}
    check_routing(headers, V, "tools/call", {"name": "écho"})
