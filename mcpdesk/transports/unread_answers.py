"""Limit for the answers that this process keeps in memory because clients have not read them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Protocol

from mcpdesk.errors import AnswerRefused
from mcpdesk.protocol.jsonrpc import ErrorCode

log = logging.getLogger(__name__)

WRITE_LIMIT = 256 << 20
"""If a connection has more bytes of unread answers than this, the connection is closed."""
WAIT_S = 15.0
"""Seconds that a large answer waits for memory before it is refused."""
WAITING_DIVISOR = 4
"""Answers that wait for memory may have 1/WAITING_DIVISOR of the memory limit in total.

Their results are already in memory, so they must be limited as well.
"""
PRESSURE_S = 10.0
"""Seconds after a refusal in which clients that read nothing are disconnected sooner."""


class Sender(Protocol):
    """Connection with answers that its peer has not read yet."""

    @property
    def unread(self) -> int:
        """Number of bytes that the peer has not read."""

    def give_up(self) -> None:
        """Discard the answers and close the connection."""


class UnreadAnswers:
    """Limits the total size of the unread answers of all connections.

    A large answer reserves memory before it is encoded. Call `check` after writing other large data. Values
    that tools hold while they run are not counted.
    """

    def __init__(self, limit: int = WRITE_LIMIT) -> None:
        self.limit = limit
        """Maximum bytes in total."""
        self.cut_count = 0
        """Number of connections that were closed because their client did not read."""
        self.refused_count = 0
        """Number of answers that were refused because memory was short."""
        self.waiting_bytes = 0
        """Size in bytes of the answers that wait for memory."""
        self._reserved_bytes = 0
        """Number of bytes reserved on pipes for answers that are not written yet."""
        self._pressure_end = 0.0
        """Monotonic time until which memory counts as short after the latest refusal."""
        self._senders: dict[Sender, tuple[int, float]] = {}
        """Unread bytes at the latest check, and monotonic time when the peer last read, by sender."""
        self._waiting: dict[asyncio.Future[None], tuple[int, Callable[[int], None]]] = {}
        """Answers that wait for memory, oldest first: the size of each, and the function that reserves it."""

    @property
    def held_bytes(self) -> int:
        """Number of bytes in use or reserved."""
        return self._reserved_bytes + sum(sender.unread for sender in self._senders)

    @property
    def is_pressed(self) -> bool:
        """True if an answer waits for memory, or was refused within `PRESSURE_S` seconds."""
        return bool(self._waiting) or time.monotonic() < self._pressure_end

    def add(self, sender: Sender) -> None:
        """Start counting a sender. A second call does nothing."""
        self._senders.setdefault(sender, (0, 0.0))

    def remove(self, sender: Sender) -> None:
        """Stop counting a sender. A second call does nothing."""
        self._senders.pop(sender, None)
        self.wake()

    def progressed(self, sender: Sender) -> None:
        """Record that the peer of a sender has read data, even if the number of unread bytes is the same."""
        if sender in self._senders:
            self._senders[sender] = (sender.unread, time.monotonic())

    def has_room(self, size: int) -> bool:
        """Return True if memory for `size` more bytes is available."""
        return self.held_bytes + size <= self.limit

    async def reserve(self, size: int, add_reserved: Callable[[int], None]) -> None:
        """Call `add_reserved` with the size of an answer when memory is available.

        To release the memory, `add_reserved` is called with the negative size. Raises: AnswerRefused if no
        memory becomes available in time.
        """
        if not self._waiting and self.has_room(size):
            add_reserved(size)
            return
        if size > self.limit or self.waiting_bytes + size > self.limit // WAITING_DIVISOR:
            raise self._refusal(size)
        memory_future = asyncio.get_running_loop().create_future()
        self._waiting[memory_future] = (size, add_reserved)
        self.waiting_bytes += size
        try:
            await asyncio.wait({memory_future}, timeout=WAIT_S)
        except asyncio.CancelledError:
            if memory_future.done():
                add_reserved(-size)
                self.wake()
            raise
        finally:
            if self._waiting.pop(memory_future, None) is not None:
                self.waiting_bytes -= size
        if not memory_future.done():
            raise self._refusal(size)

    def promise(self, size: int) -> None:
        """Count an answer that a pipe will write soon. A negative size removes an answer from the count."""
        self._reserved_bytes += size

    def wake(self) -> None:
        """Give available memory to the waiting answers, oldest first."""
        while self._waiting:
            memory_future, (size, add_reserved) = next(iter(self._waiting.items()))
            if not self.has_room(size):
                return
            del self._waiting[memory_future]
            self.waiting_bytes -= size
            add_reserved(size)
            memory_future.set_result(None)

    def check(self) -> None:
        """While the total is too large, disconnect the senders whose peers have read nothing for longest."""
        now, total = time.monotonic(), self._reserved_bytes
        for sender, (last_size, last_read) in list(self._senders.items()):
            size = sender.unread
            total += size
            self._senders[sender] = size, last_read if last_size and size >= last_size else now
        while total > self.limit:
            senders = [each for each in self._senders if self._senders[each][0]]
            if not senders:
                break
            slowest = min(senders, key=self._slowness)
            size = self._senders[slowest][0]
            self.count_cut("a connection", size, ": all clients together exceed the limit")
            self._senders.pop(slowest)
            slowest.give_up()
            total -= size
        self.wake()

    def count_cut(self, connection_text: str, size: int, reason: str = "") -> None:
        """Count and log a connection that was closed because its client did not read."""
        self.cut_count += 1
        log.warning("ended %s that left %d bytes of answers unread%s", connection_text, size, reason)

    def _refusal(self, size: int) -> AnswerRefused:
        self.refused_count += 1
        self._pressure_end = time.monotonic() + PRESSURE_S
        reason = (
            f"an answer of {size} bytes is not sent: clients have not read {self.held_bytes} bytes of "
            f"others, and {self.limit} are allowed (unread_answers_max_bytes). The request was carried out. "
            "hint: read answers faster, ask for less at a time, or try again later"
        )
        log.warning("%s", reason)
        return AnswerRefused(ErrorCode.INTERNAL_ERROR, reason)

    def _slowness(self, sender: Sender) -> tuple[float, int]:
        """Return a sort key: the sender whose peer has not read for longest comes first."""
        size, last_read = self._senders[sender]
        return last_read, -size


UNREAD = UnreadAnswers()
"""Unread answers of this process."""
