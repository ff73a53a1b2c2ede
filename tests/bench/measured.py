"""Measurement of one load on one server."""

from __future__ import annotations

from dataclasses import dataclass

BUSY = 0.9
DISTURBED = 0.005
"""Share of the processors' time. If a hypervisor takes a few times as much, it causes the slowest calls."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Answers (or events) a second, and their cost for the server."""

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
        """True if the load used all of its processor and the server did not: the load limits the rate."""
        return self.load_busy > BUSY and self.server_busy < BUSY

    @property
    def is_disturbed(self) -> bool:
        """True if other programs on the machine cause the slowest calls."""
        return self.stolen > DISTURBED
