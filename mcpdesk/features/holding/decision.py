"""Decision of a person about a held message."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from mcpdesk.features.holding.held_message import HeldMessage, Verdict
from mcpdesk.protocol.jsonrpc import Id, JSONObject


class Decision(Struct, frozen=True):
    """Verdict, and the message to use instead of the held message."""

    how: Verdict
    message: JSONObject = {}


class Waiting:
    """Held message that waits for a decision.

    `of` is the id of the request that a server's message is about.
    """

    def __init__(self, shown: HeldMessage, message: JSONObject, of: Id | None) -> None:
        self.shown = shown
        self.message = message
        self.of = of
        self.decision: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        self.timer: asyncio.TimerHandle | None = None

    def decide(self, decision: Decision) -> None:
        """Release the message with this decision. Later decisions are ignored."""
        if not self.decision.done():
            self.decision.set_result(decision)
