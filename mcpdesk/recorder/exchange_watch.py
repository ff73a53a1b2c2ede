"""Base classes of an observer that follows requests to upstream servers, for example to trace them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcpdesk.protocol.jsonrpc import JSONObject
    from mcpdesk.recorder.record import ConnectionInfo


class WatchedExchange:
    """A message or batch sent to a server, and the messages that come back."""

    def came_back(self, message: object) -> None:
        """Handle a message that the server sent in response."""
        raise NotImplementedError

    def over(self, status: int, may_go_on: bool) -> None:
        """End the exchange with the HTTP `status`, or 0 if it was cut off.

        With `may_go_on`, the client can return for the missing answers.
        """
        raise NotImplementedError


class ExchangeWatch:
    """Follows exchanges with upstream servers. Used on the core's loop. Its methods return quickly."""

    def follow(
        self, info: ConnectionInfo, message: object, headers: Mapping[str, str] | None = None
    ) -> WatchedExchange:
        """Follow a message or batch that a client sends; None if the client only listens."""
        raise NotImplementedError

    def ask(self, info: ConnectionInfo, request: JSONObject) -> tuple[JSONObject, WatchedExchange]:
        """Follow a request of the desk. Return the request to send."""
        raise NotImplementedError

    def came_back(self, info: ConnectionInfo, message: object) -> None:
        """Handle a message of a server that is not tied to one exchange."""
        raise NotImplementedError

    def left(self, connection: int) -> None:
        """End the exchanges of a connection that was lost."""
        raise NotImplementedError
