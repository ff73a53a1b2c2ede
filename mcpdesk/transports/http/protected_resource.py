"""`/.well-known/oauth-protected-resource...`: who gives tokens for an endpoint. Source: RFC 9728."""

from __future__ import annotations

from aiohttp import web

from mcpdesk.auth.token_rules import WELL_KNOWN
from mcpdesk.protocol import codec
from mcpdesk.transports.base import Endpoint, Site
from mcpdesk.transports.http.answers import json_answer, no_method, plain_error
from mcpdesk.transports.http.callers import origin_of
from mcpdesk.transports.http.head import place_of


def is_metadata(path: str) -> bool:
    """Whether a path is one of these."""
    return path == WELL_KNOWN or path.startswith(f"{WELL_KNOWN}/")


def metadata(site: Site, request: web.BaseRequest, path: str) -> web.Response:
    """The description of the endpoint a path names behind its own; of the first server without one."""
    if request.method not in ("GET", "HEAD"):
        return no_method(request, ("GET",))
    resource = path.removeprefix(WELL_KNOWN).rstrip("/")
    endpoint = _endpoint(site, resource)
    if endpoint is None or not endpoint.access.authorization_servers:
        return plain_error(404, "No authorization server is named for this (auth.authorization_servers)")
    # Without a path the answer is about all endpoints below the one it names.
    found = endpoint.access.metadata(f"{origin_of(request)}{resource or '/mcp'}", endpoint.name)
    return json_answer(200, codec.encode(found), {"Cache-Control": "max-age=60"})


def _endpoint(site: Site, resource: str) -> Endpoint | None:
    if resource in ("", "/mcp", "/v1/mcp"):
        return site.endpoint("")
    name, way = place_of(resource)
    return site.endpoint(name) if way == "" else None
