"""Queue for the messages of a server while a person holds some of them. The queue preserves their order."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from mcpdesk.protocol.outlet import Outlet
from mcpdesk.recorder.interceptor import MessageQueue

MAX_QUEUED_MESSAGES = 1_000
"""Maximum number of messages in a queue. If the queue is full, a new message overtakes the queued ones."""
_log = logging.getLogger(__name__)


class HeldQueue(MessageQueue):
    """Queue of a server's messages about one request, or of its messages that belong to no request."""

    def __init__(
        self,
        must_hold: Callable[[bytes], bool],
        hold: Callable[[bytes], Awaitable[bytes | None]],
        deliver: Callable[[bytes], object],
    ) -> None:
        """Create an empty queue.

        `must_hold(message)` returns True if the message must be held. `hold(message)` waits for the person's
        decision, and returns the message to send, or None to send nothing.
        """
        super().__init__(deliver)
        self._must_hold = must_hold
        self._hold = hold
        self._queue: deque[bytes] = deque()
        self._held_message: bytes | None = None
        """Message that is held at present, or None."""
        self._queue_task: asyncio.Task[None] | None = None

    @property
    def has_messages(self) -> bool:
        """True if a message is held or waits in the queue."""
        return self._queue_task is not None

    def put(self, message: bytes) -> None:
        """Deliver one message now.

        If this message or an earlier one must be held, add it to the queue instead.
        """
        must_queue = self.has_messages or self._must_hold(message)
        if not must_queue or len(self._queue) >= MAX_QUEUED_MESSAGES:
            self._deliver(message)
            return
        self._queue.append(message)
        if self._queue_task is None:
            self._queue_task = asyncio.create_task(self._process_queue())

    async def wait_until_empty(self) -> None:
        """Wait until no message is held or queued."""
        while self._queue_task is not None:
            await asyncio.wait({self._queue_task})

    def close(self) -> list[bytes]:
        """Discard and return the waiting messages, because the recipient has disconnected."""
        messages = list(self._queue)
        if self._held_message is not None:
            messages.insert(0, self._held_message)
        self._queue.clear()
        if self._queue_task is not None:
            self._queue_task.cancel()
            # A task that never started does not reset these attributes.
            self._queue_task = self._held_message = None
        return messages

    async def _process_queue(self) -> None:
        """Hold and deliver the messages of the queue until it is empty."""
        try:
            while self._queue:
                message = self._held_message = self._queue.popleft()
                try:
                    released = await self._hold(message) if self._must_hold(message) else message
                    self._held_message = None
                    if released is not None:
                        self._deliver(released)
                except Exception:  # later messages must still be delivered, in their order
                    _log.exception("a held message could not be delivered")
        finally:
            if self._queue_task is asyncio.current_task():
                self._queue_task = self._held_message = None


class HeldOutlet:
    """Outlet of one request that sends messages through a queue."""

    def __init__(self, outlet: Outlet, queue: HeldQueue) -> None:
        """`queue` must deliver its messages to `outlet`."""
        self._outlet = outlet
        self._queue = queue

    @property
    def may_send(self) -> bool:
        """True if messages can reach the peer."""
        return self._outlet.may_send

    @property
    def must_drain(self) -> bool:
        """True if `drain` must be called before the next message."""
        return self._queue.has_messages or self._outlet.must_drain

    def send(self, message: bytes) -> None:
        """Send one message, or queue it."""
        if self._outlet.may_send:
            self._queue.put(message)

    async def drain(self) -> None:
        """Wait for the queued messages, and then until the peer has read enough."""
        await self._queue.wait_until_empty()
        await self._outlet.drain()

    async def reserve(self, size: int) -> None:
        """Wait until memory for an answer of this size in bytes is available. Raises: AnswerRefused."""
        await self._outlet.reserve(size)

    def keep_alive(self) -> None:
        """Send a keep-alive on the connection."""
        self._outlet.keep_alive()

    async def close_stream(self, retry_ms: int) -> bool:
        """Close the connection of a stream that the client can resume."""
        await self._queue.wait_until_empty()
        return await self._outlet.close_stream(retry_ms)

    async def cut_off(self, answer: bytes) -> bool:
        """Write the first half of an answer and break the connection."""
        return await self._outlet.cut_off(answer)
