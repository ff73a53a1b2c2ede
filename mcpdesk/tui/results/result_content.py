"""Results of all methods as blocks to draw and as parts to save. This module depends on no widget."""

from __future__ import annotations

import base64
import binascii
import json
import mimetypes
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any
from urllib.parse import unquote, urlsplit

from mcpdesk.byte_size import size_text
from mcpdesk.tui.render.amounts import counted
from mcpdesk.tui.render.json_text import pretty
from mcpdesk.tui.results.records import Records, as_csv, as_table, records_of

MAX_DUMP_BYTES = 4_096
"""Maximum number of bytes of a blob that are shown as hex."""
_SVG_MIME = "image/svg+xml"
_DUMP_BASE64_LENGTH = (MAX_DUMP_BYTES // 3 + 1) * 4
"""Number of base64 characters that contain at least `MAX_DUMP_BYTES` bytes."""
_MARKDOWN_CONSTRUCT = re.compile(
    r"^(#{1,6} |[-*+] |\d+\. |> |```|\|.+\|)|\*\*[^*\n]+\*\*|\[[^\]\n]+\]\([^)\n]+\)", re.MULTILINE
)
_MIN_MARKDOWN_CONSTRUCTS = 2
"""Minimum number of constructs in a text without MIME type that is shown as Markdown."""


class BlockKind(Enum):
    """Kind of a block. It determines how the block is drawn."""

    TEXT = "text"
    MARKDOWN = "Markdown"
    JSON = "JSON"
    IMAGE = "image"
    BYTES = "bytes"
    LINK = "link"
    ROLE = "role"


@dataclass(frozen=True, slots=True)
class Block:
    """Block to draw. `note` is shown above it: description, size, omissions."""

    kind: BlockKind
    text: str = ""
    """Text, Markdown, a hex dump, a role, or the URI of a link."""
    value: Any = None
    """Value of a `JSON` block."""
    note: str = ""
    encoded: str = ""
    """Bytes of an image or a blob as base64."""
    text_to_save: str | None = None
    """Text that is saved in a file, or None if the block is not a text."""
    mime: str = ""
    uri: str = ""
    """URI of a resource."""


def blocks(result: dict[str, Any]) -> list[Block]:
    """Return the blocks of the result of a tool, resource or prompt, in order."""
    return list(_blocks(result))


def _blocks(result: dict[str, Any]) -> Iterator[Block]:
    for block in _dicts(result.get("content")):
        yield content_block(block)
    for contents in _dicts(result.get("contents")):
        yield _resource(contents)
    for message in _dicts(result.get("messages")):
        yield Block(BlockKind.ROLE, str(message.get("role", "")))
        content = message.get("content")
        for block in _dicts(content if isinstance(content, list) else [content]):
            yield content_block(block)


def content_block(block: dict[str, Any]) -> Block:
    """Return a content block as a block to draw. An unknown type is shown as JSON."""
    mime = str(block.get("mimeType", ""))
    match block.get("type"):
        case "text":
            return text_block(str(block.get("text", "")))
        case "image" | "audio":
            return _blob(str(block.get("data", "")), mime or str(block["type"]))
        case "resource_link":
            labels = (block.get("title") or block.get("name"), mime, block.get("description"))
            note = " · ".join(str(part) for part in labels if part)
            return Block(BlockKind.LINK, str(block.get("uri", "")), note=note)
        case "resource":
            resource = block.get("resource")
            return _resource(resource if isinstance(resource, dict) else {})
        case _:
            return Block(BlockKind.JSON, value=block, note=f"{block.get('type', 'unknown')} block")


def text_block(text: str, mime: str = "", note: str = "", uri: str = "") -> Block:
    """Return a text as JSON, Markdown or plain text, by its MIME type or else by its contents."""
    kind, value = BlockKind.TEXT, None
    if mime in ("", "application/json") or mime.endswith("+json"):
        value = _json_value(text)
    if value is not None:
        kind = BlockKind.JSON
    elif mime == "text/markdown" or (not mime and looks_like_markdown(text)):
        kind = BlockKind.MARKDOWN
    return Block(kind, text, value, note, text_to_save=text, mime=mime, uri=uri)


def table_of(structured: Any, content_blocks: Sequence[Block]) -> Records | None:
    """Return the list of objects in a result's structured content or else in its JSON texts.

    Return None if there is no such list, or if there is no structured content and not every block is JSON.
    """
    values = [block.value for block in content_blocks if block.kind is BlockKind.JSON]
    if structured is None and len(values) != len(content_blocks):
        return None
    return records_of(structured, values)


def looks_like_markdown(text: str) -> bool:
    """Return True if a text contains enough Markdown constructs."""
    return len(_MARKDOWN_CONSTRUCT.findall(text[:4096])) >= _MIN_MARKDOWN_CONSTRUCTS


def hex_dump(data: bytes) -> str:
    """Return lines of an offset, sixteen bytes in hex, and the same bytes as characters."""
    lines = []
    for start in range(0, min(len(data), MAX_DUMP_BYTES), 16):
        piece = data[start : start + 16]
        characters = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in piece)
        lines.append(f"{start:06x}  {piece[:8].hex(' '):<23}  {piece[8:].hex(' '):<23}  {characters}")
    return "\n".join(lines)


def plain_text(result: dict[str, Any]) -> str:
    """Return a result as text for the clipboard: its texts, or all of it as JSON if it has no texts."""
    return content_text(result) or pretty(result)


def content_text(result: dict[str, Any]) -> str:
    """Return the texts of a result, joined by newlines."""
    return "\n".join(
        block.text for block in blocks(result) if block.text and block.kind is not BlockKind.ROLE
    )


def _resource(contents: dict[str, Any]) -> Block:
    mime, uri = str(contents.get("mimeType", "")), str(contents.get("uri", ""))
    note = " · ".join(part for part in (uri, mime) if part)
    if "blob" in contents:
        return _blob(str(contents["blob"]), mime, note, uri)
    return text_block(str(contents.get("text", "")), mime, note, uri)


def _blob(text: str, mime: str, note: str = "", uri: str = "") -> Block:
    """Return a blob as a block: an image stays in base64, other bytes are decoded only as far as shown."""
    size = len(text) // 4 * 3 - text[-2:].count("=")
    description = f"{note or mime}, {size_text(size)}"
    if mime.startswith("image/") and mime != _SVG_MIME:
        return Block(BlockKind.IMAGE, note=description, encoded=text, mime=mime, uri=uri)
    try:
        if mime == _SVG_MIME:
            svg_text = base64.b64decode(text, validate=True).decode(errors="replace")
            return text_block(svg_text, mime, description, uri)
        shown_text = text[:_DUMP_BASE64_LENGTH] if len(text) % 4 == 0 else text
        first_bytes = base64.b64decode(shown_text, validate=True)
    except (binascii.Error, ValueError):
        return Block(BlockKind.TEXT, text, note=f"{note or mime}, not valid base64")
    cut_note = f", first {MAX_DUMP_BYTES:,} bytes" if size > MAX_DUMP_BYTES else ""
    return Block(
        BlockKind.BYTES,
        hex_dump(first_bytes),
        note=f"{description}{cut_note}",
        encoded=text,
        mime=mime,
        uri=uri,
    )


def _json_value(text: str) -> Any:
    if text.lstrip()[:1] not in ("{", "[") or not text:
        return None
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return None


def _dicts(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a list. Return an empty list if the value is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9._-]+")
"""Matches characters that are replaced in file names."""
_MAX_NAME_LENGTH = 80
"""Maximum number of characters of a file name without its ending."""


@dataclass(frozen=True, slots=True)
class SavablePart:
    """Part of a result. `name` is a plain file name."""

    name: str
    kind: str
    """MIME type, or a description of the part."""
    data: bytes


def savable_parts(result: dict[str, Any], stem: str) -> list[SavablePart]:
    """Return the parts of a result in order, and then the complete result as JSON.

    `stem` is the file name, without ending, of parts that have no name of their own.
    """
    content_blocks = blocks(result)
    parts = [part for part in (_savable_part(block, stem) for block in content_blocks) if part is not None]
    if (table := table_of(result.get("structuredContent"), content_blocks)) is not None:
        description = f"{counted(len(table.rows), 'row')} as CSV"
        parts.append(
            SavablePart(file_name(stem, ".csv"), description, as_csv(table.rows, table.columns).encode())
        )
    report = _markdown(content_blocks, table, result).encode(errors="replace")
    parts.append(SavablePart(file_name(stem, ".md"), "all of it as Markdown", report))
    parts.append(SavablePart(file_name(stem, ".json"), "whole result", pretty(result).encode()))
    return parts


def _markdown(content_blocks: Sequence[Block], table: Records | None, result: dict[str, Any]) -> str:
    """Return a result as Markdown: texts, JSON in fences, and descriptions of other contents."""
    if table is not None:
        return as_table(table.rows, table.columns)
    parts = [_markdown_part(block) for block in content_blocks]
    return "\n\n".join(parts or [_fenced(pretty(result))]) + "\n"


def _markdown_part(block: Block) -> str:
    match block.kind:
        case BlockKind.JSON:
            return _fenced(pretty(block.value))
        case BlockKind.ROLE:
            return f"## {block.text}"
        case BlockKind.LINK:
            return f"{block.note} <{block.text}>".strip()
        case BlockKind.IMAGE | BlockKind.BYTES:
            return f"({block.note})"
        case _:
            return block.text


def _fenced(text: str) -> str:
    return f"```json\n{text}\n```"


def _savable_part(block: Block, stem: str) -> SavablePart | None:
    """Return a block as a file, or None if it has no contents or is invalid base64."""
    if block.text_to_save is not None:
        data, kind, ending = block.text_to_save.encode(), "text", ".txt"
    elif block.encoded:
        try:
            data, kind, ending = base64.b64decode(block.encoded, validate=True), "bytes", ".bin"
        except (binascii.Error, ValueError):
            return None
    else:
        return None
    uri_name = _last_part(block.uri)
    ending = "" if "." in uri_name else mimetypes.guess_extension(block.mime) or ending
    return SavablePart(file_name(uri_name or stem, ending), block.mime or kind, data)


def file_name(text: str, ending: str = "") -> str:
    """Return a plain file name made from untrusted text: no folders, no leading dot, never empty."""
    name = _UNSAFE_CHARACTERS.sub("-", text).strip("-.")[:_MAX_NAME_LENGTH] or "result"
    return name if not ending or name.endswith(ending) else name + ending


def _last_part(uri: str) -> str:
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    return unquote((parts.path.rstrip("/") or parts.netloc).rpartition("/")[2])
