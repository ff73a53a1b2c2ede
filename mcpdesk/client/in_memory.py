"""Transport to a server in this process, which exchanges frames in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from mcpdesk.client.answers.pending_replies import PendingReplies
from mcpdesk.client.transport import ClientTransport, Receive, ServerReply
from mcpdesk.errors import CallError
from mcpdesk.protocol import codec
from mcpdesk.protocol.jsonrpc import JSONObject

if TYPE_CHECKING:
    from mcpdesk.hosting.channel import FrameChannel

Write: TypeAlias = Callable[[Sequence[bytes]], None]
"""Function that the server calls with its frames for this client."""


class InMemory(ClientTransport):
    """Connection in memory. Must be used on the event loop of the server."""

    def __init__(
        self,
        connect: Callable[[Write], FrameChannel],
        target: str,
        *,
        before_send: Callable[[], None] = lambda: None,
    ) -> None:
        """`connect` opens the channel to the server. `before_send` runs before every frame that is sent."""
        self.target = target
        self._replies = PendingReplies()
        self._receive: Receive = lambda incoming: None
        self._channel = connect(self._deliver)
        self._before_send = before_send

    async def open(self, receive: Receive) -> None:
        """Store `receive`. The channel is already open."""
        self._receive = receive

    async def exchange(
        self, request: JSONObject, headers: Mapping[str, str], receive: Receive
    ) -> ServerReply:
        """Send a request. Raises: LocalProtocolError if the params cannot be encoded as JSON.

        `headers` are not sent. `receive` is not used: the function given to `open` handles other messages.
        """
        frame = codec.encode(request)
        with self._replies.pending_reply(request["id"]) as reply:
            self._before_send()
            self._channel.receive(frame)  # the server's end of the channel
            return await reply

    async def send(self, message: JSONObject) -> None:
        """Send a notification or a response."""
        self._before_send()
        self._channel.receive(codec.encode(message))

    async def until_ended(self) -> None:
        """Wait until the connection ends."""
        await self._replies.until_ended()

    async def close(self) -> None:
        """Close the connection."""
        self._channel.close("the caller has left")
        self._replies.fail(CallError("closed while the call was running"))

    def _deliver(self, frames: Sequence[bytes]) -> None:
        for frame in frames:
            self._replies.deliver(frame, self._receive)
