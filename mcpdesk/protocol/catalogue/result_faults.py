"""Faults of results: content that clients cannot show, and data that violates the output schema.

Source: MCP server/tools, server/resources.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

MAX_FAULTS = 20
"""Maximum number of faults listed per result."""
MAX_CHECKED_LENGTH = 16 << 20
"""Maximum number of characters of base64 data. Longer data is not checked."""
_BINARY_TYPES = ("image", "audio")
_KNOWN_TYPES = ("text", "resource", "resource_link", *_BINARY_TYPES)
_ROLES = ("user", "assistant")
SchemaCheck = Callable[[Any, Any], Iterable[str]]
"""Function that takes a schema and a value, and returns each violation with its position.

It ignores an invalid schema.
"""


def result_faults(result: Mapping[str, Any], definition: Mapping[str, Any], check: SchemaCheck) -> list[str]:
    """Return the faults of a `tools/call` result, each as a sentence.

    `definition` is the definition of the tool, or empty if it is unknown.
    """
    return list(islice(_faults(result, definition, check), MAX_FAULTS))


def _faults(result: Mapping[str, Any], definition: Mapping[str, Any], check: SchemaCheck) -> Iterator[str]:
    content = result.get("content")
    if content is None and "structuredContent" in result:
        yield "the result has no list called content; it must not be omitted beside structuredContent"
    for index, block in enumerate(content if isinstance(content, list) else ()):
        if isinstance(block, Mapping) and (fault := block_fault(block)):
            yield f"content {index}: {fault}"
    schema = definition.get("outputSchema")
    if not isinstance(schema, dict) or result.get("isError") is True:
        return
    if "structuredContent" not in result:
        yield "the tool declares an output schema, but its result has no structuredContent"
        return
    for failure in check(schema, result["structuredContent"]):
        yield f"structuredContent breaks the output schema: {failure}"


def block_fault(block: Mapping[str, Any]) -> str:
    """Return the fault of one content block, or an empty string."""
    kind = block.get("type")
    if kind in _BINARY_TYPES:
        return _data_fault(f"the data of the {kind}", block.get("data"))
    if kind == "resource":
        return contents_fault(block.get("resource"))
    if kind == "text" and not isinstance(block.get("text"), str):
        return "its text is missing or not a string"
    if kind not in _KNOWN_TYPES:
        return f"the protocol has no content of type {str(kind)[:40]!r}"
    return ""


def contents_fault(contents: Any) -> str:
    """Return the fault of a resource's contents, or an empty string."""
    if not isinstance(contents, Mapping):
        return "the resource is not an object"
    text, blob = contents.get("text"), contents.get("blob")
    if text is None and blob is None:
        return "the resource has neither text nor blob"
    if text is not None and blob is not None:
        return "the resource has both text and blob"
    return _data_fault("the blob of the resource", blob) if blob is not None else ""


def read_faults(result: Mapping[str, Any]) -> list[str]:
    """Return the faults of a `resources/read` result, each as a sentence."""
    contents = result.get("contents")
    if not isinstance(contents, list) or not contents:
        return ["the result has no contents"]
    faults = ((index, contents_fault(each)) for index, each in enumerate(contents))
    return [f"contents {index}: {fault}" for index, fault in faults if fault][:MAX_FAULTS]


def prompt_faults(result: Mapping[str, Any]) -> list[str]:
    """Return the faults of the messages in a `prompts/get` result, each as a sentence."""
    return list(islice(_message_faults(result.get("messages")), MAX_FAULTS))


def _message_faults(messages: Any) -> Iterator[str]:
    for index, message in enumerate(messages if isinstance(messages, list) else ()):
        role, content = message.get("role"), message.get("content")
        if role not in _ROLES:
            yield f"message {index}: the protocol has no role {str(role)[:40]!r}"
        if isinstance(content, Mapping) and (fault := block_fault(content)):
            yield f"message {index}: {fault}"


def lenient_base64(data: str) -> bytes | None:
    """Decode base64 as most clients do, or return None if that is impossible.

    Line breaks, missing padding, the alphabet for URLs, and the prefix of a `data:` URL are accepted.
    """
    if data.startswith("data:"):
        data = data.partition(",")[2]
    compact = "".join(data.split()).rstrip("=").translate(_URL_SAFE)
    try:
        return base64.b64decode(compact + "=" * (-len(compact) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


_URL_SAFE = str.maketrans("-_", "+/")


def _data_fault(name: str, data: Any) -> str:
    """Return the fault of base64 data, or an empty string."""
    if not isinstance(data, str):
        return f"{name} is not a text"
    if data.startswith("data:"):
        return f"{name} is a data: URL; base64 alone is allowed"
    if len(data) > MAX_CHECKED_LENGTH:
        return ""
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return f"{name} is not base64"
    return ""
