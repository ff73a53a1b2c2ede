"""From one internal result to what a given revision may carry.

Source: MCP basic/versioning, basic, server/tools, server/resources.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcpdesk.protocol.jsonrpc import JSONObject
from mcpdesk.protocol.methods import METHODS
from mcpdesk.protocol.revisions import Revision
from mcpdesk.protocol.stateless import SERVER_KEY

WRAPPED = "result"
"""The member that output which is no object becomes, as the SDKs call it."""
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


def tool_result(body: JSONObject, revision: Revision, schema: JSONObject | None = None) -> JSONObject:
    """A CallToolResult whose content and structured content the revision knows.

    `schema` is what the tool declares of its output: where structured content has to be an object, output of
    any other kind is the member `result` of one, in the schema and in the content alike.
    """
    shaped = dict(body)
    blocks = shaped["content"] = []
    for each in body["content"]:
        is_text = len(each) == 2 and each.get("type") == "text"
        blocks.append(each if is_text else block(each, revision))
    if "structuredContent" in shaped:
        if _is_wrapped(schema, revision) and not body.get("isError"):
            shaped["structuredContent"] = {WRAPPED: shaped["structuredContent"]}
        if not _may_carry(shaped["structuredContent"], revision):
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
    if schema is not None and _is_wrapped(schema, revision):
        shaped["outputSchema"] = _wrapped(schema)
    if not revision.has_boolean_schemas:
        for key in shaped.keys() & _SCHEMAS:
            shaped[key] = _of_objects(shaped[key])
    return shaped


def _is_wrapped(schema: JSONObject | None, revision: Revision) -> bool:
    return schema is not None and revision.structured == "object" and schema.get("type") != "object"


def _wrapped(schema: JSONObject) -> JSONObject:
    """The schema of an object whose member `result` is what a schema describes. Definitions stay on top."""
    inner = {key: _moved(value) for key, value in schema.items() if key not in _ON_TOP}
    outer = {key: _moved(value) for key, value in schema.items() if key in _ON_TOP}
    return {"type": "object", "properties": {WRAPPED: inner}, "required": [WRAPPED], **outer}


def _moved(value: Any) -> Any:
    """Part of a schema whose references to the schema itself lead to its new place."""
    if isinstance(value, dict):
        return {key: _moved_reference(each) if key == "$ref" else _moved(each) for key, each in value.items()}
    return [_moved(each) for each in value] if isinstance(value, list) else value


def _moved_reference(reference: Any) -> Any:
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return _moved(reference)
    is_on_top = reference.split("/")[1:2] and reference.split("/")[1] in _ON_TOP
    return reference if is_on_top else f"#/properties/{WRAPPED}{reference[1:]}"


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
_ON_TOP = frozenset({"$defs", "definitions", "$schema"})
_SCHEMAS = frozenset({"inputSchema", "outputSchema"})
_SHAPERS: dict[str, Callable[[JSONObject, Revision], JSONObject]] = {
    "tools": _tool,
    "resources": _resource,
    "resourceTemplates": _template,
    "prompts": _prompt,
    "skills": lambda wire, revision: wire,
}
