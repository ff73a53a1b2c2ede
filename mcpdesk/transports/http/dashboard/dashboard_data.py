"""Data and actions of the dashboard: an interface that a core provides to its HTTP listener.

All values are JSON already, so the transport needs no knowledge of jobs, questions and clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

PATH = "/dashboard"
"""Path of the dashboard, and the only path its cookie is sent to."""
OPERATOR_HEADER = "X-Operator-Key"
"""Header with the operator's credential, for programs."""
Verdict: TypeAlias = tuple[int, Mapping[str, Any]]
"""HTTP status and JSON object of the answer to an action."""


class TrafficLines(Protocol):
    """Newest lines of the traffic that match one filter. Not thread-safe."""

    def look(self) -> Mapping[str, Any] | None:
        """Return the changes since the last call, or None without any."""

    def everything(self) -> Mapping[str, Any]:
        """Return all lines, for a page that has none yet."""

    def before(self, line: int, most: int) -> Mapping[str, Any]:
        """Return at most `most` lines older than `line`."""


class Board(Protocol):
    """Core as a browser shows it.

    Methods that are not `async` may take milliseconds; call them on a thread.
    """

    def sections(self) -> Mapping[str, Any]:
        """Return all sections by name. An unchanged section is the same object as before."""

    def lines(self, filter_text: str) -> TrafficLines:
        """Return the traffic that matches a filter. Raises: DeskError for an invalid filter."""

    def exchange(self, number: int) -> Mapping[str, Any] | None:
        """Return one exchange in full, with secrets masked, or None if the number is unknown."""

    def output(self, job: str, after: int) -> Mapping[str, Any] | None:
        """Return the output of a job from `after` on, or its end for -1. None without output."""

    def config(self, server: str, client: str) -> str:
        """Return the text for a client's configuration, with a placeholder for the key.

        Raises: DeskError for an unknown server or client.
        """

    def attend(self, count: int) -> None:
        """Add `count` viewers, or remove them if negative. With viewers, questions can be answered here."""

    async def act(self, name: str, given: Any, by: str) -> Verdict:
        """Perform an action, such as answering a question. `by` is shown to others who tried the same."""
