"""Reports about callbacks: to the person at the desk, and to the clients of their servers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from mcpdesk.errors import StorageError
from mcpdesk.hosting.journal import Journal, Notice, Severity
from mcpdesk.server.calls.services import Services

if TYPE_CHECKING:
    from mcpdesk.hosting.hosted_folder import HostedFolder
    from mcpdesk.server.calls.subscriptions import Subscriber
    from mcpdesk.server.state.callback_timers import CallbackTimers
    from mcpdesk.server.state.server_state import ServerState
    from mcpdesk.storage.callbacks import Callback


class CallbackReports:
    """Reports about the callbacks of all servers of a core. Used on the core's loop."""

    def __init__(
        self,
        services: Services,
        journal: Journal,
        folders: Mapping[str, HostedFolder],
        start_chore: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._services = services
        self._journal = journal
        self._folders = folders
        self._start_chore = start_chore

    def observe(self, server: str, state: ServerState) -> None:
        """Report callbacks of a server from now on."""
        state.on_callback = partial(self._on_callback, server)
        state.notify_person = partial(self._notify_person, server)
        state.log_to_clients = partial(self._notify_clients, server)

    def report_missed(self, subscriber: Subscriber) -> None:
        """Notify a newly connected client of the callbacks that fired while it was disconnected."""
        state = self._folders[subscriber.server].server.hosted
        if state is not None and state.has_created("callbacks") and subscriber.peer is not None:
            self._start_chore(self._send_missed(subscriber, state.callbacks, subscriber.peer()))

    async def _send_missed(self, subscriber: Subscriber, callbacks: CallbackTimers, peer: str) -> None:
        """Send a log message about each callback that fired while a client was disconnected."""
        from mcpdesk.server.state.callback_timers import fired_data

        try:
            for callback in await callbacks.missed(peer):
                subscriber.log("notice", "callback", fired_data(callback))
        except StorageError as error:
            self._journal.log("error", "callback", str(error), "", subscriber.server)

    def _notify_person(self, server: str, message: str) -> None:
        self._journal.notify(f"{server}: {message}", Severity.ERROR, "logs")

    def _notify_clients(self, server: str, level: str, data: Any) -> list[str]:
        return self._services.subscriptions.log(server, level, "callback", data)

    def _on_callback(self, server: str, callback: Callback, has_fired: bool) -> None:
        """Report that a callback was stored, fired or ended."""
        self._services.subscriptions.resource_updated(server, f"callback://{callback.id}")
        if has_fired:
            self._journal.log("notice", "callback", callback.message, "", server)
            message = f"Callback {callback.id} of {server}: {callback.message}"
            self._journal.keep_notice(Notice(0, message, Severity.INFO, "activity/callbacks"))
