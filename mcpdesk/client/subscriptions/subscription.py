"""A subscription to a server's notifications in the stateless era, renewed when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mcpdesk.client.connection import ServerConnection
from mcpdesk.client.flows import CallObserver
from mcpdesk.errors import CallError, HttpError
from mcpdesk.protocol.jsonrpc import JSONObject

ACKNOWLEDGEMENT_TIMEOUT_S = 1.0
"""Maximum seconds that work waits for the acknowledgement of the subscription that it needs."""
RENEW_S = 1.0
"""Pause before an ended subscription is renewed. It doubles while renewals fail."""
MAX_PAUSE_S = 30.0
"""Longest pause in seconds before an ended subscription is renewed."""
TEMPORARY_STATUSES = (408, 425, 429)
"""Client error statuses after which a later attempt may succeed. Source: RFC 9110, RFC 8470, RFC 6585."""
MAX_FAILURES = 10
"""Number of consecutive failures after which the client gives up: subscriptions that ended at once or without
an acknowledgement.
"""


class Subscription(CallObserver):
    """Subscription of one connection, used on the connection's event loop.

    Proxies close idle streams, and servers restart, so an ended subscription is renewed.
    """

    def __init__(
        self,
        connection: ServerConnection,
        filters: JSONObject,
        on_renewed: Callable[[], None],
        log: Callable[[str], None],
        *,
        on_end: Callable[[str], None] = lambda reason: None,
        renew_s: float | None = None,
        longest_pause_s: float = MAX_PAUSE_S,
    ) -> None:
        """`filters` select the notifications.

        `on_renewed` is called when notifications may have been missed. `on_end` is called with the reason for
        each end after which the subscription is renewed, and `log` with the reason for the last end.
        `renew_s` is the first pause in seconds, by default `RENEW_S`.
        """
        self.failure: CallError | None = None
        """Error with which the latest subscription ended, or None if the server ended it."""
        self._connection = connection
        self._filters = filters
        self._on_renewed = on_renewed
        self._log = log
        self._on_end = on_end
        self._renew_s = RENEW_S if renew_s is None else renew_s
        self._longest_pause_s = longest_pause_s
        self._failures = 0
        self._is_acknowledged = False
        self._begun_event = asyncio.Event()

    async def wait_until_begun(self) -> None:
        """Wait until the server has acknowledged or refused the subscription.

        After an acknowledgement, a notification reports every change of the server's state. The wait ends
        after `ACKNOWLEDGEMENT_TIMEOUT_S`. If the acknowledgement arrives later, `on_renewed` is called,
        because notifications may have been missed.
        """
        try:
            async with asyncio.timeout(ACKNOWLEDGEMENT_TIMEOUT_S):
                await self._begun_event.wait()
        except TimeoutError:
            self._begun_event.set()

    async def follow(self) -> None:
        """Subscribe, and renew the subscription when it ends.

        Return when the server refuses it, the program ended, or renewals failed too often.
        """
        try:
            while reason := await self._subscribe():
                if self._failures == MAX_FAILURES:
                    self._log(f"it was given up after {MAX_FAILURES} attempts: {reason}")
                    return
                self._on_end(reason)
                await asyncio.sleep(self._pause_s)
        finally:
            self._begun_event.set()

    async def _subscribe(self) -> str:
        """Subscribe until the subscription ends. Return the reason, or "" if it must not be renewed."""
        self._is_acknowledged = False
        self.failure = None
        refusal = ""
        loop = asyncio.get_running_loop()
        start_time = loop.time()
        try:
            params = {"notifications": self._filters}
            response = await self._connection.request("subscriptions/listen", params, observer=self)
            response.value()
            reason = "the server ended the subscription"
        except HttpError as error:
            self.failure = error
            is_refused = 400 <= error.status < 500 and error.status not in TEMPORARY_STATUSES
            refusal = error.message if is_refused else ""
            reason = error.message
        except CallError as error:
            self.failure = error
            refusal = reason = error.message
        if refusal:
            self._log(refusal)
            return ""
        has_lasted = self._is_acknowledged and loop.time() - start_time >= self._renew_s
        self._failures = 0 if has_lasted else self._failures + 1
        return reason

    @property
    def _pause_s(self) -> float:
        return float(min(self._renew_s * 2 ** max(0, self._failures - 1), self._longest_pause_s))

    def acknowledged(self) -> None:
        """Record that notifications arrive from now on."""
        self._is_acknowledged = True
        if self._begun_event.is_set():
            self._on_renewed()
        self._begun_event.set()
