"""Constructors and checks of content blocks. Source: MCP server/resources."""

from __future__ import annotations

import base64
from typing import Any, TypeGuard

Block = dict[str, Any]


def text(value: str, **fields: Any) -> Block:
    """Return a text block. `fields` may add `annotations` and `_meta`."""
    return {"type": "text", "text": value, **fields}


def image(data: bytes, mime_type: str = "image/png", **fields: Any) -> Block:
    """Return an image block from raw bytes."""
    return {"type": "image", "data": _base64(data), "mimeType": mime_type, **fields}


def audio(data: bytes, mime_type: str = "audio/wav", **fields: Any) -> Block:
    """Return an audio block from raw bytes."""
    return {"type": "audio", "data": _base64(data), "mimeType": mime_type, **fields}


def resource_link(uri: str, name: str, **fields: Any) -> Block:
    """Return a link to a resource, which need not be listed. `fields` may be any field of a resource."""
    return {"type": "resource_link", "uri": uri, "name": name, **fields}


def embedded(uri: str, value: str | bytes, mime_type: str = "", **fields: Any) -> Block:
    """Return a block with the contents of a resource."""
    return {"type": "resource", "resource": contents(uri, value, mime_type), **fields}


def contents(uri: str, value: str | bytes, mime_type: str = "") -> Block:
    """Return one entry of a `resources/read` result: text for str, blob for bytes."""
    body: Block = {"uri": uri}
    if mime_type:
        body["mimeType"] = mime_type
    if isinstance(value, str):
        return body | {"text": value}
    return body | {"blob": _base64(value)}


def is_block(value: object) -> TypeGuard[Block]:
    """Return True if a value has the required members of a content block."""
    if not isinstance(value, dict):
        return False
    required = _REQUIRED.get(str(value.get("type")), _NO_KNOWN_TYPE)
    if not required <= value.keys():
        return False
    return value["type"] != "text" or isinstance(value["text"], str)


def check_block(block: Block) -> None:
    """Check that clients accept a block that `is_block` recognizes. Raises: ValueError with the fault."""
    if len(block) == 2 and block["type"] == "text":
        return
    _check_texts(block, ("text", "data", "uri", "name", "mimeType", "title", "description"))
    if block["type"] == "resource":
        check_contents(block["resource"])
    if "annotations" in block:
        from mcpdesk.protocol.catalogue.annotations import check_annotations  # few blocks have any

        check_annotations(block["annotations"])
    if "icons" in block:
        from mcpdesk.protocol.catalogue.annotations import check_icons

        check_icons(block["icons"])
    size = block.get("size", 0)
    if block["type"] == "resource_link" and (not isinstance(size, int) or isinstance(size, bool)):
        raise ValueError(f"size must be a number of bytes, not {size!r:.80}")


def check_contents(entry: Any) -> None:
    """Check that clients accept the contents of a resource. Raises: ValueError with the fault."""
    if not isinstance(entry, dict) or "uri" not in entry or not ("text" in entry or "blob" in entry):
        raise ValueError("the contents of a resource must have a uri, and a text or a blob")
    _check_texts(entry, ("uri", "text", "blob", "mimeType"))


def _check_texts(value: Block, names: tuple[str, ...]) -> None:
    for name in names:
        if name in value and not isinstance(value[name], str):
            raise ValueError(f"{name} must be a text, not {value[name]!r:.80}")
    if not isinstance(value.get("_meta", {}), dict):
        raise ValueError("_meta must be an object")


_REQUIRED: dict[str, frozenset[str]] = {
    "text": frozenset({"text"}),
    "image": frozenset({"data", "mimeType"}),
    "audio": frozenset({"data", "mimeType"}),
    "resource": frozenset({"resource"}),
    "resource_link": frozenset({"uri", "name"}),
}
"""Required members of a block, by type."""
_NO_KNOWN_TYPE = frozenset({"no block has this member"})
"""Required members of a block of an unknown type. No block has them, so such a block is invalid."""


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
