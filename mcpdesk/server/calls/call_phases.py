"""Time that a call waits for its client and for people."""

from __future__ import annotations

from time import monotonic

from msgspec import Struct


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
