"""What the dashboard shows and does: an interface that a core gives to its HTTP listener.

Everything is JSON already: a transport knows nothing of jobs, questions and clients beyond passing them on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

PATH = "/dashboard"
"""Where the dashboard is, and the only place its cookie is sent to."""
OPERATOR_HEADER = "X-Operator-Key"
"""Header with the operator's credential, for programs."""
Verdict: TypeAlias = tuple[int, Mapping[str, Any]]
"""HTTP status and JSON object that answer an action."""


class TrafficLines(Protocol):
    """The newest lines of the traffic that one filter lets pass. One thread at a time may look."""

    def look(self) -> Mapping[str, Any] | None:
        """Return what changed since the last call; None: nothing."""

    def everything(self) -> Mapping[str, Any]:
        """Return the same for a page that has seen nothing yet."""

    def before(self, line: int, most: int) -> Mapping[str, Any]:
        """Return at most so many lines older than a line."""


class Board(Protocol):
    """A core as a browser shows it. What is not `async` may take milliseconds, and runs on a thread."""

    def sections(self) -> Mapping[str, Any]:
        """Return all sections by name. One that did not change is the same object as before."""

    def lines(self, filter_text: str) -> TrafficLines:
        """Return the traffic that a filter lets pass. Raises: DeskError for a wrong filter."""

    def exchange(self, number: int) -> Mapping[str, Any] | None:
        """Return one exchange in full, with secrets masked; None when there is none of that number."""

    def output(self, job: str, after: int) -> Mapping[str, Any] | None:
        """Return what a job wrote from `after` on, or its end for -1. None: there is no output."""

    def config(self, server: str, client: str) -> str:
        """Return the text for a client's configuration, with a placeholder for the key.

        Raises: DeskError for a server or client there is not.
        """

    def attend(self, count: int) -> None:
        """Count people who look, or no longer do when negative: questions can be answered here."""

    async def act(self, name: str, given: Any, by: str) -> Verdict:
        """Perform an action, such as answering a question. `by` is shown to others who tried the same."""
