"""Base classes for an observer of the exchanges with upstream servers, for example for tracing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcpdesk.protocol.jsonrpc import JSONObject
    from mcpdesk.recorder.record import ConnectionInfo


class WatchedExchange(ABC):
    """Message or batch that was sent to a server, and the messages that the server sends in response."""

    @abstractmethod
    def handle_server_message(self, message: object) -> None:
        """Handle a message that the server sent in response."""

    @abstractmethod
    def end(self, status: int, can_continue: bool) -> None:
        """End the exchange with an HTTP status, or 0 if it was interrupted.

        `can_continue` is True if the client can still fetch missing answers.
        """


class ExchangeWatch(ABC):
    """Observer of exchanges with upstream servers. It is called on the core's loop and must return
    quickly.
    """

    @abstractmethod
    def follow(
        self, info: ConnectionInfo, message: object, headers: Mapping[str, str] | None = None
    ) -> WatchedExchange:
        """Follow a message or batch of a client.

        `message` is None if the client only opens a stream to listen.
        """

    @abstractmethod
    def ask(self, info: ConnectionInfo, request: JSONObject) -> tuple[JSONObject, WatchedExchange]:
        """Follow a request of the desk.

        Return the request to send, which may be changed, and its observer.
        """

    @abstractmethod
    def handle_server_message(self, info: ConnectionInfo, message: object) -> None:
        """Handle a message of a server that belongs to no single exchange."""

    @abstractmethod
    def connection_lost(self, connection: int) -> None:
        """End the exchanges of a connection that was lost."""
