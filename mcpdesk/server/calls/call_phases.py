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
    """When its handler began, or it had to wait before; 0: it never did."""
    handled: float
    """When its handler was done; 0: it came to no end."""
    waits: Waits | None


def waited_s(call: MeasuredCall) -> float:
    """For how many seconds a call waited for its client and for people up to now."""
    if call.waits is None:
        return 0.0
    call.waits.count()
    return call.waits.client_s + call.waits.person_s


def measured(call: MeasuredCall) -> Phases:
    """The phases of a call whose answer is ready now."""
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
