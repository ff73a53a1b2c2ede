"""Headers are compared with the body of their message; remarks about them repeat no secret."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.protocol.headers import encode_value
from mcpdesk.recorder.masking import MASK
from mcpdesk.recorder.readable_message import CheckedHeader, HeaderVerdict, check_headers
from tests.support.traffic import stateless_headers

BODY = {"method": "tools/call", "params": {"name": "echo", "arguments": {"region": "eu", "pin": "4711"}}}
SCHEMA = {
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "pin": {"type": "string", "x-mcp-header": "Pin"},
        "zone": {"type": "string", "x-mcp-header": "Zone"},
    }
}
LEGACY = (
    ("Host", "localhost:3333"),
    ("Content-Type", "application/json; charset=utf-8"),
    ("Accept", "*/*"),
    ("Mcp-Session-Id", "abc"),
    ("MCP-Protocol-Version", "2025-11-25"),
)


def found(
    headers: Any, name: str, body: Any = BODY, revision: str = "2026-07-28", schema: Any = None
) -> CheckedHeader:
    return next(one for one in check_headers(headers, body, revision, schema) if one.name.lower() == name)


def changed(name: str, value: str | None) -> list[tuple[str, str]]:
    """The headers of a stateless call with one of them changed, or left out."""
    kept = [pair for pair in stateless_headers("tools/call", "echo") if pair[0] != name]
    return kept if value is None else [*kept, (name, value)]


def test_headers_that_say_what_the_body_says_are_good() -> None:
    headers = [
        *stateless_headers("tools/call", "echo"),
        ("Mcp-Param-Region", "eu"),
        ("Mcp-Param-Pin", "4711"),
    ]
    all_of_them = check_headers(headers, BODY, "2026-07-28", SCHEMA)
    assert [one.name for one in all_of_them] == [name for name, _ in headers]
    unread = {one.name for one in all_of_them if one.verdict is not HeaderVerdict.GOOD}
    assert unread == {"Authorization"}


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("Mcp-Method", "tools/list", "the body differs"),
        ("Mcp-Method", None, "missing"),
        ("Mcp-Name", "other", "the body differs"),
        ("Mcp-Name", None, "missing"),
        ("Mcp-Name", "=?base64?!?=", "malformed"),
        ("MCP-Protocol-Version", "2025-11-25", "the body has 2026-07-28"),
        ("MCP-Protocol-Version", None, "missing"),
        ("Accept", "application/json", "lacks text/event-stream"),
        ("Accept", None, "missing"),
        ("Content-Type", "text/plain", "must be application/json"),
        ("Content-Type", None, "missing"),
        ("Host", None, "missing"),
        ("Mcp-Param-Region", None, "missing"),
        ("Mcp-Param-Region", "us", "the body differs"),
        ("Mcp-Param-Zone", "here", "the body differs"),
    ],
)
def test_what_is_wrong_with_a_header_is_said(name: str, value: str | None, words: str) -> None:
    one = found(changed(name, value), name.lower(), schema=SCHEMA)
    assert (one.verdict, one.words, one.value) == (HeaderVerdict.BAD, words, value or "")


@pytest.mark.parametrize(
    ("name", "value", "verdict", "words"),
    [
        ("Host", "example.org", HeaderVerdict.OPEN, "allowed_hosts"),
        ("Origin", "http://127.0.0.1:3333", HeaderVerdict.GOOD, "same as Host"),
        ("Origin", "http://localhost:9", HeaderVerdict.GOOD, "this machine"),
        ("Origin", "https://example.org", HeaderVerdict.OPEN, "allowed_origins"),
        ("Origin", "http://[", HeaderVerdict.OPEN, "allowed_origins"),
        ("Mcp-Session-Id", "x", HeaderVerdict.OPEN, "stateless era"),
        ("Mcp-Param-Other", "x", HeaderVerdict.OPEN, "not an argument of this tool"),
    ],
)
def test_what_only_settings_decide_is_left_open(
    name: str, value: str, verdict: HeaderVerdict, words: str
) -> None:
    one = found(changed(name, value), name.lower(), schema=SCHEMA)
    assert one.verdict is verdict and words in one.words


def test_parameters_of_an_unknown_tool_are_left_open() -> None:
    assert (
        found(changed("Mcp-Param-Region", "eu"), "mcp-param-region").words == "the tool's schema is not known"
    )
    broken = {"properties": {"a": {"type": "array", "x-mcp-header": "A"}}}
    assert (
        found(changed("Mcp-Param-A", "x"), "mcp-param-a", schema=broken).words
        == "not an argument of this tool"
    )


def test_a_name_is_not_needed_where_the_method_names_nothing() -> None:
    body = {"method": "tools/list"}
    assert "Mcp-Name" not in {
        one.name for one in check_headers(stateless_headers("tools/list"), body, "2026-07-28")
    }
    assert found(stateless_headers("tools/list", "x"), "mcp-name", body).verdict is HeaderVerdict.OPEN


def test_the_handshake_era_has_sessions_and_no_copies_of_the_body() -> None:
    headers = (*LEGACY, ("Mcp-Method", "tools/call"), ("Mcp-Param-Region", "eu"))
    verdicts = {one.name: one.verdict for one in check_headers(headers, BODY, "2025-11-25", SCHEMA)}
    assert verdicts.pop("Mcp-Method") is verdicts.pop("Mcp-Param-Region") is HeaderVerdict.OPEN
    assert set(verdicts.values()) == {HeaderVerdict.GOOD}
    assert found(LEGACY, "mcp-protocol-version", revision="2025-06-18").words == "the session uses 2025-06-18"
    assert found(LEGACY, "mcp-protocol-version", revision="2025-03-26").words == "not used in 2025-03-26"
    assert found(LEGACY, "mcp-protocol-version", revision="").verdict is HeaderVerdict.OPEN
    assert found(LEGACY[:4], "mcp-protocol-version", revision="2025-11-25").words == "missing"


def test_a_session_begins_with_initialize() -> None:
    body = {"method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
    assert found(LEGACY, "mcp-session-id", body, "2025-11-25").verdict is HeaderVerdict.BAD
    assert found(LEGACY, "mcp-protocol-version", body, "2025-11-25").verdict is HeaderVerdict.OPEN
    names = {one.name for one in check_headers(LEGACY[:3], body, "2025-11-25")}
    assert names == {"Host", "Content-Type", "Accept"}


def test_secrets_are_masked_and_what_is_encoded_stands_behind() -> None:
    headers = [
        *changed("Mcp-Name", encode_value("écho ")),
        ("Mcp-Param-Token", encode_value("ßecret")),
        ("X-Own", "own-secret"),
    ]
    shown = {one.name: one.value for one in check_headers(headers, BODY, "2026-07-28", None, ["x-own"])}
    assert shown["Mcp-Name"].endswith("(écho )") and shown["Authorization"] == f"Bearer {MASK}"
    assert shown["Mcp-Param-Token"] == shown["X-Own"] == MASK


@pytest.mark.parametrize("body", [None, [], "text", {"method": 5, "params": []}, {"params": {"name": []}}])
def test_any_body_can_be_held_against_headers(body: Any) -> None:
    assert check_headers(stateless_headers("tools/call", "echo"), body, "2026-07-28")
