"""All notifications of a server, in both eras."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from mcpdesk.client.connection import LIST_CHANGES_FILTER, ServerConnection
from mcpdesk.client.subscriptions.subscription import Subscription
from mcpdesk.client.timing import RenewalPace
from mcpdesk.errors import HttpError, RpcError

FORGOTTEN_SESSION = "the server has forgotten the session"


async def follow_notifications(
    connection: ServerConnection,
    uris: Sequence[str],
    on_begin: Callable[[], None],
    on_end: Callable[[str], None],
    on_renewed: Callable[[], None],
    on_refusal: Callable[[str, str], None] = lambda uri, reason: None,
) -> None:
    """Subscribe to all notifications, and to updates of the resources `uris`.

    If the subscription ends, it is renewed. In the handshake era, a subscription ends with its session.
    Return when the server sends no further notifications.

    `on_begin` is called once notifications can arrive. `on_end` is called with the reason for each end, and
    `on_renewed` when notifications can arrive again. `on_refusal` is called with each URI that cannot be
    subscribed to in a new session, and the reason.

    Raises: CallError if the server refuses, the connection ends, or renewals failed too often.
    """
    agreement = await connection.open()
    if not agreement.revision.is_stateless:
        await _follow_sessions(connection, uris, on_begin, on_end, on_renewed, on_refusal)
        return
    filters = {**LIST_CHANGES_FILTER, "resourceSubscriptions": list(uris)}
    subscription = Subscription(connection, filters, on_renewed, lambda reason: None, on_end=on_end)
    on_begin()
    await subscription.follow()
    if subscription.failure is not None:
        raise subscription.failure


async def _follow_sessions(
    connection: ServerConnection,
    uris: Sequence[str],
    on_begin: Callable[[], None],
    on_end: Callable[[str], None],
    on_renewed: Callable[[], None],
    on_refusal: Callable[[str, str], None],
) -> None:
    """Subscribe in the handshake era, and again in each session that replaces a forgotten one."""
    new_session_event = asyncio.Event()

    async def subscribe() -> None:
        for uri in uris:
            await connection.result("resources/subscribe", {"uri": uri})

    async def subscribe_again() -> None:
        for uri in uris:
            try:
                await connection.result("resources/subscribe", {"uri": uri})
            except RpcError as error:
                on_refusal(uri, error.message)

    async def renew() -> None:
        while True:
            await new_session_event.wait()
            on_end(FORGOTTEN_SESSION)
            pace = RenewalPace()
            new_session_event.clear()
            await subscribe_again()
            while new_session_event.is_set():  # the server lost this session as well
                await pace.pause(HttpError(FORGOTTEN_SESSION), has_received=False)
                new_session_event.clear()
                await subscribe_again()
            on_renewed()

    connection.new_session_listeners.append(new_session_event.set)
    tasks = list[asyncio.Task[None]]()
    try:
        await connection.open_listening_stream()
        await subscribe()
        on_begin()
        tasks = [asyncio.create_task(connection.wait_until_notifications_end()), asyncio.create_task(renew())]
        finished_tasks, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in finished_tasks:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        connection.new_session_listeners.remove(new_session_event.set)
