"""Spans and metrics for an OpenTelemetry collector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcpdesk.feature import Feature

if TYPE_CHECKING:
    from mcpdesk.hosting.host_part import HostPart, StartedCore


class TelemetryFeature(Feature):
    """A sender of call records, if a collector is configured."""

    def host_parts(self, core: StartedCore) -> Sequence[HostPart]:
        """Return the sender. Raises: DeskUserError for a wrong configuration."""
        if not (core.sends_telemetry and core.settings.otel_endpoint):
            return ()
        from mcpdesk.features.telemetry.telemetry import Telemetry

        return [Telemetry(core.settings, core.journal, core.upstreams, core.core_figures)]


FEATURE = TelemetryFeature()
