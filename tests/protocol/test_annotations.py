"""Annotations clients will take."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from mcpdesk.protocol.catalogue.annotations import (
    check_annotations,
    check_hints,
    check_icons,
    check_meta_keys,
)
from tests.support.official_schema import knows, problems


def test_what_the_specification_has_passes_and_so_does_what_it_does_not_know() -> None:
    check_hints({"readOnlyHint": True, "openWorldHint": False, "title": "Look", "custom": 1})
    check_hints({})
    check_annotations({"audience": ["user", "assistant"], "priority": 0.5, "custom": None})
    check_annotations({"priority": 1, "lastModified": "2026-01-12T15:00:58Z"})
    check_annotations({"lastModified": datetime(2026, 1, 12, tzinfo=UTC)})


@pytest.mark.parametrize(
    ("hints", "complaint"),
    [
        ({"readOnlyHint": "yes"}, "readOnlyHint must be true or false, not 'yes'"),
        ({"destructiveHint": None}, "destructiveHint must be true or false, not None"),
        ({"title": 5}, "title must be a text, not 5"),
    ],
)
def test_hints_that_clients_refuse_are_named(hints: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        check_hints(hints)
    if knows("2025-11-25", "ToolAnnotations"):
        assert problems("2025-11-25", "ToolAnnotations", hints)


@pytest.mark.parametrize(
    ("annotations", "complaint"),
    [
        ({"audience": "user"}, "audience must be a list of user and assistant, not 'user'"),
        ({"audience": ["everybody"]}, "audience must be a list"),
        ({"audience": [["user"]]}, "audience must be a list"),
        ({"priority": 5}, "priority must be a number from 0 to 1, not 5"),
        ({"priority": "high"}, "priority must be a number"),
        ({"priority": True}, "priority must be a number"),
        ({"priority": float("nan")}, "priority must be a number"),
        ({"lastModified": 2026}, "lastModified must be a date and time, not 2026"),
    ],
)
def test_annotations_that_clients_refuse_are_named(annotations: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        check_annotations(annotations)


@pytest.mark.parametrize("odd", [5, ["user"], "user", None])
def test_annotations_are_an_object(odd: Any) -> None:
    with pytest.raises(ValueError, match="annotations must be an object"):
        check_annotations(odd)


def test_pictures_of_the_web_and_inline_pass() -> None:
    check_icons(
        [{"src": "https://example.org/i.png", "theme": "dark"}, {"src": "data:image/png;base64,AA=="}]
    )


@pytest.mark.requirement("6.15")
@pytest.mark.parametrize(
    ("icon", "complaint"),
    [
        ({"src": "javascript:alert(1)"}, "javascript"),
        ({"src": "file:///etc/passwd"}, "file:"),
        ({"src": "icons/i.png"}, r"icons/i\.png"),
        ({}, "None"),
        ({"src": "https://a.b/c", "mimeType": 5}, "mimeType must be a text, not '5'"),
        ({"src": "https://a.b/c", "sizes": "48x48"}, "sizes must be a list .* not '48x48'"),
        ({"src": "https://a.b/c", "sizes": [48]}, "sizes must be a list"),
        ({"src": "https://a.b/c", "theme": "pink"}, "light or dark, not 'pink'"),
    ],
)
def test_what_clients_refuse_is_named(icon: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        check_icons([icon])


NAMES = ["colour", "a", "9", "a.b-c_d", "example.org/colour", "com.example.mcp/", "ui", "x-y.z1/n", "mcp/x"]


def test_ordinary_names_pass() -> None:
    check_meta_keys(NAMES)


@pytest.mark.parametrize(
    "name", ["", "-a", "a-", "a b", "a/b/c", "/a", "1a/b", "a..b/c", "a-/b", "grün", "a\n", ".a", "a."]
)
def test_malformed_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a valid name"):
        check_meta_keys([*NAMES, name])


RESERVED = """
    io.modelcontextprotocol/own dev.mcp/x com.mcp.tools/ mcp.dev/x modelcontextprotocol.io/x progressToken
    traceparent
"""


@pytest.mark.parametrize("name", RESERVED.split())
def test_names_of_the_protocol_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="belongs to the protocol"):
        check_meta_keys([name])
