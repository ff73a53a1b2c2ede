"""Ports for programs that need a fixed one, outside the range that the system assigns."""

from __future__ import annotations

import random
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
FIRST = 10_240
USUAL_END = 32_768
"""Usual begin of the range that the system assigns."""


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that has no listener and that the system does not assign."""
    end = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else USUAL_END
    while True:
        port = random.SystemRandom().randrange(FIRST, max(end, FIRST + 1_000))
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
        return port
