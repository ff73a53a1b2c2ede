"""Base class for objects that a feature adds to a core."""

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
    """Members of a core that the parts of features may use."""

    settings: Settings
    reports: bool
    """True if the core may send traces and metrics to a collector."""
    journal: Journal
    upstreams: Mapping[str, Upstream]
    counted: Callable[[], list[Figure]]
    """Function that returns the metrics that the core itself counts."""


class HostPart:
    """Object that a feature adds to a core. It starts and stops with the core.

    A subclass overrides the methods that it needs. They are called on the core's loop.
    """

    call_watch: CallWatch | None = None
    """Observer of calls to hosted servers, or None."""
    exchange_watch: ExchangeWatch | None = None
    """Observer of exchanges with upstream servers, or None."""

    @property
    def figures(self) -> list[Figure]:
        """Metrics that this part counts."""
        return []

    def program_over(self, server: str, program: Program) -> None:
        """Note that a background program of a server has ended."""

    async def stop(self) -> None:
        """End the work of the part. The part limits the time itself."""
