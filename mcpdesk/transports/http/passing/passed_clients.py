"""Clients of pass-through servers on this listener, with the times of their last activity."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Container
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from mcpdesk.protocol.client_questions import display_name
from mcpdesk.protocol.jsonrpc import Id, JSONObject
from mcpdesk.protocol.stateless import CLIENT_KEY, VERSION_KEY
from mcpdesk.recorder.former_clients import ClientKey, ClientSummary, FormerClients
from mcpdesk.recorder.record import ConnectionInfo, Recorder

MAX_CLIENTS = 1_000
"""Maximum number of clients. If there are more, the least recently used client is removed."""
MAX_TRACKED_CALLS = 1_000
"""Maximum number of running calls that are tracked for a client."""


class PassedKey(NamedTuple):
    """Key of a client: its session, or its name and address if its requests have no session."""

    server: str
    session: str = ""
    name: str = ""
    address: str = ""


class RunningAnswer:
    """Answer that the current task produces."""

    def __init__(self) -> None:
        self.is_ended = False
        """True if the answer was cancelled by `end`."""
        self._task = asyncio.current_task()

    def end(self) -> None:
        """Cancel the answer, because it is no longer needed."""
        if self._task is not None and not self.is_ended:
            self.is_ended = True
            self._task.cancel()


class PassedClient(Struct):
    """One client. Times are Unix seconds."""

    key: PassedKey
    info: ConnectionInfo
    seen: float
    calls: int = 0
    errors: int = 0
    capabilities: JSONObject = {}
    running_answers: set[RunningAnswer] = field(default_factory=set)
    """Answers to this client that are being produced."""
    pending_calls: set[Id] = field(default_factory=set)
    """Ids of calls that are not answered yet."""
    pending_requests: set[Id] = field(default_factory=set)
    """Ids of all requests that are not answered yet."""

    @property
    def summary(self) -> ClientSummary:
        """Summary of the client for a front end."""
        info = self.info
        return ClientSummary(
            ClientKey(info.peer, info.transport),
            info.number,
            info.revision,
            info.opened,
            info.closed,
            self.calls,
            self.errors,
            capabilities=self.capabilities,
        )

    def count_call(self, identifier: Id) -> None:
        """Count a call of the client."""
        self.calls += 1
        if len(self.pending_calls) >= MAX_TRACKED_CALLS:
            self.pending_calls.clear()  # this process probably does not forward the answers to this client
        self.pending_calls.add(identifier)

    def count_answer(self, identifier: Id, is_failure: bool) -> None:
        """Count the answer to a request of the client."""
        self.pending_requests.discard(identifier)
        if identifier in self.pending_calls:
            self.pending_calls.discard(identifier)
            self.errors += is_failure


class PassedClients:
    """Known clients. Use it on one loop. `clients` and `former` may be used on any thread."""

    def __init__(
        self, recorder: Recorder, ttl_s: Callable[[], float], on_left: Callable[[int], None]
    ) -> None:
        """`on_left` is called with the connection number of a client that has disconnected."""
        self._recorder = recorder
        self._on_left = on_left
        self._ttl_s = ttl_s
        self._by_key: dict[PassedKey, PassedClient] = {}
        """Clients by key, the least recently used first."""
        self.former: dict[str, FormerClients] = {}
        """Former clients, by server."""
        self._sweep_timer: asyncio.TimerHandle | None = None

    def clients(self) -> list[PassedClient]:
        """Return all clients, in no particular order."""
        return list(self._by_key.values())

    def find(self, connection: int) -> PassedClient | None:
        """Return the client with a connection number, or None."""
        return next((each for each in self.clients() if each.info.number == connection), None)

    def sender(
        self, server: str, session: str, address: str, message: object, number: Callable[[], int]
    ) -> PassedClient:
        """Return the sender of a message. `number` returns the connection number for a new client."""
        introduction = _parse_introduction(message)
        key = PassedKey(server, session) if session else PassedKey(server, "", introduction.name, address)
        client = self._by_key.pop(key, None)
        if client is None:
            name = introduction.name or address
            info = ConnectionInfo(number(), server, "http", name, introduction.revision, time.time())
            client = PassedClient(key, info, info.opened, capabilities=introduction.capabilities)
            self._recorder.connect(info)
        client.seen = time.time()
        self._by_key[key] = client
        if self._sweep_timer is None:
            self._schedule_sweep()
        elif len(self._by_key) > MAX_CLIENTS:
            self._forget_inactive()
        return client

    def forget_other_servers(self, servers: Container[str]) -> None:
        """Forget the former clients of all other servers."""
        self.former = {server: clients for server, clients in self.former.items() if server in servers}

    def begin_session(self, client: PassedClient, session: str) -> None:
        """Identify a client by its session from now on."""
        self._by_key.pop(client.key, None)
        client.key = PassedKey(client.key.server, session)
        self._by_key[client.key] = client

    def end(self, client: PassedClient) -> None:
        """Record that a client has disconnected."""
        if self._by_key.pop(client.key, None) is not None:
            client.info = replace(client.info, closed=time.time())
            self._recorder.connect(client.info)
            self.former.setdefault(client.key.server, FormerClients()).add(client.summary)
            self._on_left(client.info.number)

    def _schedule_sweep(self) -> None:
        self._sweep_timer = asyncio.get_running_loop().call_later(self._ttl_s() / 4, self._sweep)

    def _sweep(self) -> None:
        self._sweep_timer = None
        self._forget_inactive()
        if self._by_key:
            self._schedule_sweep()

    def _forget_inactive(self) -> None:
        oldest_allowed = time.time() - self._ttl_s()
        for client in self.clients():
            if client.seen >= oldest_allowed and len(self._by_key) <= MAX_CLIENTS:
                return
            if not client.running_answers:
                self.end(client)


class _Introduction(NamedTuple):
    name: str = ""
    revision: str = ""
    capabilities: JSONObject = {}


def _parse_introduction(message: object) -> _Introduction:
    """Return name, revision and capabilities of a client, from `initialize` or from a stateless request."""
    params = message.get("params") if isinstance(message, dict) else None
    if not isinstance(params, dict):
        return _Introduction()
    meta = params.get("_meta")
    if isinstance(meta, dict) and isinstance(version := meta.get(VERSION_KEY), str):
        return _Introduction(display_name(meta.get(CLIENT_KEY)), version)
    version, capabilities = params.get("protocolVersion"), params.get("capabilities")
    return _Introduction(
        display_name(params.get("clientInfo")),
        version if isinstance(version, str) else "",
        capabilities if isinstance(capabilities, dict) else {},
    )
