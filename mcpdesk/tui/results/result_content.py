"""Results as blocks to draw and as parts to save, whatever method they came from. Knows no widget."""

from __future__ import annotations

import base64
import binascii
import json
import mimetypes
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any
from urllib.parse import unquote, urlsplit

from mcpdesk.tui.render.amounts import size_text
from mcpdesk.tui.render.json_text import pretty

MAX_TEXT = 64_000
"""Characters of one text that are drawn; the raw message has all of them."""
MAX_DUMP = 4_096
"""Bytes of a blob that are shown as hex."""
_DRAWN_BY_TEXT = "image/svg+xml"
_START = (MAX_DUMP // 3 + 1) * 4
"""Characters of base64 that contain `MAX_DUMP` bytes."""
_MARKDOWN = re.compile(
    r"^(#{1,6} |[-*+] |\d+\. |> |```|\|.+\|)|\*\*[^*\n]+\*\*|\[[^\]\n]+\]\([^)\n]+\)", re.MULTILINE
)
_MARKDOWN_SIGNS = 2
"""Signs of Markdown from which a text counts as Markdown."""


class BlockKind(Enum):
    """How a block is drawn."""

    TEXT = "text"
    MARKDOWN = "Markdown"
    JSON = "JSON"
    IMAGE = "image"
    BYTES = "bytes"
    LINK = "link"
    ROLE = "role"


@dataclass(frozen=True, slots=True)
class Block:
    """One thing to draw. `note` is shown above it: what it is, its size, what was left out."""

    kind: BlockKind
    text: str = ""
    """Text, Markdown, a hex dump, a role, or the URI of a link."""
    value: Any = None
    """The value of a `JSON` block."""
    encoded: str = ""
    """An image as base64."""
    note: str = ""


def blocks(result: dict[str, Any]) -> list[Block]:
    """The blocks of a tool's, resource's or prompt's result, in order."""
    return list(_blocks(result))


def _blocks(result: dict[str, Any]) -> Iterator[Block]:
    for block in _dicts(result.get("content")):
        yield from content_blocks(block)
    for contents in _dicts(result.get("contents")):
        yield from _resource(contents)
    for message in _dicts(result.get("messages")):
        yield Block(BlockKind.ROLE, str(message.get("role", "")))
        inner = message.get("content")
        for block in _dicts(inner if isinstance(inner, list) else [inner]):
            yield from content_blocks(block)


def content_blocks(block: dict[str, Any]) -> Iterator[Block]:
    """One content block as blocks to draw; unknown types are shown as they are."""
    mime = str(block.get("mimeType", ""))
    match block.get("type"):
        case "text":
            yield text_block(str(block.get("text", "")))
        case "image" | "audio":
            yield _blob(str(block.get("data", "")), mime or str(block["type"]))
        case "resource_link":
            told = (
                str(block.get("title") or block.get("name") or ""),
                mime,
                str(block.get("description", "")),
            )
            yield Block(
                BlockKind.LINK, str(block.get("uri", "")), note=" · ".join(part for part in told if part)
            )
        case "resource":
            inner = block.get("resource")
            yield from _resource(inner if isinstance(inner, dict) else {})
        case _:
            yield Block(BlockKind.JSON, value=block, note=f"{block.get('type', 'unknown')} block")


def text_block(text: str, mime: str = "", note: str = "") -> Block:
    """A text as JSON, Markdown or plain text, by its MIME type or else by its contents."""
    cut = f"first {MAX_TEXT:,} of {len(text):,} characters" if len(text) > MAX_TEXT else ""
    if mime in ("", "application/json") or mime.endswith("+json"):
        value = _parsed(text)
        if value is not None:
            return Block(BlockKind.JSON, text, value, note=note)
    told = ", ".join(part for part in (note, cut) if part)
    is_markdown = mime == "text/markdown" or (not mime and looks_like_markdown(text))
    return Block(BlockKind.MARKDOWN if is_markdown else BlockKind.TEXT, text[:MAX_TEXT], note=told)


def looks_like_markdown(text: str) -> bool:
    """Whether a text shows enough signs of Markdown."""
    return len(_MARKDOWN.findall(text[:4096])) >= _MARKDOWN_SIGNS


def hex_dump(data: bytes) -> str:
    """Lines of an offset, sixteen bytes in hex, and the same bytes as characters."""
    lines = []
    for start in range(0, min(len(data), MAX_DUMP), 16):
        piece = data[start : start + 16]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in piece)
        lines.append(f"{start:06x}  {piece[:8].hex(' '):<23}  {piece[8:].hex(' '):<23}  {shown}")
    return "\n".join(lines)


def plain_text(result: dict[str, Any]) -> str:
    """A result as text for the clipboard: its texts, or the whole as JSON when there are none."""
    texts = [block.text for block in blocks(result) if block.text and block.kind is not BlockKind.ROLE]
    return "\n".join(texts) or pretty(result)


def _resource(contents: dict[str, Any]) -> Iterator[Block]:
    mime, uri = str(contents.get("mimeType", "")), str(contents.get("uri", ""))
    note = " · ".join(part for part in (uri, mime) if part)
    if "blob" in contents:
        yield _blob(str(contents["blob"]), mime, note)
    else:
        yield text_block(str(contents.get("text", "")), mime, note)


def _blob(text: str, mime: str, note: str = "") -> Block:
    """A blob to draw: an image stays in base64, of other bytes only what is shown is decoded."""
    size = len(text) // 4 * 3 - text[-2:].count("=")
    told = f"{note or mime}, {size_text(size)}"
    if mime.startswith("image/") and mime != _DRAWN_BY_TEXT:
        return Block(BlockKind.IMAGE, encoded=text, note=told)
    try:
        if mime == _DRAWN_BY_TEXT:
            return text_block(base64.b64decode(text, validate=True).decode(errors="replace"), mime, told)
        start = base64.b64decode(text[:_START] if len(text) % 4 == 0 else text, validate=True)
    except (binascii.Error, ValueError):
        return Block(BlockKind.TEXT, text[:MAX_TEXT], note=f"{note or mime}, not valid base64")
    cut = f", first {MAX_DUMP:,} bytes" if size > MAX_DUMP else ""
    return Block(BlockKind.BYTES, hex_dump(start), note=f"{told}{cut}")


def _parsed(text: str) -> Any:
    if text.lstrip()[:1] not in ("{", "[") or not text:
        return None
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return None


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


_ODD = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST = 80
"""Characters of a name."""


@dataclass(frozen=True, slots=True)
class Savable:
    """One part of a result. `name` is a plain file name."""

    name: str
    kind: str
    """MIME type, or what the part is."""
    data: bytes


def savables(result: dict[str, Any], stem: str) -> list[Savable]:
    """The contents in order, then the whole as JSON. `stem` names parts without a name of their own."""
    whole = Savable(file_name(stem, ".json"), "whole result", pretty(result).encode())
    return [*_parts(result, stem), whole]


def file_name(text: str, ending: str = "") -> str:
    """A plain file name made from a stranger's text: no folders, no leading dot, never empty."""
    name = _ODD.sub("-", text).strip("-.")[:_LONGEST] or "result"
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
