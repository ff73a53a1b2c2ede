"""Watched resources of a connection, with the number of updates of each."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any

from mcpdesk.client.connection import ServerConnection
from mcpdesk.client.subscriptions.subscription import Subscription
from mcpdesk.client.transport import ServerResponse
from mcpdesk.errors import CallError
from mcpdesk.protocol.jsonrpc import JSONObject


class ResourceWatch:
    """Watched resources of one connection.

    Use an instance on the event loop of the connection. `updates` may be read on any thread.
    """

    def __init__(self, connection: ServerConnection) -> None:
        self.updates: Mapping[str, int] = {}
        """Number of update notifications by URI.

        An update replaces the mapping and never changes it, so any thread may read it.
        """
        self._connection = connection
        self._listen_task: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        connection.listeners.append(self._on_notification)
        connection.new_session_listeners.append(self._subscribe_again)

    def add(self, uri: str) -> None:
        """Start to watch a resource."""
        if uri not in self.updates:
            self.updates = {**self.updates, uri: 0}
            self._begin(self._send_request("resources/subscribe", uri))

    def remove(self, uri: str) -> None:
        """Stop watching a resource."""
        if uri in self.updates:
            self._forget(uri)
            self._begin(self._send_request("resources/unsubscribe", uri))

    def close(self) -> None:
        """Stop watching all resources. Remove the listeners, because the connection may remain in use."""
        with suppress(ValueError):  # already closed
            self._connection.listeners.remove(self._on_notification)
            self._connection.new_session_listeners.remove(self._subscribe_again)
        for task in self._tasks:
            task.cancel()

    def _on_notification(self, method: str, params: JSONObject) -> None:
        uri = params.get("uri")
        if method == "notifications/resources/updated" and isinstance(uri, str) and uri in self.updates:
            self.updates = {**self.updates, uri: self.updates[uri] + 1}

    def _subscribe_again(self) -> None:
        """Subscribe again in a new session. Count an update of each resource, which may have been missed."""
        for uri in self.updates:
            self._begin(self._send_request("resources/subscribe", uri))
        self._count_missed_updates()

    def _count_missed_updates(self) -> None:
        self.updates = {uri: count + 1 for uri, count in self.updates.items()}

    async def _send_request(self, method: str, uri: str) -> None:
        """Send `method` for one resource. In the stateless era, open a new subscription to all resources."""
        agreement = await self._connection.open()
        if not agreement.revision.is_stateless:
            self._connection.listen()
            if not await self._succeeds(self._connection.request(method, {"uri": uri})):
                self._forget(uri)
            return
        # The next subscription opens before the previous one ends, so that no update is missed.
        previous_task, self._listen_task = self._listen_task, None
        if self.updates:
            self._listen_task = self._begin(self._follow(list(self.updates)))
            await asyncio.sleep(0)
        if previous_task is not None:
            previous_task.cancel()

    async def _follow(self, uris: list[str]) -> None:
        """Subscribe until the server refuses, or renewals fail too often. Then stop watching all resources.

        A renewed subscription counts as an update of each resource, because updates may have been missed.
        """
        filters = {"resourceSubscriptions": uris}
        subscription = Subscription(
            self._connection, filters, self._count_missed_updates, lambda reason: None
        )
        await subscription.follow()
        if self._listen_task is asyncio.current_task():
            self._listen_task, self.updates = None, {}

    async def _succeeds(self, request: Coroutine[Any, Any, ServerResponse]) -> bool:
        try:
            return (await request).error is None
        except CallError:
            return False

    def _forget(self, uri: str) -> None:
        self.updates = {key: count for key, count in self.updates.items() if key != uri}

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
