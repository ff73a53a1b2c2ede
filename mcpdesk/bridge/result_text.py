"""Readable text of a result, for a model or a person."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

NO_OUTPUT = "(no output)"
Reader = Literal["assistant", "user"]


def format_result(result: Any) -> str:
    """Return the text of a result of any shape. The text is never empty.

    The text of a tool's result is its text content. Images and similar blocks are described by type and size.
    A result without content is represented by its structured content. The text of an error starts with
    `Error: `. Contents of a resource, messages of a prompt and lists of content blocks are supported, too.
    Content that is meant only for the user is omitted if there is content for the model.
    """
    text = result_text(result, "assistant")
    is_error = isinstance(result, Mapping) and result.get("isError") is True
    return _as_error(text) if is_error else text or NO_OUTPUT


def result_text(result: Any, reader: Reader = "user") -> str:
    """Return the text of a result, without the prefix `Error: `. It may be empty.

    Content that is meant only for the other reader is omitted, unless no other content exists.
    """
    match result:
        case None:
            return ""
        case str():
            return result
        case Mapping():
            return _result_body_text(result, reader)
        case Sequence():
            return _text_of_blocks(result, reader)
    return value_text(result)


def content_text(block: Any) -> str:
    """Return the text of one content block, or of one item of a resource's contents."""
    match block:
        case str():
            return block
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "resource", "resource": {**contents}}:
            return content_text(contents)
        case {"type": "resource_link", "uri": uri, **rest}:
            return _link_text(str(uri), rest)
        case {"type": str(kind), "data": str(data), **rest}:
            return f"[{kind}, {rest.get('mimeType', 'unknown type')}, {_decoded_size(data)} bytes]"
        case {"type": "tool_use", "name": str(name), **rest}:
            return f"[call of {name} with {value_text(rest.get('input', {}))}]"
        case {"type": "tool_result", "content": content, **_rest}:
            return result_text(content)
        case {"uri": _, "text": str(text)}:
            return text
        case {"uri": uri, **rest}:
            size = f", {_decoded_size(rest['blob'])} bytes" if "blob" in rest else ""
            return f"[resource {uri}, {rest.get('mimeType', 'unknown type')}{size}]"
        case {"role": str(role), "content": content}:
            return f"{role}: {result_text(content) if isinstance(content, list) else content_text(content)}"
    return value_text(block)


def value_text(value: Any) -> str:
    """Return a JSON value in readable form: strings without quotes, other values as JSON."""
    if isinstance(value, str):
        return value
    indent = 2 if isinstance(value, Mapping | list) and len(value) > 1 else None
    return json.dumps(value, indent=indent, ensure_ascii=False, default=str)


def _result_body_text(result: Mapping[str, Any], reader: Reader) -> str:
    """Return the text of a result object: its content, structured content, contents, messages or output."""
    content = result.get("content")
    if isinstance(content, list) and (text := _text_of_blocks(content, reader)):
        return text
    if "structuredContent" in result:
        return _structured_text(result["structuredContent"])
    for key in ("contents", "messages"):
        if isinstance(result.get(key), list):
            return _text_of_blocks(result[key], reader)
    if isinstance(result.get("stdout"), str):
        parts = [str(result[key]).rstrip("\n") for key in ("stdout", "stderr") if result.get(key)]
        return "\n".join(parts)
    rest = {
        key: value
        for key, value in result.items()
        if key not in ("content", "isError", "_meta", "resultType")
    }
    return value_text(rest) if rest else ""


def _structured_text(value: Any) -> str:
    """Return the text of structured content.

    Some servers put a value that is not an object into `{"result": ...}`.
    """
    if isinstance(value, Mapping) and list(value) == ["result"]:
        value = value["result"]
    return value_text(value)


def _text_of_blocks(blocks: Sequence[Any], reader: Reader) -> str:
    blocks_for_reader = [block for block in blocks if _is_meant_for(block, reader)] or list(blocks)
    return "\n".join(text for text in map(content_text, blocks_for_reader) if text)


def _is_meant_for(block: Any, reader: Reader) -> bool:
    annotations = block.get("annotations") if isinstance(block, Mapping) else None
    audience = annotations.get("audience") if isinstance(annotations, Mapping) else None
    return not isinstance(audience, list) or not audience or reader in audience


def _link_text(uri: str, link: Mapping[Any, Any]) -> str:
    name = link.get("title") or link.get("name") or ""
    description = f": {link['description']}" if link.get("description") else ""
    return f"[link {uri}{f' ({name})' if name and name != uri else ''}{description}]"


def _as_error(text: str) -> str:
    if not text:
        return "Error: the tool gave no reason"
    return text if text[:5].lower() == "error" else f"Error: {text}"


def _decoded_size(data: Any) -> int:
    try:
        return len(base64.b64decode(data))
    except (binascii.Error, ValueError, TypeError):
        return 0
