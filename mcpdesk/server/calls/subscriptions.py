"""Receivers of change notifications: listen streams get them tagged, open sessions untagged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from mcpdesk.protocol import codec
from mcpdesk.protocol.handshake import log_level as severity_of
from mcpdesk.protocol.jsonrpc import Id, invalid_params
from mcpdesk.protocol.stateless import SUBSCRIPTION_KEY

LIST_CHANGED = {
    "tool": ("toolsListChanged", "notifications/tools/list_changed"),
    "prompt": ("promptsListChanged", "notifications/prompts/list_changed"),
    "resource": ("resourcesListChanged", "notifications/resources/list_changed"),
    "template": ("resourcesListChanged", "notifications/resources/list_changed"),
}
"""Registry kind to the filter key of `subscriptions/listen` and the notification's method."""

UPDATED = "notifications/resources/updated"


class Subscriber(Struct, eq=False):
    """One receiver: an open session (`listen_id` None, gets every list change) or one listen stream."""

    server: str
    send: Callable[[bytes], None]
    uris: set[str]
    wanted: frozenset[str] = frozenset(key for key, _ in LIST_CHANGED.values())
    listen_id: Id | None = None
    mode: str = ""
    """The mode in which it sees the server."""
    peer: Callable[[], str] | None = None
    """Who it is, for an open session."""
    log_level: Callable[[], int | None] | None = None
    """The least severe messages an open session wants; None: it wants none, as listen streams do."""

    def log(self, level: str, logger: str, data: Any) -> None:
        """Log to an open session what belongs to no request, if it wants messages of that level."""
        wanted = None if self.log_level is None else self.log_level()
        if wanted is not None and severity_of(level) >= wanted:
            params = {"level": level, "logger": logger, "data": data}
            self.send(codec.notification("notifications/message", params))


class Subscriptions:
    """All receivers of one core."""

    def __init__(self) -> None:
        self._subscribers: dict[int, Subscriber] = {}
        self._closed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._subscribers)

    def add(self, subscriber: Subscriber) -> None:
        """Notify a receiver from now on."""
        self._subscribers[id(subscriber)] = subscriber

    def remove(self, subscriber: Subscriber) -> None:
        """Notify it no more; harmless when it is gone."""
        self._subscribers.pop(id(subscriber), None)

    async def until_closed(self) -> None:
        """Wait until the core goes down."""
        await self._closed.wait()

    def close(self) -> None:
        """End every listen stream with its result."""
        self._closed.set()

    def list_changed(self, server: str, kind: str, mode: str = "") -> None:
        """A registry of `server`, as it is seen in `mode`, changed."""
        wanted, method = LIST_CHANGED[kind]
        for subscriber in self._of(server):
            if wanted in subscriber.wanted and subscriber.mode == mode:
                subscriber.send(_message(subscriber, method, {}))

    def resource_updated(self, server: str, uri: str) -> None:
        """The contents behind a URI changed."""
        for subscriber in self._of(server):
            if uri in subscriber.uris:
                subscriber.send(_message(subscriber, UPDATED, {"uri": uri}))

    def log(self, server: str, level: str, logger: str, data: Any) -> list[str]:
        """Log to every open session of a server; returns who they are."""
        sessions = [each for each in self._of(server) if each.peer is not None]
        for each in sessions:
            each.log(level, logger, data)
        return [each.peer() for each in sessions if each.peer is not None]

    def _of(self, server: str) -> list[Subscriber]:
        return [each for each in self._subscribers.values() if each.server == server]


def check_count(resources: int, most: int) -> None:
    """Refuse subscriptions to more than `most` resources. Raises: RemoteProtocolError (-32602)."""
    if resources > most:
        raise invalid_params(f"no more than {most} resources can be subscribed to (max_subscriptions)")


def _message(subscriber: Subscriber, method: str, params: dict[str, Any]) -> bytes:
    if subscriber.listen_id is not None:
        params = params | {"_meta": {SUBSCRIPTION_KEY: subscriber.listen_id}}
    return codec.notification(method, params)
