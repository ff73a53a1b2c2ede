"""Public pages of a core: `/health`, `/ready`, `/status`, `/metrics`, the front page, and OAuth metadata.

Source of the metadata: RFC 9728.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace

from mcpdesk.auth.access import WELL_KNOWN
from mcpdesk.protocol import codec
from mcpdesk.transports.base import first_pass_through
from mcpdesk.transports.http.callers import origin_of
from mcpdesk.transports.http.request_head import split_path
from mcpdesk.transports.http.responses import json_answer, method_error, plain_error
from mcpdesk.transports.metric import MetricFamily, Sample
from mcpdesk.transports.unread_answers import UNREAD
from mcpdesk.version import __version__

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from mcpdesk.transports.http.connections import HttpConnections
    from mcpdesk.transports.http.site import Endpoint, Site


class FactSource(Struct):
    """Data for the handlers of public pages in `FACTS`."""

    site: Site
    listener: HttpConnections
    sessions: int
    """Number of HTTP sessions."""
    passed_servers: list[str]
    """Names of pass-through servers, once for each of their clients."""
    may_see_names: Callable[[], Awaitable[bool]]
    """Function that returns True if the caller may see names and details: a known caller."""
    endpoints: list[str]
    """Paths for clients of dialects, each with the name of these clients."""
    front_lines: list[str]
    """Lines about routes of features."""


async def health(source: FactSource) -> web.Response:
    """Report that the core is alive. If the core shares its state, also report whether it is ready."""
    site = source.site
    if site.shared is None:
        return json_answer(200, b'{"status":"ok"}')
    reason = await _detailed_reason(source, site.unready or site.shared.outage)
    body = {"status": "ok", "ready": not reason, "reason": reason, **site.shared.health()}
    return json_answer(200, codec.encode(body))


async def ready(source: FactSource) -> web.Response:
    """Report whether new requests should be sent here: status 503 and a reason if not.

    Pass-through servers that are down are listed, because the core may be ready nevertheless.
    """
    down = {"down": list(source.site.down_servers)} if source.site.down_servers else {}
    if reason := source.site.unready:
        body = {"status": "not ready", "reason": await _detailed_reason(source, reason), **down}
        return json_answer(503, codec.encode(body))
    return json_answer(200, codec.encode({"status": "ready", **down}))


async def _detailed_reason(source: FactSource, reason: str) -> str:
    """Return the reason. A known caller also sees addresses and error texts."""
    shared = source.site.shared
    if shared is None or not reason or reason != shared.outage:
        return reason
    return shared.away if await source.may_see_names() else reason


PUBLIC_FACTS = ("name", "version", "token_required", "tools", "resources", "templates", "prompts")
"""Facts about a server that callers without the key may see on `/status`."""


async def status(source: FactSource) -> web.Response:
    """Report counts per server and in total, uptime, and whether a key or token is required.

    A known caller also sees the state of the capture, of upstream servers and of other cores. The totals
    include the items that pass-through servers listed.
    """
    site, is_known = source.site, await source.may_see_names()
    servers = [endpoint.facts() for endpoint in site.endpoints()]
    listed_counts = {
        name: {f"{kind}s": count for kind, count in server.offered().items()}
        for name, server in site.pass_throughs.items()
    }
    capture: dict[str, str | int] = {"state": site.capture.state, "missing_frames": site.capture.missing}
    if site.capture.reason:
        capture["error"] = site.capture.reason
    shared = {} if site.shared is None else site.shared.status()
    known_caller_facts = {
        "passed_on": list(site.pass_throughs),
        "passed_servers": [{"name": name, **counts} for name, counts in listed_counts.items()],
        "passed_clients": dict.fromkeys(site.pass_throughs, 0) | Counter(source.passed_servers),
        "capture": capture,
        **shared,
    }
    totals = {
        kind: sum(each[kind] for each in (*servers, *listed_counts.values()))
        for kind in ("tools", "resources", "templates", "prompts")
    }
    body = {
        "status": "ok",
        "name": servers[0]["name"] if servers else "mcpdesk",
        "version": servers[0]["version"] if servers else __version__,
        "mcpdesk": __version__,
        **totals,
        "servers": servers if is_known else [{name: each[name] for name in PUBLIC_FACTS} for each in servers],
        **(known_caller_facts if is_known else {}),
        "uptime_s": round(site.uptime_s, 1),
        "key_required": bool(site.rules.api_key),
        "token_required": bool(site.rules.api_key) or any(each["token_required"] for each in servers),
    }
    return json_answer(200, codec.encode(body))


async def front(source: FactSource) -> web.Response:
    """Return a page of text that lists the endpoints."""
    site = source.site
    fact_paths = ", ".join(FACT_PATHS)
    if site.rules.enable_mcp:
        lines = ["mcpdesk serves MCP here. Endpoints, for JSON-RPC over POST:", ""]
        names = [*(endpoint.name for endpoint in site.endpoints()), *site.pass_throughs]
        lines += [f"  /mcp/{name}" for name in names]
        lines += ["", f"Also: {'; '.join([*source.endpoints, fact_paths])}."]
    else:
        lines = [f"MCP is switched off here (enable_mcp). Available: {fact_paths}."]
    lines += source.front_lines
    return web.Response(text="\n".join(lines) + "\n", content_type="text/plain")


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "mcpdesk_"


async def metrics(source: FactSource) -> web.Response:
    """Return all metrics of the core and this listener. Callers that are not known see only totals."""
    site, listener, is_known = source.site, source.listener, await source.may_see_names()
    listener_metrics = [
        ("http_connections", "Open HTTP connections.", len(listener)),
        ("http_connections_total", "HTTP connections since the start.", listener.accepted),
        ("http_requests_total", "HTTP requests since the start.", listener.requests),
        ("http_sessions", "HTTP sessions of the handshake era.", source.sessions),
        ("http_passed_clients", "HTTP clients that use upstream servers.", len(source.passed_servers)),
        (
            "passed_messages_dropped_total",
            "Messages of upstream servers that were dropped because their client did not read them.",
            sum(server.dropped for server in site.pass_throughs.values()),
        ),
        ("unread_answers_bytes", "Bytes of large answers that clients have not read yet.", UNREAD.held_bytes),
        (
            "unread_answers_refused_total",
            "Answers refused because of the limit unread_answers_max_bytes.",
            UNREAD.refused_count,
        ),
        (
            "unread_connections_cut_total",
            "Connections that were closed because their client did not read.",
            UNREAD.cut_count,
        ),
        ("http_body_bytes", "Bytes of large request bodies in memory.", listener.budget.held_bytes),
    ]
    listener_figures = [
        MetricFamily(name, "counter" if name.endswith("_total") else "gauge", help, (Sample(value),))
        for name, help, value in listener_metrics
    ]
    compute_figures = site.figures()

    def metrics_text() -> bytes:
        figures = compute_figures()
        return prometheus_text([*(figures if is_known else map(_total, figures)), *listener_figures])

    # On a thread, because the first import of the Prometheus library takes a tenth of a second.
    text = await asyncio.to_thread(metrics_text)
    return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE})


FACTS: dict[str, Callable[[FactSource], Awaitable[web.Response]]] = {
    "/": front,
    "/health": health,
    "/ready": ready,
    "/status": status,
    "/metrics": metrics,
}
"""Handlers of public pages by path. Callers without a key may GET them."""
FACT_PATHS = tuple(path for path in FACTS if path != "/")

OPEN_LABELS = frozenset(
    {"kind", "state", "status", "method", "outcome", "direction", "le", "transport", "version", "quantile"}
    | {"reason"}
)
"""Labels that name neither a server nor a tool."""


def _total(figure: MetricFamily) -> MetricFamily:
    """Return a metric with the sum of its samples. Quantiles cannot be added and are left out."""
    sums: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for sample in figure.samples:
        open_labels = tuple((name, text) for name, text in sample.labels.items() if name in OPEN_LABELS)
        if len(open_labels) == len(sample.labels) or "quantile" not in sample.labels:
            sums[sample.suffix, open_labels] = sums.get((sample.suffix, open_labels), 0) + sample.value
    return replace(
        figure,
        samples=[Sample(value, dict(open_labels), suffix) for (suffix, open_labels), value in sums.items()],
    )


def prometheus_text(figures: Iterable[MetricFamily]) -> bytes:
    """Format metrics and those of the process for Prometheus."""
    from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

    registry = CollectorRegistry()
    registry.register(_Figures(figures))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class _Figures:
    """Collector that passes metrics to the Prometheus library."""

    def __init__(self, figures: Iterable[MetricFamily]) -> None:
        self._figures = figures

    def collect(self) -> Iterable[Metric]:
        """Return a metric family for each figure."""
        return map(_family, self._figures)


def _family(figure: MetricFamily) -> Metric:
    from prometheus_client.core import Metric

    name = PREFIX + figure.name
    family = Metric(name.removesuffix("_total"), figure.help, figure.kind)
    for sample in figure.samples:
        family.add_sample(name + sample.suffix, dict(sample.labels), sample.value)
    return family


def is_metadata(path: str) -> bool:
    """Return True for the path of OAuth protected-resource metadata."""
    return path == WELL_KNOWN or path.startswith(f"{WELL_KNOWN}/")


def metadata(site: Site, request: web.BaseRequest, path: str) -> web.Response:
    """Return the OAuth metadata for the endpoint in the path, or else for the first server."""
    if request.method not in ("GET", "HEAD"):
        return method_error(request, ("GET",))
    resource = path.removeprefix(WELL_KNOWN).rstrip("/")
    endpoint = _endpoint(site, resource)
    if endpoint is None or not endpoint.access.authorization_servers:
        return plain_error(404, "No authorization server is named for this (auth.authorization_servers)")
    # Without a path, the metadata applies to all endpoints.
    document = endpoint.access.metadata(f"{origin_of(request)}{resource or '/mcp'}", endpoint.name)
    return json_answer(200, codec.encode(document), {"Cache-Control": "max-age=60"})


def _endpoint(site: Site, resource: str) -> Endpoint | None:
    if resource == "/mcp" and first_pass_through(site.pass_throughs) is not None:
        return None
    if resource in ("", "/mcp", "/v1/mcp"):
        return site.endpoint("")
    name, route = split_path(resource)
    return site.endpoint(name) if route == "" else None
