"""Measurement of one load on one server."""

from __future__ import annotations

from dataclasses import dataclass

BUSY = 0.9
DISTURBED = 0.005
"""Share of the processors' time. Where a hypervisor takes a few times as much, the slowest calls are its."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Answers (or events) a second, and what each cost the server."""

    rate: float
    cpu_us: float = 0.0
    """CPU time of the server for one answer."""
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    load_busy: float = 0.0
    """Share of a core the load itself took."""
    server_busy: float = 0.0
    """Share of a core the server took."""
    stolen: float = 0.0
    """Share of all processors' time that a hypervisor gave to others during the load, if it is reported."""

    @property
    def is_bound_by_load(self) -> bool:
        """Whether the load had no time left while the server had: then the rate is the load's own."""
        return self.load_busy > BUSY and self.server_busy < BUSY

    @property
    def is_disturbed(self) -> bool:
        """Whether the slowest calls tell about others on the same machine."""
        return self.stolen > DISTURBED
