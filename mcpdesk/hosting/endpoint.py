"""One hosted server as transports use it, and its open dialogues."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mcpdesk.auth.access import Access
from mcpdesk.auth.principal import OPEN, Principal
from mcpdesk.hosting.channel import FrameChannel, HostedDialogue, LargeFrames, Pipe
from mcpdesk.protocol import codec, shaping
from mcpdesk.protocol.catalogue.publication import Publication
from mcpdesk.protocol.framing import DEFAULT_LIMIT
from mcpdesk.protocol.jsonrpc import JSONObject
from mcpdesk.recorder.former_clients import ClientKey, ClientSummary, FormerClients
from mcpdesk.recorder.record import Recorder
from mcpdesk.server.calls.call_figures import Latency
from mcpdesk.server.calls.conversation import Conversation
from mcpdesk.server.calls.dispatch import Dispatcher
from mcpdesk.server.calls.services import Services
from mcpdesk.server.offer.listing import WIRE
from mcpdesk.server.offer.server import Server

if TYPE_CHECKING:
    from mcpdesk.recorder.interceptor import Interceptor
    from mcpdesk.server.calls.dialect import Dialect

WITHHELD_REASON = "an mcp.json is invalid; the desk and the log show the error"
"""Public reason why a server is withheld, without the error of its manifest."""
HIDDEN_ERROR = "it has an error; the desk and `mcpdesk check` show it"
"""Public reason for an unavailable tool, without the error message of its code."""


def summary_of(dialogue: HostedDialogue) -> ClientSummary:
    """Summarize an open or closed dialogue for a front end."""
    conversation, latency = dialogue.conversation, dialogue.conversation.latency
    mode, caller = conversation.dispatcher.server.mode, conversation.principal.title
    return ClientSummary(
        ClientKey(conversation.peer, conversation.transport, mode, caller),
        dialogue.connection,
        dialogue.shown_revision,
        dialogue.opened,
        dialogue.closed,
        conversation.calls,
        conversation.failures,
        () if latency is None else tuple(latency),
        conversation.terms.capabilities,
        conversation.tools_listed,
    )


class PastCalls:
    """Totals of the calls of disconnected peers."""

    def __init__(self) -> None:
        self.errors = 0
        self.latency = Latency()

    def add(self, conversation: Conversation) -> None:
        """Add the totals of a peer that has disconnected."""
        self.errors += conversation.errors
        if conversation.latency is not None:
            self.latency.add_calls_of(conversation.latency)


class HostedEndpoint:
    """One server of this core, as transports use it."""

    def __init__(
        self, server: Server, services: Services, recorder: Recorder, base: HostedEndpoint | None = None
    ) -> None:
        """Create the endpoint of a server.

        If the server offers only the tools of a mode, `base` is the endpoint that offers all of them.
        """
        self.server = server
        self.recorder = recorder
        self.key = f"{server.name}?mode={server.mode}" if server.mode else server.name
        server_state = server.hosted
        self.unique_key = f"{server_state.state.name if server_state is not None else ''}/{self.key}"
        self.dispatcher = Dispatcher(server, services)
        self.dialogues: dict[int, HostedDialogue] = {}
        self.former_clients = FormerClients()
        self.modes: dict[str, HostedEndpoint] = {}
        """Endpoints of the same server in the modes that clients have requested, by name of the mode."""
        self.past_calls = PastCalls()
        if base is not None:
            self.dialogues = base.dialogues
            self.past_calls = base.past_calls
            self.former_clients = base.former_clients
            self.dispatcher.tasks.share(base.dispatcher.tasks)
        self.large = LargeFrames(server)
        """Size of the large requests in flight."""
        self._in_dialects: dict[str, DialectEndpoint] = {}
        """This server in the dialects that clients have used, by name of the dialect."""
        self.interceptor: Interceptor | None = None if base is None else base.interceptor
        """Interceptor of messages, or None if it was never active."""

    @property
    def name(self) -> str:
        """The server's name, as in its URL."""
        return self.server.name

    @property
    def access(self) -> Access:
        """Access rules for callers."""
        return self.server.access

    @property
    def refusal(self) -> str:
        """Message to every caller while the server is withheld, or "" if it is served.

        Every caller can read the message, so it contains no text from the folder.
        """
        return f"{self.name} is not served: {WITHHELD_REASON}" if self.server.withheld else ""

    def open(
        self,
        transport: str,
        peer: str,
        push: Callable[[bytes], None] | None = None,
        principal: Principal = OPEN,
        is_connected: Callable[[], bool] | None = None,
        dialect: type[Dialect] | None = None,
    ) -> HostedDialogue:
        """Open a dialogue, in a dialect or in standard MCP.

        `is_connected` returns True if this process must send change notifications to the client. None means
        that this process must always send them.
        """
        dialect_instance = None if dialect is None else dialect(push, transport)
        conversation = Conversation(self.dispatcher, transport, peer, push, dialect_instance, is_connected)
        dialogue = HostedDialogue(conversation, self.recorder, self.name, self.forget, principal)
        self.dialogues[dialogue.connection] = dialogue
        if self.interceptor is not None and self.interceptor.is_active:
            dialogue.intercept(self.interceptor)
        return dialogue

    def intercept(self, interceptor: Interceptor) -> None:
        """Pass the messages of all clients through an interceptor while it is active."""
        for endpoint in (self, *self.modes.values()):
            endpoint.interceptor = interceptor
        for dialogue in self.dialogues.values():
            dialogue.intercept(interceptor if interceptor.is_active else None)

    def channel(
        self,
        transport: str,
        peer: str,
        write: Callable[[Sequence[bytes]], None],
        opening: Mapping[str, str] | None = None,
        principal: Principal = OPEN,
        dialect: type[Dialect] | None = None,
    ) -> FrameChannel:
        """Open a dialogue over frames.

        `opening` has the headers of the HTTP request that opened the dialogue, or is None on other
        transports.
        """

        def open_dialogue(push: Callable[[bytes], None]) -> HostedDialogue:
            return self.open(transport, peer, push, principal, dialect=dialect)

        channel = FrameChannel(open_dialogue, self.recorder, self.large, write)
        channel.dialogue.conversation.opening_headers = opening
        return channel

    def pipe(
        self,
        transport: str,
        peer: str,
        send: Callable[[bytes], None],
        limit: int = DEFAULT_LIMIT,
        session: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> Pipe:
        """Open a dialogue over a byte stream; see `Pipe`."""
        return Pipe(
            lambda push: self.open(transport, peer, push),
            self.recorder,
            self.large,
            send,
            lambda: self.has_unread_results,
            limit,
            session,
            environment,
        )

    def in_dialect(self, dialect: type[Dialect]) -> DialectEndpoint:
        """Return this server for clients that use a dialect."""
        endpoint = self._in_dialects.get(dialect.name)
        if endpoint is None:
            endpoint = self._in_dialects[dialect.name] = DialectEndpoint(self, dialect)
        return endpoint

    def in_mode(self, view: Server) -> HostedEndpoint:
        """Return the endpoint that serves a mode. `view` is the server with only the tools of the mode.

        This endpoint and the returned one share their dialogues.
        """
        endpoint = self.modes.get(view.mode)
        if endpoint is None:
            endpoint = HostedEndpoint(view, self.dispatcher.services, self.recorder, self)
            self.modes[view.mode] = endpoint
        return endpoint

    def forget_offers(self) -> None:
        """Clear the cached tool lists after the server was loaded again."""
        for endpoint in (self, *self.modes.values()):
            endpoint.dispatcher.offers.clear_caches()

    def forget(self, dialogue: HostedDialogue) -> None:
        """Remove a dialogue that has ended, and keep a summary of it."""
        self.dialogues.pop(dialogue.connection, None)
        if self.interceptor is not None:
            self.interceptor.forget(dialogue.connection)
        self.past_calls.add(dialogue.conversation)
        if dialogue.shown_revision and dialogue.conversation.transport != "memory":
            summary = summary_of(dialogue)
            self.former_clients.add(replace(summary, closed=summary.closed or time.time()))

    @property
    def has_unread_results(self) -> bool:
        """True if clients may still request results of work started here.

        Such work is a job, a program, or an operation that waits for a client's answers.
        """
        services = self.dispatcher.services
        server_state = self.server.hosted
        if server_state is not None and server_state.has_created("programs") and server_state.programs.all():
            return True
        if services.has_created("jobs") and services.jobs.has_unfinished_work:
            return True
        return services.has_created("rounds") and len(services.rounds) > 0

    @property
    def publication(self) -> Publication:
        """Public description of the server."""
        return self.server.publication

    def facts(self) -> dict[str, Any]:
        """Name, version, counts, modes and unavailable tools with reasons, for the status page.

        The page is public, so it does not show errors raised by the author's code.
        """
        server = self.server
        return {
            "name": server.name,
            "version": server.version,
            "token_required": server.access.requires_token,
            "tools": len(server.tools) if server.tools_enabled else 0,
            "resources": len(server.resources),
            "templates": len(server.templates),
            "prompts": len(server.prompts),
            "modes": list(server.modes),
            "unavailable": [
                {"name": item.name, "reason": item.reason if item.is_fit else HIDDEN_ERROR}
                for item in server.tools.unavailable
                if not item.is_serving
            ],
        }


def intercept_all(endpoints: Mapping[str, HostedEndpoint], interceptor: Interceptor) -> None:
    """Pass the messages of the clients of several servers through an interceptor while it is active."""
    for endpoint in endpoints.values():
        endpoint.intercept(interceptor)


class DialectEndpoint:
    """The server of `base` for clients that use a dialect. `base` keeps the dialogues."""

    def __init__(self, base: HostedEndpoint, dialect: type[Dialect]) -> None:
        self.key = f"{dialect.name}:{base.key}"
        self.unique_key = f"{dialect.name}:{base.unique_key}"
        self._base = base
        self._dialect = dialect
        self._description = (-1, JSONObject(), b"")
        """Encoded description, after the version of the tools and the server identity that it is based on."""

    @property
    def name(self) -> str:
        """The server's name."""
        return self._base.name

    def in_dialect(self, dialect: type[Dialect]) -> DialectEndpoint:
        """Return this server for clients that use a dialect."""
        return self._base.in_dialect(dialect)

    @property
    def access(self) -> Access:
        """Access rules for callers."""
        return self._base.access

    @property
    def refusal(self) -> str:
        """Message to every caller while the server is withheld, or "" if it is served."""
        return self._base.refusal

    @property
    def publication(self) -> Publication:
        """Public description of the server."""
        return self._base.publication

    def facts(self) -> dict[str, Any]:
        """Name, version and counts, for the status page."""
        return self._base.facts()

    def description(self) -> bytes:
        """Return the encoded description of the server."""
        server, revision = self._base.server, self._dialect.revision
        identity = self._base.dispatcher.offers.implementation(revision)
        described_version, described_identity, body = self._description
        if described_version != server.tools.version or described_identity is not identity:
            tools = list(server.tools) if server.tools_enabled else []
            definitions = [shaping.item("tools", WIRE["tools"](tool), revision) for tool in tools]
            document = self._dialect.description(server.name, server.description, server.version, definitions)
            body = codec.encode(document)
            self._description = server.tools.version, identity, body
        return body

    def open(
        self,
        transport: str,
        peer: str,
        push: Callable[[bytes], None] | None = None,
        principal: Principal = OPEN,
        is_connected: Callable[[], bool] | None = None,
    ) -> HostedDialogue:
        """Open a dialogue."""
        return self._base.open(transport, peer, push, principal, is_connected, dialect=self._dialect)

    def channel(
        self,
        transport: str,
        peer: str,
        write: Callable[[Sequence[bytes]], None],
        opening: Mapping[str, str] | None = None,
        principal: Principal = OPEN,
    ) -> FrameChannel:
        """Open a dialogue over frames. The arguments are those of `HostedEndpoint.channel`."""
        return self._base.channel(transport, peer, write, opening, principal, dialect=self._dialect)
