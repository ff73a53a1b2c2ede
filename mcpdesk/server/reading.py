"""`resources/read`: from a URI, a template match or a relative path to contents."""

from __future__ import annotations

from typing import Any, NamedTuple

from mcpdesk.errors import ProtocolError, RemoteProtocolError
from mcpdesk.protocol import codec, content, shaping
from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject
from mcpdesk.protocol.revisions import Revision
from mcpdesk.protocol.uri_template import match
from mcpdesk.server.call import Call
from mcpdesk.server.context import make_context
from mcpdesk.server.resource import Reader
from mcpdesk.server.server import Server
from mcpdesk.server.services import Services


class _Found(NamedTuple):
    reader: Reader
    uri: str
    variables: dict[str, str]
    mime_type: str


async def read_resource(server: Server, services: Services, call: Call) -> JSONObject:
    """The ReadResourceResult.

    Raises: RemoteProtocolError with the revision's code when nothing is there, or its reader returns None.
    """
    uri = call.params["uri"]
    found = _find(server, uri)
    if found is not None:
        context = await make_context(server, services, call, found.uri)
        output = await found.reader(found.uri, found.variables, context)
        if output is not None:
            return {"contents": _contents(found, output, call.terms.revision)}
    code = call.terms.revision.resource_not_found
    raise RemoteProtocolError(code, f"Resource not found: {uri[:200]}", {"uri": uri})


def _find(server: Server, uri: str) -> _Found | None:
    resource = server.resources.get(uri)
    if resource is None:
        resource = next((each for each in server.resources if each.path and each.path == uri), None)
    if resource is not None:
        return _Found(resource.reader, resource.uri, {}, resource.mime_type)
    for template in server.templates:
        variables = match(template.uri_template, uri)
        if variables is not None:
            return _Found(template.reader, uri, variables, template.mime_type)
    return None


def _contents(found: _Found, output: Any, revision: Revision) -> list[JSONObject]:
    if isinstance(output, list) and output and all(_is_entry(each) for each in output):
        for number, each in enumerate(output, 1):
            try:
                content.check_contents(each)
            except ValueError as error:
                reason = f"Reading {found.uri[:200]} gave what are no contents: entry {number}: {error}"
                raise ProtocolError(ErrorCode.INTERNAL_ERROR, reason) from None
        return [shaping.contents(each, revision) for each in output]
    if isinstance(output, str | bytes):
        return [content.contents(found.uri, output, found.mime_type)]
    text = codec.encode(output).decode()
    return [content.contents(found.uri, text, found.mime_type or "application/json")]


def _is_entry(value: object) -> bool:
    return isinstance(value, dict) and "uri" in value and ("text" in value or "blob" in value)
