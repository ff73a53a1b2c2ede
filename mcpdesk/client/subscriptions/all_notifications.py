"""All notifications of a server, in both eras."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mcpdesk.client.connection import LISTS, ServerConnection
from mcpdesk.client.subscriptions.subscription import Subscription


async def follow_notifications(
    connection: ServerConnection,
    uris: Sequence[str],
    begun: Callable[[], None],
    ended: Callable[[str], None],
    renewed: Callable[[], None],
) -> None:
    """Subscribe to notifications, including updates of these resources.

    Return when the server ends the subscription for good. In the stateless era, a subscription that ends is
    renewed: `ended` is called with the reason, and `renewed` when notifications arrive again.

    `begun` is called once notifications can arrive. Raises: CallError if the server refuses, the connection
    ends, or renewals failed too often.
    """
    agreement = await connection.open()
    if not agreement.revision.is_stateless:
        await connection.listening()
        for uri in uris:
            await connection.result("resources/subscribe", {"uri": uri})
        begun()
        await connection.until_deaf()
        return
    wanted = {**LISTS, "resourceSubscriptions": list(uris)}
    subscription = Subscription(connection, wanted, renewed, lambda reason: None, ended=ended)
    begun()
    await subscription.follow()
    if subscription.failure is not None:
        raise subscription.failure
