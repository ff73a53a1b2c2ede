"""Time that a call spends in its handler, in waiting, and in shaping its result."""

from __future__ import annotations

from time import monotonic, time
from typing import Protocol

from msgspec import Struct

from mcpdesk.protocol.phases import Phases


class Waits(Struct):
    """Seconds that a call waited. A wait for both client and person counts as a wait for the person."""

    client_s: float = 0.0
    person_s: float = 0.0
    clients: int = 0
    """Number of questions that the client has not answered yet."""
    persons: int = 0
    """Number of questions that a person has not answered yet."""
    since: float = 0.0
    """Time up to which the seconds are counted, by `time.monotonic`."""

    def change(self, by: int, *, is_client: bool) -> None:
        """Record that a question was asked (1) or answered (-1)."""
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
        """Reset the seconds for another request of the same operation."""
        self.count()
        self.client_s = self.person_s = 0.0


class MeasuredCall(Protocol):
    """Call, as far as measuring needs it. Times are by `time.monotonic`."""

    began: float
    """Time at which its handler began, or at which it first had to wait; 0 if it never did."""
    handled: float
    """Time at which its handler finished; 0 if it did not."""
    waits: Waits | None


def waited_s(call: MeasuredCall) -> float:
    """Return the seconds for which a call has waited for its client and for people."""
    if call.waits is None:
        return 0.0
    call.waits.count()
    return call.waits.client_s + call.waits.person_s


def measured(call: MeasuredCall) -> Phases:
    """Return the phases of a call whose response is ready now."""
    now, waits = monotonic(), call.waits
    handled = call.handled or now
    began = call.began or handled
    shaping = int((now - handled) * 1e6)
    if waits is None:
        return Phases(time(), int((handled - began) * 1e6), 0, 0, shaping)
    waits.count()
    client, person = waits.client_s, waits.person_s
    spent = max(0.0, handled - began - client - person)
    return Phases(time(), int(spent * 1e6), int(client * 1e6), int(person * 1e6), shaping)
