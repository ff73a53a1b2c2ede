"""The parts of a result that can be saved to files: bytes, and names no stranger chooses freely. Pure."""

from __future__ import annotations

import base64
import binascii
import mimetypes
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from mcpdesk.tui.render.json_text import pretty

_ODD = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST = 80
"""Characters of a name."""


@dataclass(frozen=True, slots=True)
class Savable:
    """One part. `name` is a plain file name."""

    name: str
    kind: str
    """MIME type, or what it is."""
    data: bytes


def savables(result: dict[str, Any], stem: str) -> list[Savable]:
    """The contents in order, then the whole as JSON. `stem` names what has no name of its own."""
    whole = Savable(file_name(stem, ".json"), "whole result", pretty(result).encode())
    return [*_parts(result, stem), whole]


def file_name(said: str, ending: str = "") -> str:
    """A plain name made of what somebody said: no folders, no leading dot, never empty."""
    name = _ODD.sub("-", said).strip("-.")[:_LONGEST] or "result"
    return name if not ending or name.endswith(ending) else name + ending


def _parts(result: dict[str, Any], stem: str) -> Iterator[Savable]:
    messages = [each.get("content") for each in _dicts(result.get("messages"))]
    for block in [*_dicts(result.get("content")), *_dicts(messages)]:
        inner = block.get("resource")
        if block.get("type") == "resource" and isinstance(inner, dict):
            yield from _contents(inner, stem)
        elif "data" in block:
            yield from _bytes(block["data"], stem, str(block.get("mimeType", "")))
        elif isinstance(block.get("text"), str):
            yield Savable(file_name(stem, ".txt"), "text", block["text"].encode())
    for contents in _dicts(result.get("contents")):
        yield from _contents(contents, stem)


def _contents(contents: dict[str, Any], stem: str) -> Iterator[Savable]:
    mime = str(contents.get("mimeType", ""))
    named = _last_part(str(contents.get("uri", ""))) or stem
    if "blob" in contents:
        yield from _bytes(contents["blob"], named, mime)
    elif isinstance(contents.get("text"), str):
        ending = "" if "." in named else mimetypes.guess_extension(mime) or ".txt"
        yield Savable(file_name(named, ending), mime or "text", contents["text"].encode())


def _bytes(encoded: Any, named: str, mime: str) -> Iterator[Savable]:
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError, TypeError):
        return
    ending = "" if "." in named else mimetypes.guess_extension(mime) or ".bin"
    yield Savable(file_name(named, ending), mime or "bytes", data)


def _last_part(uri: str) -> str:
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    return unquote((parts.path.rstrip("/") or parts.netloc).rpartition("/")[2])


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
