"""Answers that their peers do not read: a bound for all connections of this process together."""

from __future__ import annotations

import logging
import time
from typing import Protocol

from mcpdesk.transports.pipe import WRITE_LIMIT

log = logging.getLogger(__name__)


class Sender(Protocol):
    """One way out to a peer."""

    @property
    def unread(self) -> int:
        """Bytes that wait for the peer to read them."""

    def give_up(self) -> None:
        """Drop them, and the connection."""


class Unread:
    """All senders that hold something. Whoever writes much asks for a `check` afterwards."""

    def __init__(self, most: int = WRITE_LIMIT) -> None:
        self.most = most
        """Bytes they may hold together; beyond it the slowest readers are given up."""
        self._senders: dict[Sender, tuple[int, float]] = {}
        """What each held at the latest check, and since when it has not read anything."""

    def add(self, sender: Sender) -> None:
        """Count a sender from now on. Harmless when called twice."""
        self._senders.setdefault(sender, (0, 0.0))

    def remove(self, sender: Sender) -> None:
        """Count it no more. Harmless when called twice."""
        self._senders.pop(sender, None)

    def check(self) -> None:
        """Give up those that have read nothing for longest, as long as all hold too much."""
        now, total = time.monotonic(), 0
        for sender, (before, since) in list(self._senders.items()):
            size = sender.unread
            total += size
            self._senders[sender] = size, since if before and size >= before else now
        while total > self.most:
            slowest = min((each for each in self._senders if self._senders[each][0]), key=self._waits_since)
            size = self._senders[slowest][0]
            log.warning("ended a connection that left %d bytes of answers unread: all hold too many", size)
            self.remove(slowest)
            slowest.give_up()
            total -= size

    def _waits_since(self, sender: Sender) -> tuple[float, int]:
        size, since = self._senders[sender]
        return since, -size


UNREAD = Unread()
"""That of this process."""
