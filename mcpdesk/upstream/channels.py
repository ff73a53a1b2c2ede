"""Channels to upstream servers. A channel carries messages of clients unchanged in both directions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from mcpdesk.client.answers.large_frames import OnFrame
from mcpdesk.client.child_process import ProgramCommand, ProgramEnded, ProgramRun
from mcpdesk.client.http_transports import SseChannel
from mcpdesk.client.web_socket import SocketChannel
from mcpdesk.errors import CallError
from mcpdesk.jobs.child import GUARD
from mcpdesk.upstream.pass_through import UrlRequests
from mcpdesk.upstream.target_transport import ProgramEvents

AUTHORIZATION = "authorization"
_REQUEST_HEADERS = frozenset(
    {"accept", "cache-control", "content-encoding", "content-type", "last-event-id", "pragma"}
    | {"mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name"}
    | {"traceparent", "tracestate", "baggage"}
)
"""Names of headers that belong to one request of a client, and not to all its messages."""


class ChannelCallbacks(NamedTuple):
    """Functions that are called with the messages of a channel, and at its end."""

    on_message: OnFrame
    on_end: Callable[[CallError], None]
    """Function that is called with the reason for the end. It may be called more than once."""


class ServerChannel(Protocol):
    """Message channel to a server, for one client or several."""

    async def send(self, data: bytes) -> None:
        """Send a message. Raises: CallError if it cannot be sent."""

    async def end(self) -> None:
        """Close the channel. If the server is a program, end the program."""


class Channels(Protocol):
    """Opens channels to one server."""

    @property
    def has_lines(self) -> bool:
        """True if each message must be one line."""

    @property
    def holds_credentials(self) -> bool:
        """True if this desk gives clients access that they would not have without it: to a program, or to a
        server with the desk's credentials.
        """

    def sender_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a client that determine its channel, with names in lower case.

        Clients share a channel only if these headers are equal.
        """

    async def open(self, sender_headers: Mapping[str, str], callbacks: ChannelCallbacks) -> ServerChannel:
        """Open a channel for a client. Raises: CallError."""

    async def close(self) -> None:
        """Release resources that the channels share. Call this method when all channels have ended."""


class ProgramChannel:
    """Channel to one process of a program."""

    def __init__(self, run: ProgramRun) -> None:
        self._run = run

    async def send(self, data: bytes) -> None:
        """Write a message as one line. Line breaks are replaced; in JSON they occur only between values."""
        await self._run.write(data.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n")

    async def end(self) -> None:
        """End the program."""
        await self._run.end()


class ProgramChannels:
    """Channels to a program. Each is a separate process."""

    has_lines = True
    holds_credentials = True
    """True, because the program runs as this user, with the variables in the environment."""

    def __init__(self, program: ProgramCommand, program_events: ProgramEvents) -> None:
        self._program, self._program_events = program, program_events

    def sender_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return only the token. A program receives no headers, but clients with different tokens must not
        share a process.
        """
        return {name: headers[name] for name in (AUTHORIZATION,) if name in headers}

    async def open(self, sender_headers: Mapping[str, str], callbacks: ChannelCallbacks) -> ProgramChannel:
        """Start the program. Raises: Unreachable."""
        guarded_groups: list[int] = []  # process groups that the guard process will end if this process dies

        def on_ended(code: int, last_lines: Sequence[str]) -> None:
            for group in guarded_groups:
                GUARD.release(group)
            callbacks.on_end(ProgramEnded(code, last_lines))

        def on_too_long_line() -> None:
            self._program_events.on_stray(b"a line that is longer than any message may be")

        run = await ProgramRun.start(
            self._program, callbacks.on_message, on_too_long_line, self._program_events.on_log, on_ended
        )
        if not run.ended_event.is_set():
            guarded_groups.append(run.pid)
            GUARD.watch(run.pid)
        return ProgramChannel(run)

    async def close(self) -> None:
        """Do nothing, because the channels share no resources."""


class SseChannels:
    """Channels over HTTP+SSE of 2024-11-05, with the desk's or the caller's credentials."""

    has_lines = False

    def __init__(self, requests: UrlRequests) -> None:
        self._requests = requests
        self.holds_credentials = requests.holds_credentials

    def sender_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers that are meant for the server."""
        return end_to_end_headers(headers)

    async def open(self, sender_headers: Mapping[str, str], callbacks: ChannelCallbacks) -> SseChannel:
        """Open the event stream, and read the URL for messages. Raises: CallError."""
        requests, headers = self._requests.with_client_credentials, dict(sender_headers)
        if AUTHORIZATION not in sender_headers:
            requests = self._requests.with_desk_credentials
            headers = {
                name: value
                for name, value in sender_headers.items()
                if name not in self._requests.desk_headers
            }
        channel = SseChannel(requests, headers, *callbacks)
        await channel.wait_until_open()
        return channel

    async def close(self) -> None:
        """Close the connections that are kept open."""
        await self._requests.close()


class SocketChannels:
    """Channels over a WebSocket, with the desk's or the caller's credentials."""

    has_lines = False

    def __init__(self, url: str, desk_headers: Mapping[str, str]) -> None:
        self._url, self._desk_headers = url, desk_headers
        self.holds_credentials = bool(desk_headers)

    def sender_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers that are meant for the server."""
        return end_to_end_headers(headers)

    async def open(self, sender_headers: Mapping[str, str], callbacks: ChannelCallbacks) -> SocketChannel:
        """Connect. Raises: HttpError."""
        headers = (
            sender_headers if AUTHORIZATION in sender_headers else {**sender_headers, **self._desk_headers}
        )
        return await SocketChannel.open(self._url, headers, *callbacks)

    async def close(self) -> None:
        """Do nothing, because the channels share no resources."""


def end_to_end_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the client's headers except those that belong to one request. The names are in lower case."""
    return {
        name: value
        for name, value in headers.items()
        if name not in _REQUEST_HEADERS and not name.startswith(("mcp-param-", "sec-websocket-"))
    }
