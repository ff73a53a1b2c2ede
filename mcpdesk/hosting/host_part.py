"""Objects that features add to a core."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from mcpdesk.features import offering

if TYPE_CHECKING:
    from mcpdesk.auth.operator import Operator
    from mcpdesk.hosting.journal import Journal
    from mcpdesk.jobs.programs import Program
    from mcpdesk.link.feature_part import FeaturePart, Intent
    from mcpdesk.recorder.exchange_watch import ExchangeWatch
    from mcpdesk.server.calls.call_observer import CallWatch
    from mcpdesk.settings import Settings
    from mcpdesk.transports.http.http_service import HttpService
    from mcpdesk.transports.metric import Figure
    from mcpdesk.upstream.upstream import Upstream

Kind = TypeVar("Kind", bound="FeaturePart")


class StartedCore(NamedTuple):
    """Members of a core that the parts of features may use."""

    settings: Settings
    reports: bool
    """True if the core may send traces and metrics to a collector."""
    journal: Journal
    upstreams: Mapping[str, Upstream]
    counted: Callable[[], list[Figure]]
    """Function that returns the metrics that the core itself counts."""
    operator: Operator
    http: Callable[[], HttpService | None]
    """Function that returns the HTTP service, or None if the core does not listen. For any thread."""


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
        """Carry out a request of a front end. Return its result. Raises: ValueError."""
        raise NotImplementedError

    @property
    def figures(self) -> list[Figure]:
        """Metrics that this part counts."""
        return []

    def program_over(self, server: str, program: Program) -> None:
        """Note that a background program of a server has ended."""

    async def stop(self) -> None:
        """End the work of the part. The part limits the time itself."""


class HostParts:
    """All parts of one core, in the order of their start."""

    def __init__(self) -> None:
        self._parts: list[HostPart] = []

    def start(self, core: StartedCore) -> None:
        """Create the parts of all features."""
        for feature in offering("host_parts"):
            self._parts += feature.host_parts(core)

    @property
    def call_watch(self) -> CallWatch | None:
        """Observer of calls to hosted servers, or None."""
        return next((part.call_watch for part in self._parts if part.call_watch), None)

    @property
    def exchange_watch(self) -> ExchangeWatch | None:
        """Observer of exchanges with upstream servers, or None."""
        return next((part.exchange_watch for part in self._parts if part.exchange_watch), None)

    @property
    def figures(self) -> list[Figure]:
        """Metrics that the parts count."""
        return [figure for part in self._parts for figure in part.figures]

    def program_over(self, server: str, program: Program) -> None:
        """Note that a background program of a server has ended."""
        for part in self._parts:
            part.program_over(server, program)

    def state(self, kind: type[Kind]) -> Kind | None:
        """Return the state of one kind. None if no part has it. May be called on any thread."""
        states = (part.link_part for part in self._parts)
        return next((state for state in states if isinstance(state, kind)), None)

    def for_intent(self, intent: Intent[Any]) -> HostPart | None:
        """Return the part that carries out a request of a front end, or None."""
        for part in self._parts:
            if (state := part.link_part) is not None and type(intent) in state.intents:
                return part
        return None

    async def stop(self) -> None:
        """Stop the parts, the last one first. If one fails, the others are still stopped."""
        async with AsyncExitStack() as stack:
            for part in self._parts:
                stack.push_async_callback(part.stop)
