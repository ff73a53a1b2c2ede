"""Decision of a person about a held message."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from mcpdesk.features.holding.held_message import HeldMessage, Verdict
from mcpdesk.protocol.jsonrpc import Id, JSONObject


class Decision(Struct, frozen=True):
    """Decision about one held message."""

    verdict: Verdict
    message: JSONObject = {}
    """Message that replaces the held message, or answers it. Empty if the verdict needs no message."""


class Waiting:
    """Held message that waits for a decision."""

    def __init__(self, view: HeldMessage, message: JSONObject, request_id: Id | None) -> None:
        self.view = view
        """Held message in the form for front ends."""
        self.message = message
        self.request_id = request_id
        """Id of the request that a server's message is about, or None if there is none."""
        self.decision: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        self.timer: asyncio.TimerHandle | None = None
        """Timer that releases the message, or None."""

    def decide(self, decision: Decision) -> None:
        """Release the message with this decision. Later decisions are ignored."""
        if not self.decision.done():
            self.decision.set_result(decision)
