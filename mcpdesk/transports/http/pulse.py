"""Calls that take long: clients are shown life, and those that can resume get an event id to do it with.

Who waits for the head of an answer, a proxy perhaps, does not wait for the end of the call.
"""

from __future__ import annotations

import asyncio

from mcpdesk.transports.http.stream import KEEP_ALIVE_S, PostOutlet

SWEEP_S = 0.25
NOT_SEEN = 0.0
PROMPT_S = 0.4
"""Silence, from the first sweep on, after which a call becomes a stream whose client names that form or can
take it up again. With both sweeps that is within a second."""


class Pulse:
    """The outlets of all calls under way on one listener. One timer serves them all."""

    def __init__(self) -> None:
        self._due: dict[PostOutlet, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._due)

    def watch(self, outlet: PostOutlet) -> None:
        """A call begins. Most are over before anybody needs to know since when."""
        self._due[outlet] = NOT_SEEN
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    def forget(self, outlet: PostOutlet) -> None:
        """The call is over."""
        self._due.pop(outlet, None)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for outlet, due in list(self._due.items()):
            if due == NOT_SEEN:
                self._due[outlet] = now + (PROMPT_S if outlet.is_prompt or outlet.primes else KEEP_ALIVE_S)
            elif due <= now:
                outlet.keep_alive()
                self._due[outlet] = now + KEEP_ALIVE_S
        self._timer = loop.call_later(SWEEP_S, self._sweep) if self._due else None
