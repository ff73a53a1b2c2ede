"""Requests for items: the schema of their form, the request made from it, and repeated recorded requests."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from mcpdesk.link.values import CatalogueItem, ItemKind
from mcpdesk.protocol.catalogue.schema_shapes import Schema
from mcpdesk.protocol.catalogue.uri_template import expand, parsed_template
from mcpdesk.tui.render.json_text import compact

Request = tuple[str, dict[str, Any]]
"""Method and params."""
_OPENING_METHODS = frozenset({"initialize", "subscriptions/listen"})
"""Methods that open a session or stream for the client that sends them."""
_SINGLE_USE_MEMBERS = frozenset({"_meta", "inputResponses", "requestState", "task"})
"""Members of `params` that are valid only once."""
_ITEM_METHODS = {
    "tools/call": (ItemKind.TOOL, "name"),
    "prompts/get": (ItemKind.PROMPT, "name"),
    "resources/read": (ItemKind.RESOURCE, "uri"),
}
"""Method -> kind of the item, and the member of `params` that names it."""
_COMMANDS = {
    "tools/call": ("call", "name"),
    "prompts/get": ("prompt", "name"),
    "resources/read": ("read", "uri"),
    "tools/list": ("list", ""),
}
"""Method -> command, and the member of `params` that is its first argument."""
_OPTIONAL_VARIABLES = re.compile(r"\{[?&]([^}]*)\}")
"""Matches the query variables of a URI template."""


def schema_of(item: CatalogueItem) -> Schema:
    """Return the schema of the arguments of an item."""
    match item.kind:
        case ItemKind.TOOL:
            return item.definition.get("inputSchema") or {}
        case ItemKind.RESOURCE | ItemKind.SKILL:
            return {}
        case ItemKind.TEMPLATE:
            return _template_schema(item.name)
        case ItemKind.PROMPT:
            return _prompt_schema(item.definition)


def _template_schema(template: str) -> Schema:
    try:
        variables = parsed_template(template).variables
    except ValueError:
        return {}
    optional_names = {name for names in _OPTIONAL_VARIABLES.findall(template) for name in names.split(",")}
    properties = {name: {"type": "string"} for name in variables}
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional_names],
    }


def _prompt_schema(definition: Mapping[str, Any]) -> Schema:
    members = definition.get("arguments") or ()
    arguments = [member for member in members if isinstance(member, dict) and "name" in member]
    properties = {
        argument["name"]: {
            "type": "string",
            "title": argument.get("title", ""),
            "description": argument.get("description", ""),
        }
        for argument in arguments
    }
    required_names = [argument["name"] for argument in arguments if argument.get("required")]
    return {"type": "object", "properties": properties, "required": required_names}


def request_for(item: CatalogueItem, arguments: Any) -> Request:
    """Return method and params of a request with these arguments.

    Raises: ValueError if the arguments do not make a valid request.
    """
    match item.kind:
        case ItemKind.TOOL:
            return "tools/call", {"name": item.name, "arguments": arguments}
        case ItemKind.PROMPT:
            return "prompts/get", {"name": item.name, "arguments": arguments}
        case ItemKind.RESOURCE | ItemKind.SKILL:
            return "resources/read", {"uri": item.name}
        case ItemKind.TEMPLATE:
            if not isinstance(arguments, dict):
                raise ValueError("the variables of a template must be an object")
            uri = expand(item.name, {key: str(value) for key, value in arguments.items()})
            return "resources/read", {"uri": uri}


def completion_for(item: CatalogueItem, name: str, typed_text: str, values: Any) -> Request | None:
    """Return the request for suggestions for the field `name`, or None for items without suggestions.

    `typed_text` is the text of this field, and `values` has the values of all fields.
    """
    if item.kind is ItemKind.PROMPT:
        reference = {"type": "ref/prompt", "name": item.name}
    elif item.kind is ItemKind.TEMPLATE:
        reference = {"type": "ref/resource", "uri": item.name}
    else:
        return None
    members = values.items() if isinstance(values, dict) else ()
    context = {key: value for key, value in members if key != name and isinstance(value, str) and value}
    params: dict[str, Any] = {"ref": reference, "argument": {"name": name, "value": typed_text}}
    return "completion/complete", params | ({"context": {"arguments": context}} if context else {})


def repeated_request(message: Any) -> Request:
    """Return method and params of a recorded request to send again, without members that are valid only once.

    Raises: ValueError with the reason why the request cannot be sent again.
    """
    method = message.get("method") if isinstance(message, dict) else None
    if not isinstance(method, str) or "id" not in message:
        raise ValueError("only requests can be sent again")
    if method in _OPENING_METHODS:
        raise ValueError(f"{method} opens a session or stream for the client that sent it")
    params = message.get("params", {})
    if not isinstance(params, dict):
        raise ValueError("params of the request must be an object")
    return method, {key: value for key, value in params.items() if key not in _SINGLE_USE_MEMBERS}


def item_of(method: str, params: dict[str, Any]) -> tuple[ItemKind, str, Any]:
    """Return kind and name of the item that a request is about, and its arguments.

    Raises: ValueError for requests without a form.
    """
    kind, member = _ITEM_METHODS.get(method, (None, ""))
    name = params.get(member)
    if kind is None or not isinstance(name, str):
        raise ValueError(f"{method} has no form: r sends it unchanged")
    return kind, name, params.get("arguments", {})


def shell_command(method: str, params: Mapping[str, Any], folder: str) -> str:
    """Return the `mcpdesk` command that sends the same request, or "" for methods without a command."""
    command, member = _COMMANDS.get(method, ("", ""))
    if not command:
        return ""
    words = ["mcpdesk", command, folder]
    if member:
        words.append(str(params.get(member, "")))
    arguments = params.get("arguments")
    for key, value in arguments.items() if isinstance(arguments, dict) else ():
        words.append(f"{key}={value}" if isinstance(value, str) else f"{key}:={compact(value)}")
    return shlex.join(words)
