"""All parts that features added to one core."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, TypeVar

from mcpdesk.features import features_with
from mcpdesk.hosting.host_part import HostPart, StartedCore

if TYPE_CHECKING:
    from mcpdesk.jobs.programs import Program
    from mcpdesk.link.feature_part import FeaturePart, Intent
    from mcpdesk.recorder.exchange_watch import ExchangeWatch
    from mcpdesk.server.calls.call_observer import CallWatch
    from mcpdesk.transports.metric import MetricFamily

Kind = TypeVar("Kind", bound="FeaturePart")


class HostParts:
    """All parts of one core, in the order of their start."""

    def __init__(self) -> None:
        self._parts: list[HostPart] = []

    def start(self, core: StartedCore) -> None:
        """Create the parts of all features."""
        for feature in features_with("host_parts"):
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
    def figures(self) -> list[MetricFamily]:
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
