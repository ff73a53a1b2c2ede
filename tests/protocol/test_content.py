"""Content blocks are told from data by their members."""

from __future__ import annotations

import base64

import pytest

from mcpdesk.protocol import content


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
