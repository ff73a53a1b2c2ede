"""Front matter, with the traps of YAML."""

from __future__ import annotations

import pytest

from mcpdesk.errors import RegistrationError
from mcpdesk.hosting.folder.text_items import Document, mapping_of, read_document, text_of


def test_text_without_front_matter_is_all_body() -> None:
    assert read_document("# Title\n---\nx", "a.md") == Document("# Title\n---\nx")
    assert read_document("----\nx\n", "a.md") == Document("----\nx\n")


def test_front_matter_is_split_from_the_body() -> None:
    document = read_document("---\r\ntitle: Q&A *now*\r\n---\r\nbody\n---\nmore\n", "a.md")
    assert document.fields == {"title": "Q&A *now*"}
    assert document.body.splitlines() == ["body", "---", "more"]


def test_empty_front_matter_is_no_mistake() -> None:
    assert read_document("---\n---\nx", "a.md") == Document("x")


@pytest.mark.parametrize(
    ("text", "place", "complaint"),
    [
        ("---\ntitle: x\nbody", "a.md:1", "not closed"),
        ("---\ntitle: x\nbad: [1\n---\n", "a.md:4", "cannot be read"),
        ("---\na: &x 1\nb: *x\n---\n", "a.md:2", "alias"),
        ("---\n- one\n---\n", "a.md:1", "has to be a mapping"),
        ("---\n!!python/object:os.system {}\n---\n", "a.md:2", "cannot be read"),
        ("---\na: " + "x" * 70_000 + "\n---\n", "a.md:1", "longer than"),
    ],
)
def test_unusable_front_matter_is_refused_with_its_line(text: str, place: str, complaint: str) -> None:
    with pytest.raises(RegistrationError, match=complaint) as caught:
        read_document(text, "a.md")
    assert caught.value.source == place


def test_fields_have_to_be_texts_and_mappings() -> None:
    assert text_of({"title": 2026}, "title", "a.md") == "2026"
    assert text_of({}, "title", "a.md") == ""
    assert mapping_of({}, "annotations", "a.md") == {}
    with pytest.raises(RegistrationError, match="quotes"):
        text_of({"title": True}, "title", "a.md")
    with pytest.raises(RegistrationError, match="has to be a mapping"):
        mapping_of({"annotations": []}, "annotations", "a.md")
