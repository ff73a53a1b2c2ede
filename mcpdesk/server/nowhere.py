"""Where messages of a call go while nobody listens to it."""

from __future__ import annotations


class Nowhere:
    """An outlet that drops what it is given."""

    may_send = False
    must_drain = False

    def send(self, message: bytes) -> None:
        """Drop it."""

    def series(self, before: bytes, after: bytes) -> None:
        """There is no place for any."""

    async def drain(self) -> None:
        """Nothing is queued."""

    def keep_alive(self) -> None:
        """There is no connection."""

    async def let_go(self, retry_ms: int) -> bool:
        """There is nothing to close."""
        return False


NOWHERE = Nowhere()
