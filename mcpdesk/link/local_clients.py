"""The peers of a core as a front end sees them. Read in place, from any thread."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from mcpdesk.hosting.channel import HostedDialogue
from mcpdesk.hosting.endpoint import FormerClient, HostedEndpoint
from mcpdesk.hosting.host import Host
from mcpdesk.link.link import ClientFacet
from mcpdesk.link.values import (
    ClientDetail,
    ClientView,
    Parked,
    RunningCall,
    SessionView,
    ToolsSeen,
)
from mcpdesk.server.calls.running_call import Call

MANY = 200
"""Peers from which on they are not all looked at for every picture."""
REST_S = 1.0
REMEMBERED_S = 600.0
"""How long a client that left is shown."""
LISTEN = "subscriptions/listen"


class LocalClients(ClientFacet):
    """The clients of a host, the desk's own connections among them."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._kept: tuple[ClientView, ...] = ()
        self._looked = float("-inf")

    def client_views(self) -> tuple[ClientView, ...]:
        """One line a peer, in the order they came; of very many, as they stood a moment ago."""
        now = time.monotonic()
        if len(self._kept) < MANY or now - self._looked > REST_S:
            seen = {} if self._host.http is None else self._host.http.last_seen()
            found = [
                _view(endpoint, dialogue, seen.get(dialogue.connection))
                for endpoint in list(self._host.by_name.values())
                for dialogue in list(endpoint.dialogues.values())
            ]
            for endpoint in list(self._host.by_name.values()):
                found += [_gone_view(endpoint, each) for each in list(endpoint.gone.values())]
            self._kept = tuple(sorted(_current(found), key=lambda view: view.connection))
            self._looked = now
        return self._kept

    def client(self, connection: int) -> ClientDetail | None:
        """More about one; None when it is gone."""
        for endpoint in list(self._host.by_name.values()):
            dialogue = endpoint.dialogues.get(connection)
            if dialogue is not None:
                return self._detail(endpoint, dialogue)
            for gone in list(endpoint.gone.values()):
                if gone.connection == connection:
                    ttl_s = self._host.rules.session_ttl_s
                    return ClientDetail(gone.capabilities, None, ttl_s, (), (), False, (), (), has_left=True)
        return None

    def disconnect(self, connection: int) -> None:
        """End the session or the connection of a client."""
        self._host.call_soon(lambda: self._host.disconnect(connection))

    def _detail(self, endpoint: HostedEndpoint, dialogue: HostedDialogue) -> ClientDetail:
        conversation = dialogue.conversation
        running, session = conversation.running, conversation.session
        return ClientDetail(
            capabilities=conversation.terms.capabilities,
            session=self._session(dialogue.connection),
            session_ttl_s=self._host.rules.session_ttl_s,
            listens=tuple(_filter(call) for call in running if call.method == LISTEN),
            subscribed=tuple(sorted(session.subscriptions)),
            hears_changes=session.is_open,
            running=tuple(_running(call, conversation.asked) for call in running if call.method != LISTEN),
            parked=tuple(self._parked(endpoint.name, conversation.peer)),
        )

    def _session(self, connection: int) -> SessionView | None:
        session = self._host.http.session(connection) if self._host.http is not None else None
        if session is None:
            return None
        return SessionView(
            left_s=session.left_s(self._host.rules.session_ttl_s),
            streams=session.events.carried,
            has_standing=session.standing.is_carried,
            kept_events=len(session.events),
            kept_bytes=session.events.size,
        )

    def _parked(self, server: str, peer: str) -> Iterator[Parked]:
        for one in self._host.services.rounds.parked:
            if one.server == server and one.call.peer == peer:
                asks = tuple(asking.method for asking in one.questions().values())
                yield Parked(one.call.method, _name(one.call), asks)


def _current(views: Iterable[ClientView]) -> list[ClientView]:
    """Clients that are connected, and those that left lately and have not come back under the same name."""
    every, since = list(views), time.time() - REMEMBERED_S
    there = {(one.server, one.name) for one in every if one.left is None}
    return [
        one for one in every if one.left is None or (one.left > since and (one.server, one.name) not in there)
    ]


def _view(endpoint: HostedEndpoint, dialogue: HostedDialogue, heard: float | None) -> ClientView:
    """`heard` is when it was last heard of, where that is not now."""
    conversation = dialogue.conversation
    latency, seen = conversation.latency, conversation.dispatcher.server
    return ClientView(
        connection=dialogue.connection,
        server=endpoint.name,
        name=conversation.peer,
        transport=conversation.transport,
        revision=dialogue.shown_revision,
        opened=dialogue.opened,
        calls=conversation.calls,
        errors=conversation.errors,
        p50_s=None if latency is None else latency.at(0.5),
        p95_s=None if latency is None else latency.at(0.95),
        tools=_tools(conversation.tools_listed, seen.tools.version),
        mode=seen.mode,
        caller=conversation.principal.title,
        seen=heard,
    )


def _gone_view(endpoint: HostedEndpoint, gone: FormerClient) -> ClientView:
    return ClientView(
        connection=gone.connection,
        server=endpoint.name,
        name=gone.peer,
        transport=gone.transport,
        revision=gone.revision,
        opened=gone.opened,
        calls=gone.calls,
        errors=gone.errors,
        p50_s=gone.p50_s,
        p95_s=gone.p95_s,
        mode=gone.mode,
        caller=gone.caller,
        seen=gone.closed,
        left=gone.closed,
    )


def _tools(listed: int | None, version: int) -> ToolsSeen:
    if listed is None:
        return ToolsSeen.NEVER
    return ToolsSeen.FRESH if listed == version else ToolsSeen.STALE


def _running(call: Call, asked: Sequence[object]) -> RunningCall:
    return RunningCall(call.method, _name(call), time.monotonic() - call.started, asked.count(call))


def _name(call: Call) -> str:
    return str(call.params.get("name") or call.params.get("uri") or "")


def _filter(call: Call) -> tuple[str, ...]:
    """What a listen stream was opened for."""
    wanted = call.params.get("notifications") or {}
    uris = wanted.get("resourceSubscriptions") or ()
    return (*(key for key, value in wanted.items() if value is True), *uris)
