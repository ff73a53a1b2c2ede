"""What a core's loop waits with: where requests follow each other closely, it stays awake between them.

A client that asks one thing after another comes back within some 50 us. To fall asleep until then and to be
woken takes longer than most requests, and a processor that went idle begins with cold caches: on a virtual
machine looking on takes less CPU time a request than sleeping.
"""

from __future__ import annotations

import os
from selectors import DefaultSelector, SelectorKey
from time import perf_counter

LOOK_S = 0.0001
"""How long to look on before sleeping."""
NAP_S = 0.0002
"""A wait that was over so soon was hardly worth sleeping."""


class AlertSelector(DefaultSelector):
    """Looks on a moment before it sleeps if the last wait soon brought something; a longer one ends that."""

    def __init__(self) -> None:
        super().__init__()
        self._is_lively = False

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """As any selector: what is ready, after `timeout` seconds at most."""
        select = super().select
        if timeout is not None and timeout <= 0:
            return select(timeout)
        began = now = perf_counter()
        if self._is_lively:
            until = began + (LOOK_S if timeout is None else min(timeout, LOOK_S))
            while now < until:
                if ready := select(0):
                    return ready
                now = perf_counter()
        ready = select(None if timeout is None else max(0.0, timeout - (now - began)))
        # A timer that was due tells nothing of a client.
        self._is_lively = bool(ready) and perf_counter() - began < NAP_S
        return ready


def is_worthwhile() -> bool:
    """Whether a client can go on while a processor is kept busy with waiting for it."""
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return len(usable) > 1
