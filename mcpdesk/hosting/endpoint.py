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
    from mcpdesk.hosting.holding.holds import Holds

WITHHELD = "an mcp.json is invalid; the desk and the log show the error"
MISTAKEN = "it has an error; the desk and `mcpdesk check` show it"


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
            self.latency.join(conversation.latency)


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
        home = server.hosted
        self.unique_key = f"{home.state.name if home is not None else ''}/{self.key}"
        self.dispatcher = Dispatcher(server, services)
        self.dialogues: dict[int, HostedDialogue] = {}
        self.former = FormerClients()
        self.modes: dict[str, HostedEndpoint] = {}
        """Endpoints of the same server in the modes that clients have requested, by name of the mode."""
        self.past = PastCalls()
        if base is not None:
            self.dialogues, self.past, self.former = base.dialogues, base.past, base.former
            self.dispatcher.tasks.share(base.dispatcher.tasks)
        self.large = LargeFrames(server)
        self._gateway: GatewayEndpoint | None = None
        self.holds: Holds | None = None if base is None else base.holds
        """Store of held messages, or None if no messages were ever held."""

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
        """Message to every caller while the server is withheld. Empty if it is served.

        Every caller can read it, so it contains no text from the folder.
        """
        return f"{self.name} is not served: {WITHHELD}" if self.server.withheld else ""

    def open(
        self,
        transport: str,
        peer: str,
        push: Callable[[bytes], None] | None = None,
        principal: Principal = OPEN,
        is_connected: Callable[[], bool] | None = None,
        speaks_gateway: bool = False,
    ) -> HostedDialogue:
        """Open a dialogue, in the gateway dialect or in standard MCP.

        `is_connected` returns True if this replica must send change notifications to the client. None means
        that it always must.
        """
        conversation = self._conversation(transport, peer, push, is_connected, speaks_gateway)
        dialogue = HostedDialogue(conversation, self.recorder, self.name, self.forget, principal)
        self.dialogues[dialogue.connection] = dialogue
        if self.holds is not None and self.holds.is_on:
            dialogue.hold(self.holds)
        return dialogue

    def hold(self, holds: Holds) -> None:
        """Pass the messages of all clients through `holds`, where a person can stop them."""
        for endpoint in (self, *self.modes.values()):
            endpoint.holds = holds
        for dialogue in self.dialogues.values():
            dialogue.hold(holds if holds.is_on else None)

    def channel(
        self,
        transport: str,
        peer: str,
        write: Callable[[Sequence[bytes]], None],
        opening: Mapping[str, str] | None = None,
        principal: Principal = OPEN,
        speaks_gateway: bool = False,
    ) -> FrameChannel:
        """Open a dialogue over frames.

        `opening` has the headers of the HTTP request that opened it. None if the transport is not HTTP.
        """

        def open_dialogue(push: Callable[[bytes], None]) -> HostedDialogue:
            return self.open(transport, peer, push, principal, speaks_gateway=speaks_gateway)

        channel = FrameChannel(open_dialogue, self.recorder, self.large, write)
        channel.dialogue.conversation.opening = opening
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
            lambda: self.keeps_something,
            limit,
            session,
            environment,
        )

    @property
    def gateway(self) -> GatewayEndpoint:
        """This server for clients that use the gateway dialect."""
        if self._gateway is None:
            self._gateway = GatewayEndpoint(self)
        return self._gateway

    def _conversation(
        self,
        transport: str,
        peer: str,
        push: Callable[[bytes], None] | None,
        is_connected: Callable[[], bool] | None,
        speaks_gateway: bool,
    ) -> Conversation:
        """Return the conversation that answers one peer."""
        if not speaks_gateway:
            return Conversation(self.dispatcher, transport, peer, push, None, is_connected)
        from mcpdesk.server.dialects.gateway_translation import GatewayDialect

        # Clients of the gateway dialect that use WebSocket expect notifications about their jobs.
        dialect = GatewayDialect(push if transport == "websocket" else None)
        return Conversation(self.dispatcher, transport, peer, push, dialect, is_connected)

    def in_mode(self, view: Server) -> HostedEndpoint:
        """Return the endpoint that serves a mode.

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
            endpoint.dispatcher.offers.forget()

    def forget(self, dialogue: HostedDialogue) -> None:
        """Remove a dialogue that has ended, and keep a summary of it."""
        self.dialogues.pop(dialogue.connection, None)
        if self.holds is not None:
            self.holds.forget(dialogue.connection)
        self.past.add(dialogue.conversation)
        if dialogue.shown_revision and dialogue.conversation.transport != "memory":
            summary = summary_of(dialogue)
            self.former.add(replace(summary, closed=summary.closed or time.time()))

    @property
    def keeps_something(self) -> bool:
        """True if clients may still request results of work started here.

        Such work is a job, a program, or an operation that waits for a client's answers.
        """
        services, home = self.dispatcher.services, self.server.hosted
        if home is not None and home.has_made("programs") and home.programs.all():
            return True
        if services.has_made("jobs") and services.jobs.would_lose:
            return True
        return services.has_made("rounds") and len(services.rounds) > 0

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
                {"name": each.name, "reason": each.reason if each.is_fit else MISTAKEN}
                for each in server.tools.unavailable
                if not each.serving
            ],
        }


def hold_all(endpoints: Mapping[str, HostedEndpoint], holds: Holds) -> None:
    """Pass the messages of the clients of several servers through `holds`."""
    for endpoint in endpoints.values():
        endpoint.hold(holds)


class GatewayEndpoint:
    """The server of `base` for clients that use the gateway dialect. `base` keeps the dialogues."""

    def __init__(self, base: HostedEndpoint) -> None:
        self.key = f"gateway:{base.key}"
        self.unique_key = f"gateway:{base.unique_key}"
        self._base = base
        self._discovery = (-1, JSONObject(), b"")

    @property
    def name(self) -> str:
        """The server's name."""
        return self._base.name

    @property
    def gateway(self) -> GatewayEndpoint:
        """This endpoint."""
        return self

    @property
    def access(self) -> Access:
        """Access rules for callers."""
        return self._base.access

    @property
    def refusal(self) -> str:
        """Message to every caller while the server is withheld. Empty if it is served."""
        return self._base.refusal

    @property
    def publication(self) -> Publication:
        """Public description of the server."""
        return self._base.publication

    def facts(self) -> dict[str, Any]:
        """Name, version and counts, for the status page."""
        return self._base.facts()

    def discovery(self) -> bytes:
        """Encoded response to GET and OPTIONS."""
        from mcpdesk.protocol import gateway_dialect

        server = self._base.server
        identity = self._base.dispatcher.offers.implementation(gateway_dialect.REVISION)
        version, known, body = self._discovery
        if version != server.tools.version or known is not identity:
            tools = list(server.tools) if server.tools_enabled else []
            wire = [shaping.item("tools", WIRE["tools"](tool), gateway_dialect.REVISION) for tool in tools]
            body = codec.encode(
                gateway_dialect.discovery(server.name, server.description, server.version, wire)
            )
            self._discovery = server.tools.version, identity, body
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
        return self._base.open(transport, peer, push, principal, is_connected, speaks_gateway=True)

    def channel(
        self,
        transport: str,
        peer: str,
        write: Callable[[Sequence[bytes]], None],
        opening: Mapping[str, str] | None = None,
        principal: Principal = OPEN,
    ) -> FrameChannel:
        """Open a dialogue over frames. The arguments are those of `HostedEndpoint.channel`."""
        return self._base.channel(transport, peer, write, opening, principal, speaks_gateway=True)
