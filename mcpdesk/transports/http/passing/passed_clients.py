"""The clients that reach servers elsewhere through this listener, and when they were last heard of."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from mcpdesk.protocol.client_questions import display_name
from mcpdesk.protocol.jsonrpc import Id, JSONObject
from mcpdesk.protocol.stateless import CLIENT_KEY, VERSION_KEY
from mcpdesk.recorder.record import ConnectionInfo, Recorder

MOST = 1_000
"""Clients that are known at a time; the longest unused one makes room."""
MOST_CALLED = 1_000
"""Calls of a client whose answers are waited for."""


class ClientKey(NamedTuple):
    """What tells clients apart: a session, or the name and address of one whose requests stand alone."""

    server: str
    session: str = ""
    name: str = ""
    address: str = ""


class Work:
    """An answer that is being made by the task that asks for this."""

    def __init__(self) -> None:
        self.is_ended = False
        self._task = asyncio.current_task()

    def end(self) -> None:
        """Break it off: nobody waits for it any more."""
        if self._task is not None and not self.is_ended:
            self.is_ended = True
            self._task.cancel()


class PassedClient(Struct):
    """One client. Times are Unix seconds."""

    key: ClientKey
    info: ConnectionInfo
    seen: float
    calls: int = 0
    errors: int = 0
    capabilities: JSONObject = {}
    works: set[Work] = field(default_factory=set)
    """What answers its requests now."""
    called: set[Id] = field(default_factory=set)
    """The ids of calls that were not answered yet."""
    awaited: set[Id] = field(default_factory=set)
    """The ids of all requests that wait for a response now."""

    def note_call(self, identifier: Id) -> None:
        """It called something."""
        self.calls += 1
        if len(self.called) >= MOST_CALLED:
            self.called.clear()  # of a client whose answers nobody sees
        self.called.add(identifier)

    def note_answer(self, identifier: Id, is_failure: bool) -> None:
        """One of its requests was answered."""
        self.awaited.discard(identifier)
        if identifier in self.called:
            self.called.discard(identifier)
            self.errors += is_failure


class PassedClients:
    """Used on one loop; `known` is for any thread."""

    def __init__(
        self, recorder: Recorder, ttl_s: Callable[[], float], on_left: Callable[[int], None]
    ) -> None:
        """`on_left` is told the number of a client that is gone."""
        self._recorder = recorder
        self._on_left = on_left
        self._ttl_s = ttl_s
        self._by_key: dict[ClientKey, PassedClient] = {}
        """The longest unused first."""
        self._looking: asyncio.TimerHandle | None = None

    def known(self) -> list[PassedClient]:
        """Every client, in no order."""
        return list(self._by_key.values())

    def find(self, connection: int) -> PassedClient | None:
        """The client of that number in the record."""
        return next((each for each in self.known() if each.info.number == connection), None)

    def sender(
        self, server: str, session: str, address: str, message: object, number: Callable[[], int]
    ) -> PassedClient:
        """Who sent a message; `number` gives the record's number of one more client."""
        about = _introduction(message)
        key = ClientKey(server, session) if session else ClientKey(server, "", about.name, address)
        client = self._by_key.pop(key, None)
        if client is None:
            name = about.name or address
            info = ConnectionInfo(number(), server, "http", name, about.revision, time.time())
            client = PassedClient(key, info, info.opened, capabilities=about.capabilities)
            self._recorder.connect(info)
        client.seen = time.time()
        self._by_key[key] = client
        if self._looking is None:
            self._look_again()
        elif len(self._by_key) > MOST:
            self._forget_quiet()
        return client

    def begin_session(self, client: PassedClient, session: str) -> None:
        """From now on a client is known by its session."""
        self._by_key.pop(client.key, None)
        client.key = ClientKey(client.key.server, session)
        self._by_key[client.key] = client

    def end(self, client: PassedClient) -> None:
        """A client has left."""
        if self._by_key.pop(client.key, None) is not None:
            client.info = replace(client.info, closed=time.time())
            self._recorder.connect(client.info)
            self._on_left(client.info.number)

    def _look_again(self) -> None:
        self._looking = asyncio.get_running_loop().call_later(self._ttl_s() / 4, self._look)

    def _look(self) -> None:
        self._looking = None
        self._forget_quiet()
        if self._by_key:
            self._look_again()

    def _forget_quiet(self) -> None:
        before = time.time() - self._ttl_s()
        for client in self.known():
            if client.seen >= before and len(self._by_key) <= MOST:
                return
            if not client.works:
                self.end(client)


class _Introduction(NamedTuple):
    name: str = ""
    revision: str = ""
    capabilities: JSONObject = {}


def _introduction(message: object) -> _Introduction:
    """What a message says of its sender: one that stands alone, or the first of a session."""
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
