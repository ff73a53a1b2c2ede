"""Spans and metrics for an OpenTelemetry collector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcpdesk.feature import Feature

if TYPE_CHECKING:
    from mcpdesk.hosting.host import Host
    from mcpdesk.hosting.host_part import HostPart


class TelemetryFeature(Feature):
    """A sender of records, if a collector is configured."""

    def host_parts(self, host: Host) -> Sequence[HostPart]:
        """Return the sender. Raises: DeskUserError for a wrong configuration."""
        if not (host.plan.reports and host.settings.otel_endpoint):
            return ()
        from mcpdesk.features.telemetry.telemetry import Telemetry

        return [Telemetry(host.settings, host.journal, host.upstreams, host.counted)]


FEATURE = TelemetryFeature()
