"""Ports for programs that are told theirs, beside those the system gives away by itself."""

from __future__ import annotations

import random
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
FIRST = 10_240
USUAL_END = 32_768
"""Where the system's own begin, as a rule."""


def free_port(host: str = "127.0.0.1") -> int:
    """One nobody listens on, and that nobody gets who asks for any."""
    end = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else USUAL_END
    while True:
        port = random.SystemRandom().randrange(FIRST, max(end, FIRST + 1_000))
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
        return port
