"""Who wants to hear of changes, and telling them: tagged to listeners, untagged to open sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from mcpdesk.protocol import codec
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
    """One receiver: an open session (`listen_id` None, hears every list change) or one listen stream."""

    server: str
    send: Callable[[bytes], None]
    uris: set[str]
    wanted: frozenset[str] = frozenset(key for key, _ in LIST_CHANGED.values())
    listen_id: Id | None = None
    mode: str = ""
    """The mode in which it sees the server."""


class Subscriptions:
    """All receivers of one core."""

    def __init__(self) -> None:
        self._subscribers: dict[int, Subscriber] = {}
        self._closed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._subscribers)

    def add(self, subscriber: Subscriber) -> None:
        """Start telling a receiver."""
        self._subscribers[id(subscriber)] = subscriber

    def remove(self, subscriber: Subscriber) -> None:
        """Stop telling it; harmless when it is gone."""
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
