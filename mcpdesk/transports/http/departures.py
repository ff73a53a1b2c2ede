"""Answers that are made in one turn of the loop leave right behind each other.

To write to a client that sleeps is to wake it, which on a virtual machine costs as much as making the answer.
One by one, the client falls asleep before the next. Together, the first wakes it and it takes them all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from mcpdesk.transports.http.ready import Ready

MOST = 32
"""Answers held; more gain nothing, and the first would wait for a call that takes long."""
_log = logging.getLogger(__name__)


class Departures:
    """Those of one listener."""

    def __init__(self) -> None:
        self._held: list[tuple[Ready, asyncio.Transport | None]] = []
        self._is_gathering = False

    def gather(self, work: Callable[[], object]) -> None:
        """Hold what is sent while `work` runs until its end."""
        self._is_gathering = True
        try:
            work()
        finally:
            self._is_gathering = False
            self.let_go()

    def send(self, answer: Ready, transport: asyncio.Transport | None) -> None:
        """Send an answer, when work is gathered at its end or with `MOST` others; a large one leaves at once.

        Raises: ConnectionError when the peer is gone, if it was not held.
        """
        if self._is_gathering and answer.is_small:
            self._held.append((answer, transport))
            if len(self._held) >= MOST:
                self.let_go()
        else:
            answer.write_to(transport)

    def let_go(self) -> None:
        """Write what is held; then do what clients need not wait for."""
        held, self._held = self._held, []
        for answer, transport in held:
            try:
                answer.hand_over(transport)
            except ConnectionError:
                _log.debug("a client left before its answer")
            except Exception:  # whatever it was: the others' answers leave, and who gets none does not wait
                _log.exception("an answer could not be sent")
                if transport is not None:
                    transport.close()
        for answer, _ in held:
            try:
                answer.conclude()
            except Exception:
                _log.exception("an answer was sent, but not concluded")
