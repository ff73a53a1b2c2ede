"""Receivers of change notifications: open sessions and listen streams.

On a listen stream, each notification has the id of the stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from mcpdesk.errors import RemoteProtocolError
from mcpdesk.protocol import codec
from mcpdesk.protocol.handshake import log_level as severity_of
from mcpdesk.protocol.jsonrpc import Id, invalid_params
from mcpdesk.protocol.revisions import Revision
from mcpdesk.protocol.stateless import SUBSCRIPTION_KEY

LIST_CHANGED = {
    "tool": ("toolsListChanged", "notifications/tools/list_changed"),
    "prompt": ("promptsListChanged", "notifications/prompts/list_changed"),
    "resource": ("resourcesListChanged", "notifications/resources/list_changed"),
    "template": ("resourcesListChanged", "notifications/resources/list_changed"),
}
"""For each kind of registry, the filter key of `subscriptions/listen` and the method of the notification."""

RESOURCE_UPDATED_METHOD = "notifications/resources/updated"
LIST, RESOURCE, LOG = "list-changed", "resource-updated", "log"
"""Kinds of notifications: a changed list, a changed resource, a log message of the server."""
RELAYED_KINDS = (LIST, RESOURCE, LOG)
"""Kinds that `Subscriptions.relay` sends to other processes."""


class Subscriber(Struct, eq=False):
    """One receiver: an open session, which gets every list change, or a listen stream.

    For a session, `listen_id` is None.
    """

    server: str
    send: Callable[[bytes], None]
    uris: set[str]
    list_keys: frozenset[str] = frozenset(key for key, _ in LIST_CHANGED.values())
    listen_id: Id | None = None
    mode: str = ""
    """Mode of the server that the receiver uses."""
    peer: Callable[[], str] | None = None
    """Function that returns the name of the client of an open session, or None for listen streams."""
    log_level: Callable[[], int | None] | None = None
    """Function that returns the lowest level of log messages that an open session wants, or None if the
    session wants no log messages.
    """

    is_connected: Callable[[], bool] | None = None
    """Function that returns True if this process must notify the receiver. If it is None, this process always
    notifies the receiver.
    """

    def notify(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Send a notification of this or another process, if it concerns this receiver."""
        if facts["server"] != self.server:
            return
        if kind == LIST:
            list_key, method = LIST_CHANGED[facts["kind"]]
            if list_key in self.list_keys and self.mode == facts["mode"]:
                self.send(_message(self, method, {}))
        elif kind == RESOURCE:
            if facts["uri"] in self.uris:
                self.send(_message(self, RESOURCE_UPDATED_METHOD, {"uri": facts["uri"]}))
        elif kind == LOG and self.peer is not None:
            self.log(facts["level"], facts["logger"], facts["data"])

    def log(self, level: str, logger: str, data: Any) -> None:
        """Send a log message to an open session, if it wants messages of this level."""
        min_severity = None if self.log_level is None else self.log_level()
        if min_severity is not None and severity_of(level) >= min_severity:
            params = {"level": level, "logger": logger, "data": data}
            self.send(codec.notification("notifications/message", params))


class Subscriptions:
    """All receivers of one core."""

    def __init__(self) -> None:
        self._subscribers: dict[int, Subscriber] = {}
        self._closed = asyncio.Event()
        self.relay: Callable[[str, Mapping[str, Any]], object] | None = None
        """Function that sends notifications to processes with the same clients, or None if this process has
        its clients alone.
        """

    def __len__(self) -> int:
        return len(self._subscribers)

    def add(self, subscriber: Subscriber) -> None:
        """Notify a receiver from now on."""
        self._subscribers[id(subscriber)] = subscriber

    def remove(self, subscriber: Subscriber) -> None:
        """Stop notifying a receiver. Ignored if it was already removed."""
        self._subscribers.pop(id(subscriber), None)

    async def until_closed(self) -> None:
        """Wait until the core stops."""
        await self._closed.wait()

    def close(self) -> None:
        """End every listen stream with its result."""
        self._closed.set()

    def list_changed(self, server: str, kind: str, mode: str = "") -> None:
        """Notify receivers of a changed list of `server`, as seen in `mode`."""
        self._publish(LIST, {"server": server, "kind": kind, "mode": mode})

    def resource_updated(self, server: str, uri: str) -> None:
        """Notify receivers of a changed resource."""
        self._publish(RESOURCE, {"server": server, "uri": uri})

    def log(self, server: str, level: str, logger: str, data: Any) -> list[str]:
        """Log to every open session of a server. Return the names of the notified clients."""
        self._publish(LOG, {"server": server, "level": level, "logger": logger, "data": data})
        return [each.peer() for each in self._subscribers_of(server) if each.peer is not None]

    def notify(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Notify receivers in this process of a change in another process."""
        for subscriber in self._subscribers_of(facts["server"]):
            subscriber.notify(kind, facts)

    def _publish(self, kind: str, facts: Mapping[str, Any]) -> None:
        if self.relay is not None:
            # This precedes the local receivers, so that sessions store a bus position after this message.
            self.relay(kind, facts)
        self.notify(kind, facts)

    def _subscribers_of(self, server: str) -> list[Subscriber]:
        subscribers = self._subscribers.values()
        return [
            each
            for each in subscribers
            if each.server == server and (each.is_connected is None or each.is_connected())
        ]


def check_count(count: int, max_count: int) -> None:
    """Reject subscriptions to more than `max_count` resources. Raises: RemoteProtocolError (-32602)."""
    if count > max_count:
        raise invalid_params(f"no more than {max_count} resources can be subscribed to (max_subscriptions)")


def resource_not_found(uri: str, revision: Revision) -> RemoteProtocolError:
    """Return the error for an unknown resource, with the code of the revision."""
    return RemoteProtocolError(revision.resource_not_found, f"Resource not found: {uri[:200]}", {"uri": uri})


def _message(subscriber: Subscriber, method: str, params: dict[str, Any]) -> bytes:
    if subscriber.listen_id is not None:
        params = params | {"_meta": {SUBSCRIPTION_KEY: subscriber.listen_id}}
    return codec.notification(method, params)
