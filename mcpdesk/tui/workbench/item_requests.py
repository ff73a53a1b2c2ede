"""Items as requests: the schema of their form, the request made of it, and recorded requests sent again."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mcpdesk.link.values import CatalogueItem, ItemKind
from mcpdesk.protocol.uri_template import expand, parsed
from mcpdesk.tui.forms.schema_fields import Schema

Ask = Callable[[str, str], Awaitable[Sequence[str]]]
"""Asks for suggestions for a field: from its name and text to values, the best first."""
Request = tuple[str, dict[str, Any]]
"""Method and params."""
_OPENING = frozenset({"initialize", "subscriptions/listen"})
_ONCE = frozenset({"_meta", "inputResponses", "requestState", "task"})
_ITEMS = {
    "tools/call": (ItemKind.TOOL, "name"),
    "prompts/get": (ItemKind.PROMPT, "name"),
    "resources/read": (ItemKind.RESOURCE, "uri"),
}
_OPTIONAL = re.compile(r"\{[?&]([^}]*)\}")


def schema_of(item: CatalogueItem) -> Schema:
    """The schema of the arguments that an item needs."""
    return _SCHEMAS[item.kind](item.definition | {"name": item.name})


def request_for(item: CatalogueItem, arguments: Any) -> Request:
    """Method and params of a request with these arguments.

    Raises: ValueError when they do not make a request.
    """
    return _REQUESTS[item.kind](item.name, arguments)


def repeated(message: Any) -> Request:
    """Method and params of a recorded request to send again, without what was valid only once.

    Raises: ValueError with the reason why it cannot be sent again.
    """
    method = message.get("method") if isinstance(message, dict) else None
    if not isinstance(method, str) or "id" not in message:
        raise ValueError("only requests can be sent again")
    if method in _OPENING:
        raise ValueError(f"{method} opens something for the client that sent it")
    params = message.get("params", {})
    if not isinstance(params, dict):
        raise ValueError("its params are not an object")
    return method, {key: value for key, value in params.items() if key not in _ONCE}


def item_of(method: str, params: dict[str, Any]) -> tuple[ItemKind, str, Any]:
    """Kind and name of the item that a request is about, and its arguments.

    Raises: ValueError for requests without a form.
    """
    kind, named = _ITEMS.get(method, (None, ""))
    name = params.get(named)
    if kind is None or not isinstance(name, str):
        raise ValueError(f"there is no form for {method}: r sends it as it is")
    return kind, name, params.get("arguments", {})


def completion_for(item: CatalogueItem, name: str, typed: str, given: Any) -> Request | None:
    """The request for suggestions for a field, given the others; None for items without suggestions."""
    refer = _REFERENCES.get(item.kind)
    if refer is None:
        return None
    others = given.items() if isinstance(given, dict) else ()
    context = {key: value for key, value in others if key != name and isinstance(value, str) and value}
    params: dict[str, Any] = {"ref": refer(item.name), "argument": {"name": name, "value": typed}}
    return "completion/complete", params | ({"context": {"arguments": context}} if context else {})


def _tool_schema(definition: dict[str, Any]) -> Schema:
    schema: Schema = definition.get("inputSchema") or {}
    return schema


def _template_schema(definition: dict[str, Any]) -> Schema:
    try:
        variables = parsed(definition["name"]).variables
    except ValueError:
        return {}
    optional = {name for names in _OPTIONAL.findall(definition["name"]) for name in names.split(",")}
    return _strings({name: {"type": "string"} for name in variables}, set(variables) - optional)


def _prompt_schema(definition: dict[str, Any]) -> Schema:
    arguments = [one for one in definition.get("arguments") or () if isinstance(one, dict) and "name" in one]
    members = {
        one["name"]: {
            "type": "string",
            "title": one.get("title", ""),
            "description": one.get("description", ""),
        }
        for one in arguments
    }
    return _strings(members, {one["name"] for one in arguments if one.get("required")})


def _strings(members: dict[str, Any], needed: set[str]) -> Schema:
    return {"type": "object", "properties": members, "required": [name for name in members if name in needed]}


def _named(method: str) -> Callable[[str, Any], Request]:
    def request(name: str, arguments: Any) -> Request:
        return method, {"name": name, "arguments": arguments}

    return request


def _read_template(name: str, arguments: Any) -> Request:
    if not isinstance(arguments, dict):
        raise ValueError("the variables of a template are an object")
    return "resources/read", {"uri": expand(name, {key: str(value) for key, value in arguments.items()})}


_SCHEMAS: dict[ItemKind, Callable[[dict[str, Any]], Schema]] = {
    ItemKind.TOOL: _tool_schema,
    ItemKind.RESOURCE: lambda definition: {},
    ItemKind.TEMPLATE: _template_schema,
    ItemKind.PROMPT: _prompt_schema,
}
_REFERENCES: dict[ItemKind, Callable[[str], dict[str, str]]] = {
    ItemKind.PROMPT: lambda name: {"type": "ref/prompt", "name": name},
    ItemKind.TEMPLATE: lambda name: {"type": "ref/resource", "uri": name},
}
_REQUESTS: dict[ItemKind, Callable[[str, Any], Request]] = {
    ItemKind.TOOL: _named("tools/call"),
    ItemKind.RESOURCE: lambda name, arguments: ("resources/read", {"uri": name}),
    ItemKind.TEMPLATE: _read_template,
    ItemKind.PROMPT: _named("prompts/get"),
}
