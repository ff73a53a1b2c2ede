"""Members that a stateless request must have, in the order in which they are checked."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.errors import RemoteProtocolError
from mcpdesk.protocol.revisions import V2026_07_28
from mcpdesk.protocol.stateless import (
    CAPABILITIES_KEY,
    LOG_LEVEL_KEY,
    VERSION_KEY,
    Admission,
    admit,
    is_stateless,
    request_meta,
)

META = request_meta(V2026_07_28, {"name": "cc", "version": "2"})
HEADERS = {"mcp-protocol-version": V2026_07_28.name, "mcp-method": "tools/list"}


def code_of(meta: Any, headers: dict[str, str] | None = None) -> int:
    with pytest.raises(RemoteProtocolError) as caught:
        admit("tools/list", {"_meta": meta}, headers)
    return caught.value.code


def test_metadata_becomes_terms() -> None:
    terms = admit("tools/list", {"_meta": META | {LOG_LEVEL_KEY: "error"}}, HEADERS)
    assert (terms.revision, terms.client, terms.log_level) == (V2026_07_28, "cc 2", 4)


@pytest.mark.requirement("2.6")
def test_a_missing_client_name_is_fine() -> None:
    assert admit("x", {"_meta": {VERSION_KEY: V2026_07_28.name, CAPABILITIES_KEY: {}}}, None).client == ""


@pytest.mark.requirement("2.6")
@pytest.mark.parametrize(
    "meta",
    [None, [], {}, {VERSION_KEY: V2026_07_28.name}, META | {VERSION_KEY: 1}, META | {CAPABILITIES_KEY: []}],
)
def test_missing_metadata_is_invalid_params(meta: Any) -> None:
    assert code_of(meta) == -32602


def test_a_mismatch_is_said_before_an_unserved_version() -> None:
    odd = META | {VERSION_KEY: "2099-01-01"}
    assert code_of(odd, HEADERS) == -32020
    assert code_of(odd, HEADERS | {"mcp-protocol-version": "2099-01-01"}) == -32022
    assert code_of(META | {VERSION_KEY: "2025-11-25"}) == -32022


@pytest.mark.parametrize("level", ["loud", 3, ["debug"], False])
def test_an_unknown_log_level_is_kept_for_when_the_method_is_known(level: Any) -> None:
    terms = admit("tools/list", {"_meta": META | {LOG_LEVEL_KEY: level}}, HEADERS)
    assert (terms.log_level, terms.unknown_level) == (None, level)


def test_kept_terms_still_check_every_header() -> None:
    admission = Admission()
    first = admission.admit("tools/list", {"_meta": META}, HEADERS)
    assert admission.admit("tools/list", {"_meta": dict(META)}, HEADERS) is first
    with pytest.raises(RemoteProtocolError):
        admission.admit("tools/list", {"_meta": META}, HEADERS | {"mcp-method": "tools/call"})
    other = META | {LOG_LEVEL_KEY: "debug"}
    assert admission.admit("tools/list", {"_meta": other}, HEADERS).log_level == 0


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"params": {"_meta": {VERSION_KEY: None}}}, True),
        ({"params": {"_meta": {}}}, False),
        ({"params": {"_meta": 1}}, False),
        ({"params": []}, False),
        ({}, False),
    ],
)
def test_the_era_is_told_by_the_version_key(message: dict[str, Any], expected: bool) -> None:
    assert is_stateless(message) is expected


def test_headers_that_were_right_once_are_compared_again_with_every_other_tool_and_version() -> None:
    admission = Admission()
    meta = request_meta(V2026_07_28, {"name": "c", "version": "1"})
    headers = {"mcp-protocol-version": V2026_07_28.name, "mcp-method": "tools/call", "mcp-name": "one"}

    def admitted(method: str, name: object, meta: dict[str, object] = meta) -> bool:
        try:
            admission.admit(method, {"name": name, "arguments": {}, "_meta": meta}, headers)
        except RemoteProtocolError as error:
            assert error.code == -32020
            return False
        return True

    assert [admitted("tools/call", name) for name in ("one", "one", "two", "one", None)] == [
        True,
        True,
        False,
        True,
        False,
    ]
    assert not admitted("prompts/get", "one")
    assert admitted("tools/call", "one")
    assert not admitted("tools/call", "one", meta | {VERSION_KEY: "2030-01-01"})
    assert admitted("tools/call", "one", meta | {"progressToken": 1})
    assert not admitted("tools/call", "two", meta | {"progressToken": 1})
