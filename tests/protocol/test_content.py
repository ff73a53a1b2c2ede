"""Content blocks are distinguished from data by their members."""

from __future__ import annotations

import base64

import pytest

from mcpdesk.protocol import content
from tests.support.official_schema import problems


def test_bytes_become_base64() -> None:
    block = content.image(b"\x89PNG", annotations={"priority": 1})
    assert base64.b64decode(block["data"]) == b"\x89PNG"
    assert (block["type"], block["mimeType"], block["annotations"]) == ("image", "image/png", {"priority": 1})
    assert content.audio(b"x")["type"] == "audio"


def test_resources_carry_text_or_a_blob() -> None:
    assert content.embedded("a:b", "hi", "text/plain")["resource"] == {
        "uri": "a:b",
        "mimeType": "text/plain",
        "text": "hi",
    }
    assert content.contents("a:b", b"hi") == {"uri": "a:b", "blob": "aGk="}


@pytest.mark.parametrize(
    ("value", "is_block"),
    [
        (content.text("x"), True),
        (content.resource_link("a:b", "n"), True),
        (content.embedded("a:b", "x"), True),
        ({"type": "text"}, False),
        ({"type": "text", "text": 5}, False),
        ({"type": "dog", "text": "x"}, False),
        ({"type": ["text"], "text": "x"}, False),
        ("text", False),
        (None, False),
    ],
)
def test_blocks_are_recognised(value: object, is_block: bool) -> None:
    assert content.is_block(value) is is_block


NOTES = {"audience": ["user"], "priority": 0.5, "lastModified": "2026-01-12T15:00:58Z"}


@pytest.mark.parametrize(
    "block",
    [
        content.text("x", annotations=NOTES, _meta={"example.org/a": 1}),
        content.image(b"x", annotations=NOTES),
        content.embedded("a:b", b"x", annotations=NOTES),
        content.embedded("a:b", "x", "text/plain"),
        content.resource_link("a:b", "n", size=3, title="N", icons=[{"src": "data:,"}], mimeType="a/b"),
    ],
)
def test_blocks_of_the_specification_pass(block: content.Block) -> None:
    content.check_block(block)
    assert problems("2025-11-25", "ContentBlock", block) == []


@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        ({"type": "image", "data": b"x", "mimeType": "image/png"}, "data must be a text"),
        ({"type": "audio", "data": "eA==", "mimeType": None}, "mimeType must be a text, not None"),
        ({"type": "resource", "resource": "x"}, "have a uri"),
        ({"type": "resource", "resource": {"uri": "a:b"}}, "a text or a blob"),
        ({"type": "resource", "resource": {"uri": "a:b", "text": 5}}, "text must be a text, not 5"),
        ({"type": "resource", "resource": {"uri": "a:b", "text": "", "_meta": 5}}, "_meta must be an object"),
        (content.resource_link("a:b", "n", size="3"), "size must be a number of bytes, not '3'"),
        (content.resource_link("a:b", "n", icons=[{"src": "i.png"}]), "icons: src"),
        (content.resource_link("a:b", 5), "name must be a text, not 5"),  # type: ignore[arg-type]
        (content.text("x", annotations={"audience": "user"}), "audience must be a list"),
        (content.text("x", annotations=5), "annotations must be an object"),
        (content.text("x", _meta=["a"]), "_meta must be an object"),
    ],
)
def test_what_clients_refuse_of_a_block_is_named(block: content.Block, complaint: str) -> None:
    assert content.is_block(block)
    with pytest.raises(ValueError, match=complaint):
        content.check_block(block)
