"""Objects that features add to a core."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from mcpdesk.auth.operator import Operator
    from mcpdesk.hosting.endpoint import HostedEndpoint
    from mcpdesk.hosting.journal import Journal
    from mcpdesk.jobs.programs import Program
    from mcpdesk.link.feature_part import FeaturePart, Intent
    from mcpdesk.recorder.capture.recording import Recording
    from mcpdesk.recorder.exchange_watch import ExchangeWatch
    from mcpdesk.recorder.interceptor import Interceptor
    from mcpdesk.server.calls.call_observer import CallWatch
    from mcpdesk.settings import Settings
    from mcpdesk.transports.metric import MetricFamily
    from mcpdesk.upstream.upstream import Upstream


class StartedCore(NamedTuple):
    """Members of a core that the parts of features may use."""

    settings: Settings
    sends_telemetry: bool
    """True if the core may send traces and metrics to a collector."""
    journal: Journal
    upstreams: Mapping[str, Upstream]
    core_figures: Callable[[], list[MetricFamily]]
    """Function that returns the metrics that the core itself counts."""
    operator: Operator
    sign_in: Callable[[], Callable[[], str] | None]
    """Function that returns the maker of sign-in links, or None if no browser can sign in over TCP. For any
    thread.
    """
    endpoints: Mapping[str, HostedEndpoint]
    """Hosted servers, by name."""
    recording: Recording
    interceptor: Callable[[], Interceptor]
    """Function that returns the interceptor of messages."""
    chosen_state: str = ""
    """State folder, if it is not the default one."""
    has_screen: bool = False
    """True for a desk with a screen in the same process."""


class HostPart:
    """Object that a feature adds to a core. It starts and stops with the core.

    A subclass overrides the methods that it needs. They are called on the core's loop.
    """

    call_watch: CallWatch | None = None
    """Observer of calls to hosted servers, or None."""
    exchange_watch: ExchangeWatch | None = None
    """Observer of exchanges with upstream servers, or None."""

    @property
    def link_part(self) -> FeaturePart | None:
        """State for front ends, or None. Its class names the intents that `do` carries out.

        May be called on any thread.
        """
        return None

    def do(self, intent: Intent[Any]) -> Any:
        """Carry out a request of a front end. Return its result. Raises: ValueError.

        Called only for the intents of `link_part`, so a part with such a state must override this method.
        """
        raise NotImplementedError

    @property
    def figures(self) -> list[MetricFamily]:
        """Metrics that this part counts."""
        return []

    def program_over(self, server: str, program: Program) -> None:
        """Note that a background program of a server has ended."""

    async def stop(self) -> None:
        """End the work of the part. The part limits the time itself."""
