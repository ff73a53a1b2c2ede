"""Base class of the parts that features add to a core."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mcpdesk.hosting.journal import Journal
    from mcpdesk.jobs.programs import Program
    from mcpdesk.recorder.exchange_watch import ExchangeWatch
    from mcpdesk.server.calls.call_observer import CallWatch
    from mcpdesk.settings import Settings
    from mcpdesk.transports.figure import Figure
    from mcpdesk.upstream.upstream import Upstream


class StartedCore(NamedTuple):
    """Members of a core that its parts use."""

    settings: Settings
    reports: bool
    """True if the core may send records to a collector."""
    journal: Journal
    upstreams: Mapping[str, Upstream]
    counted: Callable[[], list[Figure]]
    """Returns the metrics that the core counts itself."""


class HostPart:
    """A part of a core, from its start to its end. A subclass overrides what it needs. Used on the loop."""

    call_watch: CallWatch | None = None
    """Observer of calls of hosted servers."""
    exchange_watch: ExchangeWatch | None = None
    """Observer of exchanges with upstream servers."""

    @property
    def figures(self) -> list[Figure]:
        """Metrics of the part."""
        return []

    def program_over(self, server: str, program: Program) -> None:
        """Note that a background program of a server has ended."""

    async def stop(self) -> None:
        """End, within a time limit."""
