"""Front matter, as our own files have it and as it becomes JSON."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.errors import RegistrationError
from mcpdesk.protocol.catalogue.front_matter import read_document, verbatim_fields


def test_front_matter_is_split_from_the_body() -> None:
    document = read_document("---\r\ntitle: Q&A *now*\r\n---\r\nbody\n---\nmore\n", "a.md")
    assert document.fields == {"title": "Q&A *now*"}
    assert document.body.splitlines() == ["body", "---", "more"]


@pytest.mark.parametrize(
    ("text", "place", "complaint"),
    [
        ("---\ntitle: x\nbody", "a.md:1", "not closed"),
        ("---\ntitle: x\nbad: [1\n---\n", "a.md:4", "cannot be read"),
        ("---\na: &x 1\nb: *x\n---\n", "a.md:2", "alias"),
        ("---\n- one\n---\n", "a.md:1", "must be a mapping"),
        ("---\n!!python/object:os.system {}\n---\n", "a.md:2", "cannot be read"),
        ("---\na: " + "x" * 70_000 + "\n---\n", "a.md:1", "65,536 are allowed"),
    ],
)
def test_unusable_front_matter_is_refused_with_its_line(text: str, place: str, complaint: str) -> None:
    with pytest.raises(RegistrationError, match=complaint) as caught:
        read_document(text, "a.md")
    assert caught.value.source == place


@pytest.mark.parametrize(
    ("block", "fields"),
    [
        ("answer: yes\nreally: true", {"answer": "yes", "really": True}),
        ("day: 2026-01-31\nat: 12:30", {"day": "2026-01-31", "at": "12:30"}),
        ("a: 010\nb: -3\nc: 1.5e3\nd: 0x1F", {"a": 10, "b": -3, "c": 1500.0, "d": "0x1F"}),
        ("a: ~\nb:\nc: null", {"a": None, "b": None, "c": None}),
        ("metadata: {1: one, deep: [x, {2: y}]}", {"metadata": {"1": "one", "deep": ["x", {"2": "y"}]}}),
        ("version: '1.0'", {"version": "1.0"}),
    ],
)
def test_verbatim_front_matter_is_what_other_languages_read(block: str, fields: dict[str, Any]) -> None:
    found = verbatim_fields(f"\ufeff---\n{block}\n---\nbody", "SKILL.md")
    assert found == fields
    assert {key: type(value) for key, value in found.items()} == {k: type(v) for k, v in fields.items()}


@pytest.mark.parametrize("text", ["", "# A title", "name: x", " ---\nname: x\n---\n"])
def test_a_text_without_front_matter_has_no_verbatim_fields(text: str) -> None:
    with pytest.raises(RegistrationError, match="does not begin with front matter"):
        verbatim_fields(text, "SKILL.md")
