"""What a server sent, checked before anybody relies on it: responses, tools, results of calls, questions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from mcpdesk.errors import InvalidAnswer, RpcError
from mcpdesk.protocol.jsonrpc import Id, is_id

if TYPE_CHECKING:
    import jsonschema_rs

EXCERPT = 300
"""Characters of an answer that an error shows."""
MOST_TOOLS = 10_000

_BLOCKS: dict[str, tuple[tuple[str, type], ...]] = {
    "text": (("text", str),),
    "image": (("data", str), ("mimeType", str)),
    "audio": (("data", str), ("mimeType", str)),
    "resource": (("resource", dict),),
    "resource_link": (("uri", str),),
}
"""Kind of content -> what a block of it has to have. Kinds of later revisions pass unchecked."""

_TEXT = {"type": "string"}
_TEXT_LIST = {"type": "array", "items": _TEXT}
_TITLED = {"type": "object", "required": ["const"], "properties": {"const": _TEXT, "title": _TEXT}}
_CHOICES = {
    "enum": _TEXT_LIST,
    "enumNames": _TEXT_LIST,
    "oneOf": {"type": "array", "items": _TITLED},
    "anyOf": {"type": "array", "items": _TITLED},
}
_NUMBERS = ("minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems")
_FIELD = {
    "type": "object",
    "required": ["type"],
    "properties": {
        "type": {"enum": ["string", "number", "integer", "boolean", "array"]},
        **dict.fromkeys(("title", "description", "format"), _TEXT),
        **{bound: {"type": "number"} for bound in _NUMBERS},
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
_QUESTION = {
    "type": "object",
    "required": ["message"],
    "properties": {"message": _TEXT, "mode": {"enum": ["form", "url"]}},
    "if": {"required": ["mode"], "properties": {"mode": {"const": "url"}}},
    "then": {"required": ["url"], "properties": {"url": _TEXT}},
    "else": {"required": ["requestedSchema"], "properties": {"requestedSchema": _FORM}},
}
"""The parameters of `elicitation/create`. Source: WIRE 6.7."""


def excerpt(data: bytes | str) -> str:
    """The beginning of an answer, fit to be shown: one line, no control characters."""
    text = data[: EXCERPT * 4].decode("utf-8", "replace") if isinstance(data, bytes) else data
    plain = "".join(each if each.isprintable() else " " for each in text)
    words = " ".join(plain.split())
    return words if len(words) <= EXCERPT else words[: EXCERPT - 1] + "…"


def is_response(message: Any) -> bool:
    """Whether a decoded message answers a request, well or badly made."""
    return (
        isinstance(message, dict) and "method" not in message and ("result" in message or "error" in message)
    )


def is_error(message: Any) -> bool:
    """Whether a decoded message is a JSON-RPC error."""
    error = message.get("error") if isinstance(message, dict) else None
    return (
        isinstance(error, dict)
        and isinstance(error.get("code"), int)
        and not isinstance(error["code"], bool)
        and isinstance(error.get("message"), str)
    )


def result_of(
    message: Any, identifier: Id, target: str, kinds: Collection[str] = ("complete",)
) -> dict[str, Any]:
    """The result a response carries.

    Raises: RpcError for an error; InvalidAnswer for what is no response to this request, and for a result
    that is of none of the `kinds` agreed upon.
    """

    def invalid(reason: str) -> InvalidAnswer:
        return InvalidAnswer(reason, target, excerpt(repr(message)))

    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise invalid("the answer is no JSON-RPC message")
    if is_error(message) and message.get("id") is None:
        raise _rpc_error(message["error"], target)  # it could not read our id
    answered = message.get("id")
    if not is_id(answered) or answered != identifier:
        raise invalid(f"the answer is to request {answered!r}, not to {identifier!r}")
    if ("result" in message) == ("error" in message):
        raise invalid("the answer needs either a result or an error")
    if "error" in message:
        if not is_error(message):
            raise invalid("the error of the answer has no code or no message")
        raise _rpc_error(message["error"], target)
    result = message["result"]
    if not isinstance(result, dict):
        raise invalid("the result is no object")
    if result.get("resultType", "complete") not in kinds:
        raise invalid(f"the result is of type {excerpt(str(result['resultType']))!r}, which was not offered")
    return result


def _rpc_error(error: Mapping[str, Any], target: str) -> RpcError:
    return RpcError(error["code"], excerpt(error["message"]), error.get("data"), target)


def checked_tools(result: Mapping[str, Any], target: str) -> list[dict[str, Any]]:
    """The tools of one page. Raises: InvalidAnswer naming the one that is wrong."""
    tools = result.get("tools")
    if not isinstance(tools, list):
        raise InvalidAnswer("tools/list: the result has no list of tools", target, excerpt(repr(result)))
    for index, tool in enumerate(tools):
        if reason := _tool_fault(tool):
            raise InvalidAnswer(f"tools/list: tool {index}: {reason}", target, excerpt(repr(tool)))
    return tools


def checked_cursor(result: Mapping[str, Any], target: str) -> str | None:
    """Where the next page begins; None on the last. Raises: InvalidAnswer for what is no cursor."""
    cursor = result.get("nextCursor")
    if cursor is not None and not isinstance(cursor, str):
        raise InvalidAnswer("nextCursor is no text", target, excerpt(repr(cursor)))
    return cursor


def checked_call(result: dict[str, Any], target: str) -> dict[str, Any]:
    """A tool's result. Raises: InvalidAnswer saying what is wrong with it."""
    if reason := _call_fault(result):
        raise InvalidAnswer(f"tools/call: {reason}", target, excerpt(repr(result)))
    return result


class Items(NamedTuple):
    """A list of objects in a result: its key, the types of their fields, and which must be there."""

    key: str
    fields: Mapping[str, type]
    required: Collection[str] = ()


def checked_items(result: Mapping[str, Any], shape: Items, target: str) -> Mapping[str, Any]:
    """A result that has such a list. Raises: InvalidAnswer for anything else."""
    key, fields, required = shape
    items = result.get(key)
    if not isinstance(items, list):
        raise InvalidAnswer(f"the result has no list called {key}", target, excerpt(repr(result)))
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise InvalidAnswer(f"{key} {index} is no object", target, excerpt(repr(item)))
        for field, kind in fields.items():
            if field in item and not isinstance(item[field], kind):
                raise InvalidAnswer(f"{key} {index}: {field} is wrong", target, excerpt(repr(item)))
            if field in required and field not in item:
                raise InvalidAnswer(f"{key} {index} has no {field}", target, excerpt(repr(item)))
    return result


def question_fault(params: Any) -> str:
    """What is wrong with the parameters of `elicitation/create`; empty when nothing is."""
    failure = next(iter(_question_schema().iter_errors(params)), None)
    if failure is None:
        return ""
    return excerpt(f"{'.'.join(map(str, failure.instance_path))} {failure.message}".strip())


@cache
def _question_schema() -> jsonschema_rs.Validator:
    import jsonschema_rs

    return jsonschema_rs.validator_for(_QUESTION, offline=True)


def _tool_fault(tool: Any) -> str:
    if not isinstance(tool, dict):
        return "it is no object"
    if not isinstance(tool.get("name"), str) or not tool["name"]:
        return "it has no name"
    schema = tool.get("inputSchema")
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return f"{tool['name'][:80]!r} has no inputSchema of type object"
    for field, kind in (("description", str), ("title", str), ("outputSchema", dict), ("annotations", dict)):
        if not isinstance(tool.get(field), kind | None):
            return f"{tool['name'][:80]!r} has a wrong {field}"
    return ""


def _call_fault(result: Mapping[str, Any]) -> str:
    content = result.get("content")
    if not isinstance(content, list):
        return "the result has no list called content"
    if not isinstance(result.get("isError", False), bool):
        return "isError is neither true nor false"
    for index, block in enumerate(content):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            return f"content {index} has no type"
        for field, kind in _BLOCKS.get(block["type"], ()):
            if not isinstance(block.get(field), kind):
                return f"content {index}, {block['type']}, has no {field}"
    return ""
