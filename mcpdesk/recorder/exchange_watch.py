"""Base classes of an observer that follows requests to upstream servers, for example to trace them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcpdesk.protocol.jsonrpc import JSONObject
    from mcpdesk.recorder.record import ConnectionInfo


class WatchedExchange(ABC):
    """A message or batch sent to a server, and the messages that come back."""

    @abstractmethod
    def came_back(self, message: object) -> None:
        """Handle a message that the server sent in response."""

    @abstractmethod
    def over(self, status: int, may_go_on: bool) -> None:
        """End the exchange with the HTTP `status`, or 0 if it was cut off.

        With `may_go_on`, the client can return for the missing answers.
        """


class ExchangeWatch(ABC):
    """Follows exchanges with upstream servers. Used on the core's loop. Its methods return quickly."""

    @abstractmethod
    def follow(
        self, info: ConnectionInfo, message: object, headers: Mapping[str, str] | None = None
    ) -> WatchedExchange:
        """Follow a message or batch that a client sends. `message` is None if the client only listens."""

    @abstractmethod
    def ask(self, info: ConnectionInfo, request: JSONObject) -> tuple[JSONObject, WatchedExchange]:
        """Follow a request of the desk. Return the request to send."""

    @abstractmethod
    def came_back(self, info: ConnectionInfo, message: object) -> None:
        """Handle a message of a server that is not tied to one exchange."""

    @abstractmethod
    def left(self, connection: int) -> None:
        """End the exchanges of a connection that was lost."""
