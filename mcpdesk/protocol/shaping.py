"""Converts internal results to the form that a revision allows.

An internal result or item has the members of all revisions.
Source: MCP basic/versioning, basic, server/tools, server/resources.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcpdesk.protocol.jsonrpc import JSONObject
from mcpdesk.protocol.methods import METHODS
from mcpdesk.protocol.revisions import Revision
from mcpdesk.protocol.stateless import SERVER_KEY

WRAPPER_MEMBER = "result"
"""Member that wraps a tool's output if the output is not an object. The SDKs use the same name."""
LIST_TTL_MS = 0
"""Lifetime of a cached list. Zero, because a list may change whenever a file is saved."""


def result(method: str, body: JSONObject, revision: Revision, server: JSONObject) -> JSONObject:
    """Add the envelope members of the stateless era to a result. The handshake era has no such members.

    `server` is our Implementation object, as `implementation` returns it.
    """
    if not revision.is_stateless:
        return body
    meta = {SERVER_KEY: server} | (body.get("_meta") or {})
    shaped: JSONObject = {"resultType": "complete"} | body | {"_meta": meta}
    row = METHODS.get(method)
    if row is not None and row.is_cacheable and shaped["resultType"] == "complete":
        shaped |= {"ttlMs": LIST_TTL_MS, "cacheScope": "private"}
    return shaped


def item(kind: str, internal: JSONObject, revision: Revision) -> JSONObject:
    """Return an item of a list with the fields that a revision has. `kind` is the key of the list."""
    return _SHAPERS[kind](internal, revision)


def implementation(internal: JSONObject, revision: Revision) -> JSONObject:
    """Return our identity with the fields that a revision has."""
    return _pick(internal, revision.implementation_fields)


def tool_result(body: JSONObject, revision: Revision, schema: JSONObject | None = None) -> JSONObject:
    """Return a CallToolResult with the content types and structured content that a revision allows.

    `schema` is the tool's output schema. If structured content must be an object, any other output is wrapped
    in an object with the member `result`, both in the schema and in the content.
    """
    shaped = dict(body)
    blocks = shaped["content"] = []
    for content_block in body.get("content", ()):  # results of some servers have no content
        is_text = len(content_block) == 2 and content_block.get("type") == "text"
        blocks.append(content_block if is_text else block(content_block, revision))
    if "structuredContent" in shaped:
        if _needs_wrapper(schema, revision) and not body.get("isError"):
            shaped["structuredContent"] = {WRAPPER_MEMBER: shaped["structuredContent"]}
        if not _allows_structured(shaped["structuredContent"], revision):
            del shaped["structuredContent"]
    return shaped


def prompt_result(body: JSONObject, revision: Revision) -> JSONObject:
    """Return a GetPromptResult with the content types that a revision allows."""
    messages = [message | {"content": block(message["content"], revision)} for message in body["messages"]]
    return body | {"messages": messages}


def block(content: JSONObject, revision: Revision) -> JSONObject:
    """Return one content block, converted to text if the revision does not have its type."""
    kind = content.get("type")
    if kind == "text" and len(content) == 2:
        return content
    if kind in revision.content_types:
        shaped = _pick(content, revision.resource_fields | _TYPE) if kind == "resource_link" else content
        shaped = _without_unknown_annotations(shaped, revision)
        return shaped if revision.has_content_meta else _without_meta(_without_embedded_meta(shaped))
    if kind == "resource_link":
        return {"type": "text", "text": f"{content.get('name')}: {content.get('uri')}"}
    placeholder = f"({kind} content of type {content.get('mimeType')}, not part of {revision})"
    return {"type": "text", "text": placeholder}


def _without_embedded_meta(content: JSONObject) -> JSONObject:
    resource = content.get("resource")
    return content | {"resource": _without_meta(resource)} if isinstance(resource, dict) else content


def contents(entry: JSONObject, revision: Revision) -> JSONObject:
    """Return one entry of a `resources/read` result."""
    return entry if revision.has_content_meta else _without_meta(entry)


def _allows_structured(structured: Any, revision: Revision) -> bool:
    match revision.structured:
        case "none":
            return False
        case "object":
            return isinstance(structured, dict)
        case "any":
            return True


def _tool(internal: JSONObject, revision: Revision) -> JSONObject:
    shaped = _pick(internal, revision.tool_fields)
    schema = shaped.get("outputSchema")
    if schema is not None and _needs_wrapper(schema, revision):
        shaped["outputSchema"] = _wrapped_schema(schema)
    if not revision.has_boolean_schemas:
        for key in shaped.keys() & _SCHEMAS:
            shaped[key] = _without_boolean_schemas(shaped[key])
    return shaped


def _needs_wrapper(schema: JSONObject | None, revision: Revision) -> bool:
    return schema is not None and revision.structured == "object" and schema.get("type") != "object"


def _wrapped_schema(schema: JSONObject) -> JSONObject:
    """Return the schema of an object whose member `result` has the given schema.

    Definitions stay at the top level.
    """
    inner = {
        key: _with_moved_references(value) for key, value in schema.items() if key not in _TOP_LEVEL_KEYWORDS
    }
    outer = {
        key: _with_moved_references(value) for key, value in schema.items() if key in _TOP_LEVEL_KEYWORDS
    }
    return {"type": "object", "properties": {WRAPPER_MEMBER: inner}, "required": [WRAPPER_MEMBER], **outer}


def _with_moved_references(value: Any) -> Any:
    """Return a part of a schema that was moved below `properties`, with its references (`#/...`) changed."""
    if isinstance(value, dict):
        return {
            key: _moved_reference(each) if key == "$ref" else _with_moved_references(each)
            for key, each in value.items()
        }
    return [_with_moved_references(each) for each in value] if isinstance(value, list) else value


def _moved_reference(reference: Any) -> Any:
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return _with_moved_references(reference)
    _, _, path = reference.partition("/")
    stays_at_top_level = path.split("/")[0] in _TOP_LEVEL_KEYWORDS
    return reference if stays_at_top_level else f"#/properties/{WRAPPER_MEMBER}{reference[1:]}"


def _without_boolean_schemas(schema: JSONObject) -> JSONObject:
    """Return the schema with its boolean property schemas, `true` and `false`, replaced by objects."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not any(isinstance(each, bool) for each in properties.values()):
        return schema
    new_properties = {
        name: ({} if each else {"not": {}}) if isinstance(each, bool) else each
        for name, each in properties.items()
    }
    return schema | {"properties": new_properties}


def _prompt(internal: JSONObject, revision: Revision) -> JSONObject:
    shaped = _pick(internal, revision.prompt_fields)
    if "arguments" in shaped:
        shaped["arguments"] = [_pick(argument, revision.argument_fields) for argument in shaped["arguments"]]
    return shaped


def _resource(internal: JSONObject, revision: Revision) -> JSONObject:
    return _without_unknown_annotations(_pick(internal, revision.resource_fields), revision)


def _template(internal: JSONObject, revision: Revision) -> JSONObject:
    return _without_unknown_annotations(_pick(internal, revision.template_fields), revision)


def _without_unknown_annotations(shaped: JSONObject, revision: Revision) -> JSONObject:
    """Remove the annotation `lastModified` if the revision does not have it."""
    annotations = shaped.get("annotations")
    if not annotations or revision.has_last_modified or "lastModified" not in annotations:
        return shaped
    return shaped | {"annotations": {key: annotations[key] for key in annotations if key != "lastModified"}}


def _pick(internal: JSONObject, fields: frozenset[str]) -> JSONObject:
    return {key: value for key, value in internal.items() if key in fields}


def _without_meta(internal: JSONObject) -> JSONObject:
    return {key: value for key, value in internal.items() if key != "_meta"}


_TYPE = frozenset({"type"})
_TOP_LEVEL_KEYWORDS = frozenset({"$defs", "definitions", "$schema"})
"""Keywords of an output schema that stay at the top level when the schema is wrapped."""
_SCHEMAS = frozenset({"inputSchema", "outputSchema"})
_SHAPERS: dict[str, Callable[[JSONObject, Revision], JSONObject]] = {
    "tools": _tool,
    "resources": _resource,
    "resourceTemplates": _template,
    "prompts": _prompt,
    "skills": lambda internal, revision: internal,
}
