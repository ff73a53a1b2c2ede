"""`/metrics`: what is counted, in the text format of Prometheus. It looks; nothing is counted for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from aiohttp import web

from mcpdesk.transports.base import Site
from mcpdesk.transports.figure import Figure, Sample

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from mcpdesk.transports.http.connections import HttpConnections

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "mcpdesk_"


async def metrics(site: Site, listener: HttpConnections, sessions: int) -> web.Response:
    """All figures of a core, and of the listener that was asked."""
    figures = [*site.figures(), *_of_http(listener, sessions)]
    # The library takes a tenth of a second to import, once; calls must not wait for that.
    text = await asyncio.to_thread(written, figures)
    return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE})


def written(figures: Iterable[Figure]) -> bytes:
    """The figures, and those of the process, as Prometheus reads them."""
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
    """Hands figures over in the library's own form."""

    def __init__(self, figures: Iterable[Figure]) -> None:
        self._figures = figures

    def collect(self) -> Iterable[Metric]:
        """One family for each."""
        return map(_family, self._figures)


def _family(figure: Figure) -> Metric:
    from prometheus_client.core import Metric

    name = PREFIX + figure.name
    family = Metric(name.removesuffix("_total"), figure.help, figure.kind)
    for sample in figure.samples:
        family.add_sample(name + sample.suffix, dict(sample.labels), sample.value)
    return family
