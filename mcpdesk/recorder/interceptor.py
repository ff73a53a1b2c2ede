"""Base class of an object that sees the messages of a core, and may change, answer, delay or drop them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from mcpdesk.auth.principal import Principal
    from mcpdesk.link.feature_part import FeaturePart, Intent
    from mcpdesk.protocol.jsonrpc import Id, JSONObject
    from mcpdesk.protocol.outlet import Answer, Outlet
    from mcpdesk.recorder.capture.recording import Recording

Accept: TypeAlias = "Callable[[Any, Outlet, Mapping[str, str] | None, Principal | None], Answer]"
"""Function that handles one decoded message, like `Conversation.accept_message`."""
NOT_DONE = "This core lacks the feature that can do this."
GiveAnswer: TypeAlias = "Callable[[JSONObject], Awaitable[object]]"
"""Function that receives the response to a question of a server."""


class InterceptedCore(NamedTuple):
    """Members of a core, or of a tap, that an interceptor may use."""

    recording: Recording
    report: Callable[[str], object]
    """Shows a message to a person."""
    on_switch: Callable[[], object] = lambda: None
    """The interceptor must call this function after `is_active` may have changed. The core reads `is_active`
    itself after the creation of an interceptor.
    """
    disconnect: Callable[[int], object] = lambda connection: None
    """Disconnects the client with a connection number."""
    on_part: Callable[[], object] = lambda: None
    """The interceptor must call this function after a change of `parts`."""
    options: Mapping[str, str] = MappingProxyType({})
    """Values of the command line options of features, by name."""


class MessageQueue:
    """Queue for a server's messages about one request, or for its messages about no request."""

    def __init__(self, deliver: Callable[[bytes], object]) -> None:
        """`deliver` is called with each message that is passed on."""
        self._deliver = deliver

    @property
    def has_messages(self) -> bool:
        """True if messages wait in this queue."""
        return False

    def put(self, message: bytes) -> None:
        """Add one message. It is delivered now or later."""
        self._deliver(message)

    async def wait_until_empty(self) -> None:
        """Wait until the queue is empty."""

    def close(self) -> list[bytes]:
        """Discard and return the waiting messages, because the recipient has disconnected."""
        return []


class Interceptor:
    """Passes every message on. A subclass overrides the methods for the messages that it intercepts.

    While `is_active` is False, the core does not call the methods for messages. Only the handlers that
    `wrap_handler` has returned may still receive messages. All methods must be called on the core's loop.
    `parts` may be read on any thread.

    A core may have several interceptors, which pass messages on to each other.
    """

    @property
    def is_active(self) -> bool:
        """True if messages must be given to the interceptor."""
        return False

    @property
    def needs_answers(self) -> bool:
        """True if the interceptor needs complete answers."""
        return False

    @property
    def parts(self) -> Sequence[FeaturePart]:
        """States for front ends. Each state lists the intents of front ends that belong to it."""
        return ()

    def do(self, intent: Intent[Any]) -> Any:
        """Carry out an intent of a front end. Return its result. Raises: ValueError if it is not possible."""
        raise ValueError(NOT_DONE)

    def reset(self) -> None:
        """Stop intercepting messages, and let all waiting messages continue."""

    def wrap_handler(self, connection: int, plain: Accept) -> Accept:
        """Return the handler of client messages that replaces `plain` while messages of a connection may be
        intercepted.

        The handler must pass messages that it does not intercept to `plain`. It may receive messages while
        `is_active` is False, because another interceptor may be active.

        An interceptor receives messages to hosted servers only through this handler. For messages to upstream
        servers, and for those of taps, the other methods are called directly.
        """
        return plain

    async def request(
        self, connection: int, message: JSONObject, in_session: bool = False
    ) -> tuple[JSONObject | None, JSONObject | None]:
        """Intercept a request. `in_session` is True if the request belongs to a session of the handshake era.

        Return a pair: the request to handle and None, or None and the answer to give. If both are None, the
        request was dropped. Raises: SessionLost if HTTP must report a lost session.
        """
        return message, None

    async def answer(
        self, connection: int, request: JSONObject, arrival: float, answer: JSONObject
    ) -> JSONObject | None:
        """Intercept the answer to a request that arrived at Unix time `arrival`. Return the answer to send.

        None if it was dropped. Raises: AnswerCut if the connection must break in the middle of the answer.
        """
        return answer

    async def one_way(self, connection: int, message: JSONObject) -> JSONObject | None:
        """Intercept a notification of a client, or its reply to a question.

        Return the message to send, or None if it was dropped.
        """
        return message

    async def sent(
        self, connection: int, data: bytes, answer: GiveAnswer, of: Id | None = None
    ) -> bytes | None:
        """Intercept a message of a server about the request `of`, or about no request if `of` is None.

        Return the message to send, or None to send nothing. `answer` is called if a person answers a question
        instead of the client.
        """
        return data

    def open_queue(
        self, connection: int, deliver: Callable[[bytes], object], answer: GiveAnswer, of: Id | None = None
    ) -> MessageQueue:
        """Return a queue for a server's messages about the request `of`, or about no request if `of` is None.

        `deliver` is called with each message that is passed on. `answer` is called if a person answers a
        question instead of the client.
        """
        return MessageQueue(deliver)

    async def wait_until_disconnected(self, connection: int) -> None:
        """Wait until the client has disconnected, because its request gets no answer."""

    def forget(self, connection: int) -> None:
        """Drop the waiting messages of a connection that has ended."""

    def close(self) -> None:
        """Drop all waiting messages without an answer, because the core stops."""
