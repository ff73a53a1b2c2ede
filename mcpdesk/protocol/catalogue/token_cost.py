"""Estimate of the number of tokens that a model needs for a definition or a result."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

import msgspec

CHARACTERS_PER_TOKEN: Final = 3.6
"""Average number of characters of a token. A token is also assumed to have at most four bytes."""
_BASE64_MEMBERS: Final = ("data", "blob")
"""Names of members with the bytes of an image or a file. A model does not read these bytes as text."""
_decode = msgspec.json.Decoder().decode


class Cost(NamedTuple):
    """Size of a text for a model. `tokens` is an estimate."""

    bytes: int
    tokens: int


def cost_of(characters: int, size: int) -> Cost:
    """Return the cost of a text. `size` is its size in bytes."""
    return Cost(size, round(max(characters / CHARACTERS_PER_TOKEN, size / 4)))


def definition_cost(definition: Any) -> Cost:
    """Return the cost of the definition of a tool, resource or prompt as a client receives it."""
    text = json.dumps(definition, ensure_ascii=False, separators=(",", ":"))
    return cost_of(len(text), len(text.encode("utf-8", "replace")))


def result_tokens(content: bytes) -> int:
    """Return the tokens of a tool result's encoded `content`. Images and files are not counted."""
    base64_chars = _base64_characters(_decode(content)) if has_base64(content) else 0
    if content.isascii():
        return round((len(content) - base64_chars) / CHARACTERS_PER_TOKEN)
    return cost_of(len(content.decode("utf-8", "replace")) - base64_chars, len(content) - base64_chars).tokens


def has_base64(content: bytes) -> bool:
    """Return True if an encoded result may contain images or files."""
    return b'"data"' in content or b'"blob"' in content


def _base64_characters(content: Any) -> int:
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    resources = [block["resource"] for block in blocks if isinstance(block.get("resource"), dict)]
    texts = (block.get(name) for block in (*blocks, *resources) for name in _BASE64_MEMBERS)
    return sum(len(text) for text in texts if isinstance(text, str))
