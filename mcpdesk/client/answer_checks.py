"""Validation of results and questions that a server sends, before they are used."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from mcpdesk.client.transport import excerpt, value_excerpt
from mcpdesk.errors import InvalidAnswer
from mcpdesk.protocol.catalogue.skill_entries import entry_fault
from mcpdesk.protocol.jsonrpc import JSONObject

if TYPE_CHECKING:
    import jsonschema_rs


class ListShape(NamedTuple):
    """A list of objects in a result: its key, the types of the objects' fields, and the required fields."""

    key: str
    fields: Mapping[str, type]
    required: Collection[str] = ()


_NAME_TYPES: dict[str, type] = {"name": str, "uri": str, "uriTemplate": str, "title": str, "description": str}
_TOOL_TYPES = _NAME_TYPES | {"inputSchema": dict, "outputSchema": dict, "annotations": dict}
LIST_SHAPES: dict[str, ListShape] = {
    "tools/list": ListShape("tools", _TOOL_TYPES, ("name", "inputSchema")),
    "tools/call": ListShape("content", {"type": str}, ("type",)),
    "resources/list": ListShape("resources", _NAME_TYPES, ("uri",)),
    "resources/templates/list": ListShape("resourceTemplates", _NAME_TYPES, ("uriTemplate",)),
    "prompts/list": ListShape("prompts", _NAME_TYPES, ("name",)),
    "skills/list": ListShape("skills", {"uri": str, "frontmatter": dict}, ("uri", "frontmatter")),
    "resources/read": ListShape("contents", {"uri": str, "text": str, "blob": str, "mimeType": str}),
    "prompts/get": ListShape("messages", {"role": str, "content": dict}, ("role", "content")),
}
"""List in the result of each method. Results of other methods are not checked."""

_BLOCK_FIELDS: dict[str, tuple[tuple[str, type], ...]] = {
    "text": (("text", str),),
    "image": (("data", str), ("mimeType", str)),
    "audio": (("data", str), ("mimeType", str)),
    "resource": (("resource", dict),),
    "resource_link": (("uri", str),),
}
"""Required fields of a content block, by type.

Unknown types, which later revisions may add, are not checked.
"""

_TEXT = {"type": "string"}
_TEXT_LIST = {"type": "array", "items": _TEXT}
_TITLED_OPTION = {"type": "object", "required": ["const"], "properties": {"const": _TEXT, "title": _TEXT}}
_CHOICES = {
    "enum": _TEXT_LIST,
    "enumNames": _TEXT_LIST,
    "oneOf": {"type": "array", "items": _TITLED_OPTION},
    "anyOf": {"type": "array", "items": _TITLED_OPTION},
}
_NUMERIC_KEYWORDS = (
    *("minLength", "maxLength", "minItems", "maxItems"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
)
_FIELD = {
    "type": "object",
    "required": ["type"],
    "properties": {
        "type": {"enum": ["string", "number", "integer", "boolean", "array"]},
        **dict.fromkeys(("title", "description", "format", "pattern"), _TEXT),
        "multipleOf": {"type": "number", "exclusiveMinimum": 0},
        **{bound: {"type": "number"} for bound in _NUMERIC_KEYWORDS},
        **_CHOICES,
        "items": {"type": "object", "properties": _CHOICES},
    },
    "if": {"properties": {"type": {"const": "array"}}},
    "then": {"required": ["items"]},
}
_FORM = {
    "type": "object",
    "required": ["properties"],
    "properties": {
        "properties": {"type": "object", "additionalProperties": _FIELD},
        "required": _TEXT_LIST,
    },
}
_ELICITATION = {
    "type": "object",
    "required": ["message"],
    "properties": {"message": _TEXT, "mode": {"enum": ["form", "url"]}},
    "if": {"required": ["mode"], "properties": {"mode": {"const": "url"}}},
    "then": {"required": ["url"], "properties": {"url": _TEXT}},
    "else": {"required": ["requestedSchema"], "properties": {"requestedSchema": _FORM}},
}
_MESSAGE = {
    "type": "object",
    "required": ["role", "content"],
    "properties": {
        "role": _TEXT,
        "content": {
            "if": {"type": "array"},
            "then": {"items": {"type": "object"}},
            "else": {"type": "object"},
        },
    },
}
_SAMPLING = {
    "type": "object",
    "required": ["messages", "maxTokens"],
    "properties": {
        "messages": {"type": "array", "items": _MESSAGE},
        "maxTokens": {"type": "number"},
        "modelPreferences": {
            "type": "object",
            "properties": {"hints": {"type": "array", "items": {"type": "object"}}},
        },
        "stopSequences": _TEXT_LIST,
    },
}
_QUESTION_SCHEMAS = {"elicitation/create": _ELICITATION, "sampling/createMessage": _SAMPLING}
"""Schema of the parameters of a question, by method. Source: MCP client/sampling, client/elicitation."""


def without_invalid_items(method: str, result: JSONObject, faults: list[str]) -> JSONObject:
    """Return the result of a list method without its invalid items.

    An invalid cursor is also removed. The reason for each removal is added to `faults`. Raises: InvalidAnswer
    if the result has no list.
    """
    shape = LIST_SHAPES[method]
    cursor = result.get("nextCursor")
    if cursor is not None and not isinstance(cursor, str):
        faults.append(f"nextCursor is {value_excerpt(cursor)}, not a string; the list ends with this page")
        result = {key: value for key, value in result.items() if key != "nextCursor"}
    valid_items: list[Any] = []
    items = result.get(shape.key)
    if items is None and shape.key in result:
        faults.append(f"{shape.key} is null; it was read as an empty list")
        items = []
    if not isinstance(items, list):
        raise _invalid_answer(method, f"the result has no list called {shape.key}", result)
    for index, item in enumerate(items):
        if fault := _item_fault(item, shape) or _method_fault(method, item):
            faults.append(f"{shape.key} {index}{fault}")
        else:
            valid_items.append(item)
    return {**result, shape.key: valid_items}


def checked_result(method: str, result: JSONObject) -> JSONObject:
    """Return the result of a request if its shape is valid for the method. Raises: InvalidAnswer.

    A tool's result may have structured content without `content`, which some servers omit.
    """
    cursor = result.get("nextCursor")
    if cursor is not None and not isinstance(cursor, str):
        raise InvalidAnswer("nextCursor is not a string", excerpt=value_excerpt(cursor))
    if method not in LIST_SHAPES:
        return result
    shape = LIST_SHAPES[method]
    is_optional = method == "tools/call" and "structuredContent" in result and shape.key not in result
    items = [] if is_optional else result.get(shape.key)
    if not isinstance(items, list):
        raise _invalid_answer(method, f"the result has no list called {shape.key}", result)
    for index, item in enumerate(items):
        if reason := _item_fault(item, shape) or _method_fault(method, item):
            raise _invalid_answer(method, f"{shape.key} {index}{reason}", item)
    if method == "tools/call" and not isinstance(result.get("isError", False), bool):
        raise _invalid_answer(method, "isError is neither true nor false", result)
    return result


def question_fault(method: str, params: Any) -> str:
    """Return the error in the parameters of a question, or an empty string."""
    if method not in _QUESTION_SCHEMAS:
        return ""
    failure = next(iter(_question_schema(method).iter_errors(params)), None)
    if failure is None:
        return ""
    return excerpt(f"{'.'.join(map(str, failure.instance_path))} {failure.message}".strip())


@cache
def _question_schema(method: str) -> jsonschema_rs.Validator:
    import jsonschema_rs

    return jsonschema_rs.validator_for(_QUESTION_SCHEMAS[method], offline=True)


def _invalid_answer(method: str, reason: str, value: Any) -> InvalidAnswer:
    return InvalidAnswer(f"{method}: {reason}", excerpt=value_excerpt(value))


def _item_fault(item: Any, shape: ListShape) -> str:
    """Return the fault of an item as the end of a sentence such as `tools 3 has no name`, or ""."""
    if not isinstance(item, dict):
        return " is not an object"
    for field, expected in shape.fields.items():
        value = item.get(field)
        if value is None and field in shape.required:
            return f"{_name_of(item)} has no {field}"
        if value is not None and not isinstance(value, expected):
            return f"{_name_of(item)}: {field} is invalid"
    return ""


def _method_fault(method: str, item: JSONObject) -> str:
    """Return the violation of a rule that only items of this method have, or an empty string."""
    if method == "tools/list":
        if not item["name"]:
            return " has no name"
        if item["inputSchema"].get("type", "object") != "object":
            return f"{_name_of(item)} has no inputSchema of type object"
    if method == "skills/list" and (fault := entry_fault(item)):
        return f"{_name_of(item)}: {fault}"
    if method == "tools/call":
        for field, expected in _BLOCK_FIELDS.get(item["type"], ()):
            if not isinstance(item.get(field), expected):
                return f", {item['type']}, has no {field}"
    return ""


def _name_of(item: JSONObject) -> str:
    name = item.get("name", item.get("uri"))
    return f" ({name[:80]!r})" if isinstance(name, str) and name else ""
