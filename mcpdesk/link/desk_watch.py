"""Resources whose changes the desk wants to hear of: one listen request, or subscriptions one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mcpdesk.protocol.revisions import Revision

Send = Callable[[str, dict[str, Any]], int]
"""Sends a request and returns its id."""


class DeskWatch:
    """Those of one connection; used on the core's loop, but `updates` is for any thread.

    `withdraw` cancels a request by its id.
    """

    def __init__(self, revision: Revision, send: Send, withdraw: Callable[[int], None]) -> None:
        self.updates: Mapping[str, int] = {}
        """URI -> how often it was said to have changed. Replaced as a whole."""
        self._is_stateless = revision.is_stateless
        self._send = send
        self._withdraw = withdraw
        self._listen: int | None = None
        self._asked: dict[int, str] = {}

    def add(self, uri: str) -> None:
        """Hear of a resource from now on."""
        if uri not in self.updates:
            self.updates = {**self.updates, uri: 0}
            self._ask("resources/subscribe", uri)

    def remove(self, uri: str) -> None:
        """Hear of it no more."""
        if uri in self.updates:
            self.updates = {key: count for key, count in self.updates.items() if key != uri}
            self._ask("resources/unsubscribe", uri)

    def updated(self, uri: str) -> None:
        """The server says that a resource changed."""
        if uri in self.updates:
            self.updates = {**self.updates, uri: self.updates[uri] + 1}

    def answered(self, request_id: int, is_error: bool) -> bool:
        """A response came; True when it was to a request of this. What is refused is heard of no more."""
        if request_id == self._listen:
            self._listen = None
            self.updates = {}
            return True
        uri = self._asked.pop(request_id, None)
        if uri is not None and is_error:
            self.updates = {key: count for key, count in self.updates.items() if key != uri}
        return uri is not None

    def _ask(self, method: str, uri: str) -> None:
        if not self._is_stateless:
            self._asked[self._send(method, {"uri": uri})] = uri
            return
        # The next one is opened before the last one ends, so that nothing is missed in between.
        last, self._listen = self._listen, None
        if self.updates:
            wanted = {"resourceSubscriptions": list(self.updates)}
            self._listen = self._send("subscriptions/listen", {"notifications": wanted})
        if last is not None:
            self._withdraw(last)
