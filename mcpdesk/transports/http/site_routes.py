"""Facts about a core: `/health`, `/status`, `/metrics`, the page at `/`, and who gives tokens (RFC 9728)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from aiohttp import web

from mcpdesk.auth.token_rules import WELL_KNOWN
from mcpdesk.protocol import codec
from mcpdesk.recorder.record import CaptureHealth
from mcpdesk.transports.base import Endpoint, Site
from mcpdesk.transports.figure import Figure, Sample
from mcpdesk.transports.http.callers import origin_of
from mcpdesk.transports.http.request_guard import FACT_PATHS
from mcpdesk.transports.http.request_head import place_of
from mcpdesk.transports.http.responses import json_answer, no_method, plain_error
from mcpdesk.version import __version__

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from mcpdesk.transports.http.connections import HttpConnections


def health(site: Site) -> web.Response:
    """Return that the core is alive."""
    return json_answer(200, b'{"status":"ok"}')


def status(site: Site) -> web.Response:
    """Return counts per server and in total, uptime, and whether a key or a token is required."""
    servers = [endpoint.facts() for endpoint in site.endpoints()]
    totals = {kind: sum(each[kind] for each in servers) for kind in ("tools", "resources", "prompts")}
    body = {
        "status": "ok",
        "name": servers[0]["name"] if servers else "mcpdesk",
        "version": servers[0]["version"] if servers else __version__,
        "mcpdesk": __version__,
        **totals,
        "servers": servers,
        "capture": _capture(site.capture),
        "uptime_s": round(site.uptime_s, 1),
        "key_required": bool(site.rules.api_key),
        "token_required": bool(site.rules.api_key) or any(each["token_required"] for each in servers),
    }
    return json_answer(200, codec.encode(body))


def _capture(health: CaptureHealth) -> dict[str, str | int]:
    said: dict[str, str | int] = {"state": health.state, "missing_frames": health.missing}
    return {**said, "error": health.reason} if health.reason else said


def front(site: Site) -> web.Response:
    """Return a text page that lists the endpoints."""
    facts = ", ".join(FACT_PATHS)
    if site.rules.enable_mcp:
        lines = ["mcpdesk serves MCP here. Endpoints, for JSON-RPC over POST:", ""]
        lines += [f"  /mcp/{endpoint.name}" for endpoint in site.endpoints()]
        lines += ["", f"Also: /v1/mcp for gateway clients; {facts}."]
    else:
        lines = [f"MCP is switched off here (enable_mcp). What there is: {facts}."]
    lines += ["A browser gets the dashboard here."]
    return web.Response(text="\n".join(lines) + "\n", content_type="text/plain")


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "mcpdesk_"


async def metrics(site: Site, listener: HttpConnections, sessions: int) -> web.Response:
    """Return all figures of a core and of this listener."""
    figures = [*site.figures(), *_of_http(listener, sessions)]
    # The library takes a tenth of a second to import, once; calls must not wait for that.
    text = await asyncio.to_thread(written, figures)
    return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE})


def written(figures: Iterable[Figure]) -> bytes:
    """Return figures, and those of the process, in the format of Prometheus."""
    from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

    registry = CollectorRegistry()
    registry.register(_Figures(figures))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


def _of_http(listener: HttpConnections, sessions: int) -> Iterator[Figure]:
    yield _single("http_connections", "HTTP connections open.", len(listener))
    yield _single("http_connections_total", "HTTP connections so far.", listener.accepted)
    yield _single("http_requests_total", "HTTP requests so far.", listener.requests)
    yield _single("http_sessions", "HTTP sessions of the handshake era.", sessions)
    yield _single("http_body_bytes", "Bytes of large request bodies held.", listener.budget.held)


def _single(name: str, help: str, value: float) -> Figure:
    return Figure(name, "counter" if name.endswith("_total") else "gauge", help, (Sample(value),))


class _Figures:
    """Converts figures for the library."""

    def __init__(self, figures: Iterable[Figure]) -> None:
        self._figures = figures

    def collect(self) -> Iterable[Metric]:
        """Return a metric family for each figure."""
        return map(_family, self._figures)


def _family(figure: Figure) -> Metric:
    from prometheus_client.core import Metric

    name = PREFIX + figure.name
    family = Metric(name.removesuffix("_total"), figure.help, figure.kind)
    for sample in figure.samples:
        family.add_sample(name + sample.suffix, dict(sample.labels), sample.value)
    return family


def is_metadata(path: str) -> bool:
    """Whether a path is that of such a description."""
    return path == WELL_KNOWN or path.startswith(f"{WELL_KNOWN}/")


def metadata(site: Site, request: web.BaseRequest, path: str) -> web.Response:
    """Return the description of the endpoint behind the path's prefix, else of the first server."""
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
