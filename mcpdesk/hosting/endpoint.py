"""One hosted server as transports see it, and its open dialogues."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from mcpdesk.auth.principal import OPEN, Principal
from mcpdesk.auth.token_rules import Access
from mcpdesk.hosting.channel import Channel
from mcpdesk.protocol.handshake import SessionState
from mcpdesk.protocol.revisions import BY_NAME
from mcpdesk.protocol.terms import Terms
from mcpdesk.recorder.record import ConnectionInfo, Recorder
from mcpdesk.server.calls.call_figures import Latency
from mcpdesk.server.calls.conversation import Conversation
from mcpdesk.server.calls.dispatch import Dispatcher
from mcpdesk.server.calls.services import Services
from mcpdesk.server.offer.server import Server

if TYPE_CHECKING:
    from mcpdesk.hosting.gateway_endpoint import GatewayEndpoint

Converse: TypeAlias = Callable[
    [str, str, Callable[[bytes], None] | None, Callable[[Terms], None]], Conversation
]
"""Makes a conversation of transport, peer, the way for messages of ours, and who hears of terms."""
WITHHELD = "a mistake in an mcp.json has to be mended first; the desk and the log name it"
MISTAKEN = "there is a mistake in it, which the desk and `mcpdesk check` name"
MOST_GONE = 20
"""Clients of one server that are remembered after they left."""
_numbers = count(1)
"""Connection numbers, unique in this process."""


class HostedDialogue:
    """A conversation that the recorder knows by number."""

    def __init__(
        self,
        endpoint: HostedEndpoint,
        transport: str,
        peer: str,
        push: Callable[[bytes], None] | None,
        principal: Principal = OPEN,
        converse: Converse | None = None,
    ) -> None:
        """`converse` makes its conversation; None: one of the standard."""
        self.connection = next(_numbers)
        self.opened = time.time()
        self.closed: float | None = None
        """Unix time at which it ended."""
        self.conversation = (converse or endpoint.converse)(transport, peer, push, self._known)
        self.conversation.principal, self.conversation.connection = principal, self.connection
        self.accept = self.conversation.accept
        self.accept_message = self.conversation.accept_message
        self._endpoint = endpoint
        self._is_connected = True
        self._revision = ""
        self._announce()

    @property
    def revision(self) -> str:
        """The revision of its session."""
        return self.conversation.session.terms.revision.name

    @property
    def shown_revision(self) -> str:
        """The revision last spoken."""
        return self._revision

    @property
    def is_open(self) -> bool:
        """Whether a handshake took place."""
        return self.conversation.session.is_open

    @property
    def is_idle(self) -> bool:
        """Whether no call is in flight."""
        return not self.conversation.running

    @property
    def outlives_connection(self) -> bool:
        """Whether a call of the handshake era is in flight: there a lost connection cancels nothing.

        One that waits for a person does not count: nobody is to decide what no one will hear of.
        """
        running = self.conversation.running
        return any(not call.terms.revision.is_stateless and not call.asks_person for call in running)

    def identify(self, principal: Principal) -> None:
        """The peer proved who it is."""
        self.conversation.principal = principal
        self._announce()

    def adopt(self, revision: str, client: str) -> bool:
        """Serve a handshake revision without a handshake."""
        known = BY_NAME.get(revision)
        if known is None or known.is_stateless:
            return False
        self.conversation.session.adopt(known, client)
        return True

    @property
    def state(self) -> SessionState:
        """How its session stands, for a process that goes on with it."""
        return self.conversation.state

    def take_up(self, state: SessionState) -> None:
        """Go on with a session of another process.

        Raises: RemoteProtocolError when such a session is not served any more.
        """
        self.conversation.take_up(state)

    def end_listening(self) -> None:
        """The peer wants nothing more: what would never end by itself ends."""
        for call in self.conversation.running:
            if call.method == "subscriptions/listen":
                call.end("nobody listens any more")

    def close(self, reason: str = "connection closed") -> None:
        """The peer is gone. Harmless when called twice."""
        if not self._is_connected:
            return
        self._is_connected = False
        self.closed = time.time()
        self.conversation.close(reason)
        self._endpoint.forget(self)
        self._announce(closed=self.closed)

    def _known(self, terms: Terms) -> None:
        self._announce(terms.revision.name)

    def _announce(self, revision: str = "", closed: float | None = None) -> None:
        self._revision = revision or self._revision
        conversation = self.conversation
        self._endpoint.recorder.connect(
            ConnectionInfo(
                number=self.connection,
                server=self._endpoint.name,
                transport=conversation.transport,
                peer=conversation.peer,
                revision=self._revision,
                opened=self.opened,
                closed=closed,
                principal=conversation.principal.name,
            )
        )


class Gone(Struct, frozen=True):
    """What is kept of a client that left."""

    connection: int
    peer: str
    transport: str
    revision: str
    opened: float
    closed: float
    calls: int
    errors: int
    p50_s: float | None
    p95_s: float | None
    mode: str
    caller: str
    capabilities: dict[str, Any]


class Past:
    """What peers did who have left."""

    def __init__(self) -> None:
        self.errors = 0
        self.latency = Latency()

    def add(self, conversation: Conversation) -> None:
        """One more has left."""
        self.errors += conversation.errors
        if conversation.latency is not None:
            self.latency.join(conversation.latency)


class HostedEndpoint:
    """One server of this core."""

    def __init__(
        self, server: Server, services: Services, recorder: Recorder, whole: HostedEndpoint | None = None
    ) -> None:
        """`whole` is the endpoint of the same server as a whole, for one that sees it in a mode."""
        self.server = server
        self.recorder = recorder
        self.key = f"{server.name}?mode={server.mode}" if server.mode else server.name
        home = server.home
        self.place = f"{home.state.name if home is not None else ''}/{self.key}"
        self.dispatcher = Dispatcher(server, services)
        self.dialogues: dict[int, HostedDialogue] = {}
        self.gone: dict[tuple[str, str], Gone] = {}
        """The clients that left last, by name and transport, the latest last."""
        self.modes: dict[str, HostedEndpoint] = {}
        """The same server in modes, as far as anybody asked for them."""
        self.past = Past()
        if whole is not None:
            self.dialogues, self.past, self.gone = whole.dialogues, whole.past, whole.gone
            self.dispatcher.tasks.share(whole.dispatcher.tasks)
        self.large_bytes = 0
        """Of large frames in flight on its channels."""
        self._gateway: GatewayEndpoint | None = None

    @property
    def name(self) -> str:
        """The server's name, as in its URL."""
        return self.server.name

    @property
    def access(self) -> Access:
        """What it asks of its callers."""
        return self.server.access

    @property
    def refusal(self) -> str:
        """What everybody is told while it is withheld, without a word of its author's; empty: it serves."""
        return f"{self.name} is not served: {WITHHELD}" if self.server.withheld else ""

    def open(
        self,
        transport: str,
        peer: str,
        push: Callable[[bytes], None] | None = None,
        principal: Principal = OPEN,
        converse: Converse | None = None,
    ) -> HostedDialogue:
        """Begin a dialogue. `converse` makes its conversation; None: one of the standard."""
        dialogue = HostedDialogue(self, transport, peer, push, principal, converse)
        self.dialogues[dialogue.connection] = dialogue
        return dialogue

    def channel(
        self,
        transport: str,
        peer: str,
        write: Callable[[Sequence[bytes]], None],
        opening: Mapping[str, str],
        principal: Principal = OPEN,
        converse: Converse | None = None,
    ) -> Channel:
        """Begin a dialogue over frames; `opening` are the headers of the request that opened it."""
        channel = Channel(self, transport, peer, write, principal, converse)
        channel.dialogue.conversation.opening = opening
        return channel

    @property
    def gateway(self) -> GatewayEndpoint:
        """The same server for clients of the gateway dialect."""
        if self._gateway is None:
            from mcpdesk.hosting.gateway_endpoint import GatewayEndpoint

            self._gateway = GatewayEndpoint(self)
        return self._gateway

    def converse(
        self,
        transport: str,
        peer: str,
        push: Callable[[bytes], None] | None,
        on_terms: Callable[[Terms], None],
    ) -> Conversation:
        """A conversation of the standard."""
        return Conversation(self.dispatcher, transport, peer, push, on_terms)

    def in_mode(self, view: Server) -> HostedEndpoint:
        """The endpoint of a view of the server. Its dialogues are among those of this one."""
        kept = self.modes.get(view.mode)
        if kept is None:
            kept = HostedEndpoint(view, self.dispatcher.services, self.recorder, self)
            self.modes[view.mode] = kept
        return kept

    def forget_offers(self) -> None:
        """The server was read again: nothing kept of its identity holds."""
        for endpoint in (self, *self.modes.values()):
            endpoint.dispatcher.offers.forget()

    def forget(self, dialogue: HostedDialogue) -> None:
        """A dialogue ended."""
        self.dialogues.pop(dialogue.connection, None)
        self.past.add(dialogue.conversation)
        conversation = dialogue.conversation
        if dialogue.shown_revision and conversation.transport != "memory":
            client = (conversation.peer, conversation.transport)
            # Clients that connect for every request are told once.
            self.gone.pop(client, None)
            latency = conversation.latency
            self.gone[client] = Gone(
                dialogue.connection,
                conversation.peer,
                conversation.transport,
                dialogue.shown_revision,
                dialogue.opened,
                dialogue.closed or time.time(),
                conversation.calls,
                conversation.errors,
                None if latency is None else latency.at(0.5),
                None if latency is None else latency.at(0.95),
                conversation.dispatcher.server.mode,
                conversation.principal.title,
                conversation.terms.capabilities,
            )
            if len(self.gone) > MOST_GONE:
                del self.gone[next(iter(self.gone))]

    @property
    def keeps_something(self) -> bool:
        """Whether clients may still ask for what was begun here: jobs, programs, operations of rounds."""
        services, home = self.dispatcher.services, self.server.home
        if home is not None and home.has_made("programs") and home.programs.views():
            return True
        if services.has_made("jobs") and services.jobs.would_lose:
            return True
        return services.has_made("rounds") and len(services.rounds) > 0

    def facts(self) -> dict[str, Any]:
        """Name, version, counts, modes, and which tools are left out and why, for the status page.

        That page is for everybody: what an author's code said when it failed is not on it.
        """
        server = self.server
        return {
            "name": server.name,
            "version": server.version,
            "token_required": server.access.requires_token,
            "tools": len(server.tools) if server.tools_enabled else 0,
            "resources": len(server.resources) + len(server.templates),
            "prompts": len(server.prompts),
            "modes": list(server.modes),
            "unavailable": [
                {"name": each.name, "reason": each.reason if each.is_fit else MISTAKEN}
                for each in server.tools.unavailable
                if not each.serving
            ],
        }
