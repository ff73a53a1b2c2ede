"""Choice of the interceptor of a core, and a chain of several interceptors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from mcpdesk.features import features_with
from mcpdesk.recorder.interceptor import (
    NOT_DONE,
    Accept,
    GiveAnswer,
    InterceptedCore,
    Interceptor,
    MessageQueue,
)

if TYPE_CHECKING:
    from mcpdesk.link.feature_part import FeaturePart, Intent
    from mcpdesk.protocol.jsonrpc import Id, JSONObject


def interceptor_for(core: InterceptedCore) -> Interceptor:
    """Return the interceptor of the feature that has one, or a chain of them if several features have one.

    If no feature has one, return an interceptor that passes every message on.
    """
    candidates = (feature.interceptor(core) for feature in features_with("interceptor"))
    interceptors = [interceptor for interceptor in candidates if interceptor is not None]
    if len(interceptors) < 2:
        return interceptors[0] if interceptors else Interceptor()
    return InterceptorChain(interceptors)


class InterceptorChain(Interceptor):
    """Passes each message through several interceptors, except those that are not active.

    A message of a client passes the first interceptor first, and a message of a server the last one. If an
    interceptor drops or answers a message, the others do not receive it.
    """

    def __init__(self, interceptors: Sequence[Interceptor]) -> None:
        self._interceptors = interceptors

    @property
    def is_active(self) -> bool:
        """True if messages must be given to any of the interceptors."""
        return any(interceptor.is_active for interceptor in self._interceptors)

    @property
    def needs_answers(self) -> bool:
        """True if an active interceptor needs complete answers."""
        return any(interceptor.is_active and interceptor.needs_answers for interceptor in self._interceptors)

    @property
    def parts(self) -> Sequence[FeaturePart]:
        """States of all interceptors for front ends."""
        return [part for interceptor in self._interceptors for part in interceptor.parts]

    def do(self, intent: Intent[Any]) -> Any:
        """Carry out an intent, by the interceptor whose state lists it. Raises: ValueError."""
        for interceptor in self._interceptors:
            if any(type(intent) in part.intents for part in interceptor.parts):
                return interceptor.do(intent)
        raise ValueError(NOT_DONE)

    def reset(self) -> None:
        """Reset all interceptors."""
        for interceptor in self._interceptors:
            interceptor.reset()

    def wrap_handler(self, connection: int, plain: Accept) -> Accept:
        """Return the handler of the first interceptor, which calls those of the others and then `plain`."""
        for interceptor in reversed(self._interceptors):
            plain = interceptor.wrap_handler(connection, plain)
        return plain

    async def request(
        self, connection: int, message: JSONObject, in_session: bool = False
    ) -> tuple[JSONObject | None, JSONObject | None]:
        """Pass a request through the interceptors, until one drops or answers it."""
        for interceptor in self._interceptors:
            if interceptor.is_active:
                new_message, answer = await interceptor.request(connection, message, in_session)
                if new_message is None:
                    return None, answer
                message = new_message
        return message, None

    async def answer(
        self, connection: int, request: JSONObject, arrival: float, answer: JSONObject
    ) -> JSONObject | None:
        """Pass an answer through the interceptors, until one drops it."""
        for interceptor in reversed(self._interceptors):
            if interceptor.is_active:
                new_answer = await interceptor.answer(connection, request, arrival, answer)
                if new_answer is None:
                    return None
                answer = new_answer
        return answer

    async def one_way(self, connection: int, message: JSONObject) -> JSONObject | None:
        """Pass a notification or a reply of a client through the interceptors, until one drops it."""
        for interceptor in self._interceptors:
            if interceptor.is_active:
                new_message = await interceptor.one_way(connection, message)
                if new_message is None:
                    return None
                message = new_message
        return message

    async def sent(
        self, connection: int, data: bytes, answer: GiveAnswer, of: Id | None = None
    ) -> bytes | None:
        """Pass a message of a server through the interceptors, until one drops it."""
        for interceptor in reversed(self._interceptors):
            if interceptor.is_active:
                new_data = await interceptor.sent(connection, data, answer, of)
                if new_data is None:
                    return None
                data = new_data
        return data

    def open_queue(
        self, connection: int, deliver: Callable[[bytes], object], answer: GiveAnswer, of: Id | None = None
    ) -> MessageQueue:
        """Return the queue of the last interceptor, which delivers to those of the others."""
        queues: list[MessageQueue] = []
        for interceptor in self._interceptors:
            queue = interceptor.open_queue(connection, deliver, answer, of)
            queues.append(queue)
            deliver = partial(_put, interceptor, queue, deliver)
        return _QueueChain(queues, deliver)

    async def wait_until_disconnected(self, connection: int) -> None:
        """Wait until the client has disconnected, because its request gets no answer."""
        # All interceptors wait at the same time, because a client disconnects only once.
        waits = (interceptor.wait_until_disconnected(connection) for interceptor in self._interceptors)
        await asyncio.gather(*waits)

    def forget(self, connection: int) -> None:
        """Let all interceptors drop the waiting messages of a connection that has ended."""
        for interceptor in self._interceptors:
            interceptor.forget(connection)

    def close(self) -> None:
        """Let all interceptors drop all waiting messages, because the core stops."""
        for interceptor in self._interceptors:
            interceptor.close()


class _QueueChain(MessageQueue):
    """Queues of several interceptors for the same messages."""

    def __init__(self, queues: Sequence[MessageQueue], put: Callable[[bytes], object]) -> None:
        """The last one of `queues` receives a message first. `put` adds a message to it."""
        super().__init__(put)
        self._queues = queues

    @property
    def has_messages(self) -> bool:
        """True if messages wait in one of the queues."""
        return any(queue.has_messages for queue in self._queues)

    async def wait_until_empty(self) -> None:
        """Wait until all queues are empty."""
        for queue in reversed(self._queues):
            await queue.wait_until_empty()

    def close(self) -> list[bytes]:
        """Discard and return the waiting messages, oldest first."""
        return [message for queue in self._queues for message in queue.close()]


def _put(
    interceptor: Interceptor, queue: MessageQueue, deliver: Callable[[bytes], object], message: bytes
) -> None:
    """Add a message to a queue, or deliver it if the interceptor of the queue is not active.

    If earlier messages wait in the queue, the message must not overtake them.
    """
    if interceptor.is_active or queue.has_messages:
        queue.put(message)
    else:
        deliver(message)
