"""The body of a request whose head is known, while it comes in pieces."""

from __future__ import annotations

from mcpdesk.transports.http.budget import Holding
from mcpdesk.transports.http.repeated import Known


class Arriving:
    """Gathers a body as far as the budget of all bodies goes. What it holds is to be given back."""

    __slots__ = ("_holding", "_missing", "_pieces", "known")

    def __init__(self, known: Known, holding: Holding) -> None:
        self.known = known
        self._missing = known.size
        self._pieces: list[bytes] = []
        self._holding = holding

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing."""
        return not self._missing

    def take(self, data: bytes) -> bytes | None:
        """Add what came and return what lies behind the body's end; None: that would be too many bytes."""
        piece = data if len(data) <= self._missing else data[: self._missing]
        if not self._holding.take(len(piece)):
            return None
        self._missing -= len(piece)
        self._pieces.append(piece)
        return data[len(piece) :]

    def body(self) -> bytes:
        """The whole."""
        return b"".join(self._pieces)

    def give_back(self) -> None:
        """Hold nothing any more."""
        self._pieces.clear()
        self._holding.give_back()
