"""Channels to servers that are not ours, on which messages of a client pass as they are, both ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from mcpdesk.client.answers.large_frames import OnFrame
from mcpdesk.client.child_process import ProgramCommand, ProgramEnded, ProgramRun
from mcpdesk.client.http_transports import SseChannel
from mcpdesk.client.web_socket import SocketChannel
from mcpdesk.errors import CallError
from mcpdesk.jobs.child import GUARD
from mcpdesk.protocol import codec
from mcpdesk.upstream.pass_through import UrlRequests
from mcpdesk.upstream.target_transport import ProgramEvents

AUTHORIZATION = "authorization"
_OF_ONE_REQUEST = frozenset(
    {"accept", "cache-control", "content-encoding", "content-type", "last-event-id", "pragma"}
    | {"mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name"}
    | {"traceparent", "tracestate", "baggage"}
)


class Heard(NamedTuple):
    """Who is told what a channel brings."""

    on_message: OnFrame
    on_end: Callable[[CallError], None]
    """Gets the reason; it may be told more than once."""


class ServerChannel(Protocol):
    """A way for messages, of one client or of several."""

    async def send(self, data: bytes) -> None:
        """Send a message. Raises: CallError when it is not taken."""

    async def end(self) -> None:
        """End it, and with a program also that."""


class Channels(Protocol):
    """Opens channels to one server."""

    @property
    def has_lines(self) -> bool:
        """Whether each message is to be one line."""

    @property
    def holds_credentials(self) -> bool:
        """Whether callers reach what they could not without us: a program, or a server with our token."""

    def sender(self, given: Mapping[str, str]) -> dict[str, str]:
        """Those of a client's headers that matter to a channel: clients share one only if these are the same.

        Names are in lower case.
        """

    async def open(self, sender: Mapping[str, str], heard: Heard) -> ServerChannel:
        """Open a channel for a client. Raises: CallError."""

    async def close(self) -> None:
        """Close what channels have in common. All of them have ended."""


class ProgramChannel:
    """A run of a program."""

    def __init__(self, run: ProgramRun) -> None:
        self._run = run

    async def send(self, data: bytes) -> None:
        """Write a message as one line."""
        is_line = b"\n" not in data and b"\r" not in data
        await self._run.write((data if is_line else codec.encode(codec.decode(data))) + b"\n")

    async def end(self) -> None:
        """End the program."""
        await self._run.end()


class ProgramChannels:
    """Each is a run of a program."""

    has_lines = True
    holds_credentials = True
    """It runs as this user, with what its environment holds."""

    def __init__(self, program: ProgramCommand, log: ProgramEvents) -> None:
        self._program, self._log = program, log

    def sender(self, given: Mapping[str, str]) -> dict[str, str]:
        """A program gets no headers, but who brings a token shares no run with others."""
        return {name: given[name] for name in (AUTHORIZATION,) if name in given}

    async def open(self, sender: Mapping[str, str], heard: Heard) -> ProgramChannel:
        """Start the program. Raises: Unreachable."""
        groups: list[int] = []

        def ended(code: int, last_lines: Sequence[str]) -> None:
            for group in groups:
                GUARD.release(group)
            heard.on_end(ProgramEnded(code, last_lines))

        def too_long() -> None:
            self._log.on_stray(b"a line that is longer than any message may be")

        run = await ProgramRun.start(self._program, heard.on_message, too_long, self._log.on_log, ended)
        if not run.is_over.is_set():
            groups.append(run.pid)
            GUARD.watch(run.pid)
        return ProgramChannel(run)

    async def close(self) -> None:
        """They have nothing in common."""


class SseChannels:
    """Each is a connection of the transport of 2024-11-05: with our credentials, or the caller's."""

    has_lines = False

    def __init__(self, requests: UrlRequests) -> None:
        self._requests = requests
        self.holds_credentials = requests.holds_credentials

    def sender(self, given: Mapping[str, str]) -> dict[str, str]:
        """What is meant for the server."""
        return end_to_end(given)

    async def open(self, sender: Mapping[str, str], heard: Heard) -> SseChannel:
        """Open the stream and learn where to post. Raises: CallError."""
        requests, headers = self._requests.with_theirs, dict(sender)
        if AUTHORIZATION not in sender:
            requests = self._requests.with_ours
            headers = {name: value for name, value in sender.items() if name not in self._requests.ours}
        channel = SseChannel(requests, headers, *heard)
        await channel.opened()
        return channel

    async def close(self) -> None:
        """Close connections that are kept open."""
        await self._requests.close()


class SocketChannels:
    """Each is a WebSocket: with our credentials, or the caller's."""

    has_lines = False

    def __init__(self, url: str, ours: Mapping[str, str]) -> None:
        self._url, self._ours = url, ours
        self.holds_credentials = bool(ours)

    def sender(self, given: Mapping[str, str]) -> dict[str, str]:
        """What is meant for the server."""
        return end_to_end(given)

    async def open(self, sender: Mapping[str, str], heard: Heard) -> SocketChannel:
        """Connect. Raises: HttpError."""
        headers = sender if AUTHORIZATION in sender else {**sender, **self._ours}
        return await SocketChannel.open(self._url, headers, *heard)

    async def close(self) -> None:
        """They have nothing in common."""


def end_to_end(given: Mapping[str, str]) -> dict[str, str]:
    """The headers of a client's request that are not about that request alone; names are in lower case."""
    return {
        name: value
        for name, value in given.items()
        if name not in _OF_ONE_REQUEST and not name.startswith(("mcp-param-", "sec-websocket-"))
    }
