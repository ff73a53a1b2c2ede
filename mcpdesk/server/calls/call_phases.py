"""Measures where the time of a call goes: in its handler, in waiting, in shaping what it returned."""

from __future__ import annotations

from time import monotonic, time
from typing import Protocol

from msgspec import Struct

from mcpdesk.protocol.phases import Phases


class Waits(Struct):
    """What a call waited for, in seconds. While it waits for both, it waits for the person."""

    client_s: float = 0.0
    person_s: float = 0.0
    clients: int = 0
    """Questions the client has not answered yet."""
    persons: int = 0
    """Questions a person has not answered yet."""
    since: float = 0.0
    """Until when the seconds are counted, by `time.monotonic`."""

    def change(self, by: int, *, is_client: bool) -> None:
        """A question is asked (1) or answered (-1)."""
        self.count()
        if is_client:
            self.clients += by
        else:
            self.persons += by

    def count(self) -> None:
        """Count the seconds up to now."""
        now = monotonic()
        if self.persons:
            self.person_s += now - self.since
        elif self.clients:
            self.client_s += now - self.since
        self.since = now

    def restart(self) -> None:
        """Count from now on, for another request of the same operation."""
        self.count()
        self.client_s = self.person_s = 0.0


class MeasuredCall(Protocol):
    """What is needed of a call; times by `time.monotonic`."""

    began: float
    """When its handler began."""
    handled: float
    """When its handler was done; 0: it came to no end."""
    waits: Waits | None


def measured(call: MeasuredCall) -> Phases:
    """The phases of a call whose answer is ready now."""
    now = monotonic()
    handled = call.handled or now
    spent, client, person = handled - call.began, 0, 0
    if (waits := call.waits) is not None:
        waits.count()
        spent = max(0.0, spent - waits.client_s - waits.person_s)
        client, person = int(waits.client_s * 1e6), int(waits.person_s * 1e6)
    return Phases(time(), int(spent * 1e6), client, person, int((now - handled) * 1e6))
