"""From one internal result to what a given revision may carry. Source: WIRE 1.5, 2.2, 6.4, 6.5."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcpdesk.protocol.jsonrpc import JSONObject
from mcpdesk.protocol.methods import METHODS
from mcpdesk.protocol.revisions import Revision
from mcpdesk.protocol.stateless import SERVER_KEY

LIST_TTL_MS = 0
"""Lists may change whenever a file is saved: a client may keep them but should ask again."""


def result(method: str, body: JSONObject, revision: Revision, server: JSONObject) -> JSONObject:
    """Finish a result object: envelope members of the stateless era, nothing for the others.

    `server` is our Implementation, already shaped.
    """
    if not revision.is_stateless:
        return body
    meta = {SERVER_KEY: server} | (body.get("_meta") or {})
    shaped: JSONObject = {"resultType": "complete"} | body | {"_meta": meta}
    row = METHODS.get(method)
    if row is not None and row.is_cacheable and shaped["resultType"] == "complete":
        shaped |= {"ttlMs": LIST_TTL_MS, "cacheScope": "private"}
    return shaped


def item(kind: str, wire: JSONObject, revision: Revision) -> JSONObject:
    """One listed item with the fields a revision knows; `kind` is the list's key in its result."""
    return _SHAPERS[kind](wire, revision)


def implementation(wire: JSONObject, revision: Revision) -> JSONObject:
    """Our identity with the fields a revision knows."""
    return _pick(wire, revision.implementation_fields)


def tool_result(body: JSONObject, revision: Revision) -> JSONObject:
    """A CallToolResult whose content and structured content the revision knows."""
    shaped = dict(body)
    shaped["content"] = [block(each, revision) for each in body["content"]]
    if "structuredContent" in shaped and not _may_carry(shaped["structuredContent"], revision):
        del shaped["structuredContent"]
    return shaped


def prompt_result(body: JSONObject, revision: Revision) -> JSONObject:
    """A GetPromptResult whose message contents the revision knows."""
    messages = [message | {"content": block(message["content"], revision)} for message in body["messages"]]
    return body | {"messages": messages}


def block(content: JSONObject, revision: Revision) -> JSONObject:
    """One content block, turned into text where the revision does not know its type."""
    kind = content.get("type")
    if kind == "text" and len(content) == 2:
        return content
    if kind in revision.content_types:
        shaped = _pick(content, revision.resource_fields | _TYPE) if kind == "resource_link" else content
        shaped = _dated(shaped, revision)
        return shaped if revision.has_content_meta else _without_meta(_embedded(shaped))
    if kind == "resource_link":
        return {"type": "text", "text": f"{content.get('name')}: {content.get('uri')}"}
    described = f"({kind} content of type {content.get('mimeType')}, not part of {revision})"
    return {"type": "text", "text": described}


def _embedded(content: JSONObject) -> JSONObject:
    inner = content.get("resource")
    return content | {"resource": _without_meta(inner)} if isinstance(inner, dict) else content


def contents(entry: JSONObject, revision: Revision) -> JSONObject:
    """One entry of a `resources/read` result."""
    return entry if revision.has_content_meta else _without_meta(entry)


def _may_carry(structured: Any, revision: Revision) -> bool:
    match revision.structured:
        case "none":
            return False
        case "object":
            return isinstance(structured, dict)
        case "any":
            return True


def _tool(wire: JSONObject, revision: Revision) -> JSONObject:
    shaped = _pick(wire, revision.tool_fields)
    schema = shaped.get("outputSchema")
    if schema is not None and revision.structured == "object" and schema.get("type") != "object":
        del shaped["outputSchema"]
    if not revision.has_boolean_schemas:
        for key in shaped.keys() & _SCHEMAS:
            shaped[key] = _of_objects(shaped[key])
    return shaped


def _of_objects(schema: JSONObject) -> JSONObject:
    """The same schema without properties that are `true` or `false`."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not any(isinstance(each, bool) for each in properties.values()):
        return schema
    spelt = {
        name: ({} if each else {"not": {}}) if isinstance(each, bool) else each
        for name, each in properties.items()
    }
    return schema | {"properties": spelt}


def _prompt(wire: JSONObject, revision: Revision) -> JSONObject:
    shaped = _pick(wire, revision.prompt_fields)
    if "arguments" in shaped:
        shaped["arguments"] = [_pick(argument, revision.argument_fields) for argument in shaped["arguments"]]
    return shaped


def _resource(wire: JSONObject, revision: Revision) -> JSONObject:
    return _dated(_pick(wire, revision.resource_fields), revision)


def _template(wire: JSONObject, revision: Revision) -> JSONObject:
    return _dated(_pick(wire, revision.template_fields), revision)


def _dated(shaped: JSONObject, revision: Revision) -> JSONObject:
    annotations = shaped.get("annotations")
    if not annotations or revision.has_last_modified or "lastModified" not in annotations:
        return shaped
    return shaped | {"annotations": {key: annotations[key] for key in annotations if key != "lastModified"}}


def _pick(wire: JSONObject, fields: frozenset[str]) -> JSONObject:
    return {key: value for key, value in wire.items() if key in fields}


def _without_meta(wire: JSONObject) -> JSONObject:
    return {key: value for key, value in wire.items() if key != "_meta"}


_TYPE = frozenset({"type"})
_SCHEMAS = frozenset({"inputSchema", "outputSchema"})
_SHAPERS: dict[str, Callable[[JSONObject, Revision], JSONObject]] = {
    "tools": _tool,
    "resources": _resource,
    "resourceTemplates": _template,
    "prompts": _prompt,
}
