"""Transport for a target that cannot be used."""

from __future__ import annotations

from collections.abc import Mapping

from mcpdesk.client.transport import ClientTransport, Receive, ServerReply
from mcpdesk.errors import CallError
from mcpdesk.protocol.jsonrpc import JSONObject


class Unusable(ClientTransport):
    """Transport for a target that cannot be used. All methods raise the reason."""

    def __init__(self, problem: str) -> None:
        self.target = ""
        self._problem = problem

    async def open(self, receive: Receive) -> None:
        """Raise CallError with the reason."""
        raise CallError(self._problem)

    async def exchange(
        self, request: JSONObject, headers: Mapping[str, str], receive: Receive
    ) -> ServerReply:
        """Raise CallError with the reason."""
        raise CallError(self._problem)

    async def send(self, message: JSONObject) -> None:
        """Raise CallError with the reason."""
        raise CallError(self._problem)

    async def close(self) -> None:
        """Do nothing, because no connection was opened."""
