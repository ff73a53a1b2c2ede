"""Client transport of a command to the process of an open connection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mcpdesk.cli.printing import CANNOT_CONNECT, print_message
from mcpdesk.client.transport import Incoming, Receive, ServerReply
from mcpdesk.client.unix_pipe import UnixPipe
from mcpdesk.errors import CallError, DeskUserError
from mcpdesk.features.open_connections.relay_messages import FAILURE, NOTICE, error_of
from mcpdesk.protocol.jsonrpc import JSONObject

if TYPE_CHECKING:
    from socket import socket


class RelayClient(UnixPipe):
    """Transport over the socket of an open connection. Prints the notices of the process on stderr."""

    def __init__(self, connection: socket, name: str) -> None:
        super().__init__(connection, name)
        self.ended = f"the open connection {name!r} has ended"

    async def open(self, receive: Receive) -> None:
        """Start to read messages. Raises: CallError if the connection has ended."""

        def print_or_receive(incoming: Incoming) -> None:
            message = incoming.message
            if message is not None and message.get("method") == NOTICE:
                params = message.get("params")
                print_message(str(params.get("text")) if isinstance(params, dict) else "")
                return
            receive(incoming)

        await super().open(print_or_receive)

    async def exchange(
        self, request: JSONObject, headers: Mapping[str, str], receive: Receive
    ) -> ServerReply:
        """Send a request and wait for its reply.

        Raises: DeskUserError if the server did not answer, or if the open connection has ended.
        """
        with self._replacing_end_error():
            reply = await super().exchange(request, headers, receive)
        failure = reply.message.get(FAILURE) if isinstance(reply.message, dict) else None
        if isinstance(failure, dict):
            raise error_of(failure)
        return reply

    async def until_ended(self) -> None:
        """Wait until the connection ends. Raises: DeskUserError."""
        with self._replacing_end_error():
            await super().until_ended()

    @contextmanager
    def _replacing_end_error(self) -> Iterator[None]:
        """Replace the error that reports the end of the process, because the server did not cause the end."""
        try:
            yield
        except CallError as error:
            if error is not self._end_error:
                raise
            hint = "`mcpdesk ps` lists open connections, and `mcpdesk up` opens it again."
            message = f"{self.ended[0].upper()}{self.ended[1:]}."
            raise DeskUserError(message, hint, CANNOT_CONNECT, next_command="mcpdesk ps") from None
