"""Discovery documents: the card of each server, and the catalog of all cards on this core.

All callers that may read `/status` may read these documents. The documents contain the URL of each server and
whether a key is required, but not the key. Source: SEP-2127; ext-server-card, docs/discovery.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from aiohttp import web

from mcpdesk.errors import UnknownMode
from mcpdesk.protocol import codec
from mcpdesk.protocol.catalogue.publication import CARD_TYPE, catalog_entry, server_card
from mcpdesk.protocol.jsonrpc import JSONObject
from mcpdesk.transports.base import Rules, first_pass_through
from mcpdesk.transports.http.callers import origin_of
from mcpdesk.transports.http.request_head import RequestHead
from mcpdesk.transports.http.responses import (
    json_answer,
    method_error,
    mode_error,
    plain_error,
    unavailable_error,
)

if TYPE_CHECKING:
    from mcpdesk.transports.http.site import Endpoint, Site

CARD_ROUTE = "server-card"
CATALOGS = {
    "/.well-known/mcp/catalog.json": ("draft", "application/json"),
    "/.well-known/ai-catalog.json": ("1.0", "application/ai-catalog+json"),
}
"""Version and media type of the catalog at each path. All have the same entries."""
CACHE_HEADERS = {"Cache-Control": "public, max-age=60"}


def is_discovery(head: RequestHead) -> bool:
    """Return True if a request asks for a card or a catalog.

    `/mcp/server-card` is the card of the first server.
    """
    return head.path in CATALOGS or head.route == CARD_ROUTE or (head.server, head.route) == (CARD_ROUTE, "")


def discover(site: Site, request: web.BaseRequest, head: RequestHead) -> web.Response:
    """Return the requested card or catalog."""
    if not site.rules.enable_mcp:
        return plain_error(404, "MCP is switched off here (enable_mcp)")
    if request.method not in ("GET", "HEAD"):
        return method_error(request, ("GET",))
    if head.path in CATALOGS:
        version, media_type = CATALOGS[head.path]
        entries = list(_entries(site, request))
        return _cached_answer({"specVersion": version, "entries": entries}, media_type)
    name = head.server if head.route == CARD_ROUTE else ""
    if not name and (pass_through := first_pass_through(site.pass_throughs)) is not None:
        return plain_error(
            404, f"The first server, {pass_through.name}, is a remote server: this machine has no card of it"
        )
    try:
        endpoint = site.endpoint(name, head.mode)
    except UnknownMode as error:
        return mode_error(error, is_message=False)
    if endpoint is None:
        return plain_error(404, f"No server {head.server[:100]!r} here")
    if endpoint.refusal:
        return unavailable_error(endpoint.refusal, is_message=False)
    url = endpoint.access.resource or f"{origin_of(request)}/mcp/{quote(endpoint.name)}"
    if head.mode:
        url = f"{url}?mode={quote(head.mode)}"
    headers = _headers(endpoint, site.rules)
    return _cached_answer(server_card(endpoint.publication, _host(request), url, headers), CARD_TYPE)


def _entries(site: Site, request: web.BaseRequest) -> Iterator[JSONObject]:
    """Yield a catalog entry for each server that is served now."""
    host, origin = _host(request), origin_of(request)
    for endpoint in site.endpoints():
        if not endpoint.refusal:
            url = f"{origin}/mcp/{quote(endpoint.name)}/{CARD_ROUTE}"
            yield catalog_entry(endpoint.publication, host, url)


def _headers(endpoint: Endpoint, rules: Rules) -> Iterator[tuple[str, str]]:
    """Yield the headers that callers must send, each with a description."""
    if rules.api_key:
        yield rules.api_key_header, "API key of the desk that serves it"
    if endpoint.access.requires_token:
        yield "Authorization", "Bearer, a blank, and a token"


def _host(request: web.BaseRequest) -> str:
    return urlsplit(origin_of(request)).hostname or ""


def _cached_answer(body: JSONObject, kind: str) -> web.Response:
    return json_answer(200, codec.encode(body), {"Content-Type": kind, **CACHE_HEADERS})
