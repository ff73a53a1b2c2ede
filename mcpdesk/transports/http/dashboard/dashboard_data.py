"""What the dashboard shows and does, as a value that whoever starts a core hands to its HTTP listener.

Everything is JSON already: a transport knows nothing of jobs, questions and clients beyond passing them on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

PATH = "/dashboard"
"""Where the dashboard is, and the only place its cookie is sent to."""
Verdict: TypeAlias = tuple[int, Mapping[str, Any]]
"""HTTP status and JSON object: what became of something that was asked for."""


class TrafficLines(Protocol):
    """The newest lines of the traffic that one filter lets pass. One thread at a time may look."""

    def look(self) -> Mapping[str, Any] | None:
        """What changed since the last look; None: nothing."""

    def everything(self) -> Mapping[str, Any]:
        """The same for somebody who has seen nothing yet."""

    def before(self, line: int, most: int) -> Mapping[str, Any]:
        """At most so many lines older than a line."""


class Board(Protocol):
    """A core as people see it in a browser. What is not `async` may take milliseconds: not for the loop."""

    def sections(self) -> Mapping[str, Any]:
        """Everything small, by name. What did not change since the last look is the same object."""

    def lines(self, filter_text: str) -> TrafficLines:
        """The traffic through a filter. Raises: DeskError for one that cannot be understood."""

    def exchange(self, number: int) -> Mapping[str, Any] | None:
        """One exchange in full, secrets masked; None where there is none of that number."""

    def output(self, job: str, after: int) -> Mapping[str, Any] | None:
        """What a job wrote from there on; -1 for its end. None for what has no output."""

    def config(self, server: str, client: str) -> str:
        """Text to paste into a client's configuration, a placeholder in place of the key.

        Raises: DeskError for a server or client there is not.
        """

    def attend(self, count: int) -> None:
        """So many people more look (less, when negative): questions can be answered here."""

    async def act(self, name: str, given: Any, by: str) -> Verdict:
        """Do something: answer a question, cancel a job. `by` is shown to others who would have."""
