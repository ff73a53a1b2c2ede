"""What a server's handlers may use of the process around them, handed in as values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Struct, field

from mcpdesk.inbox.inbox import Inbox
from mcpdesk.jobs.store import JobStore
from mcpdesk.server.deadlines import Deadlines
from mcpdesk.server.rounds import Rounds
from mcpdesk.server.subscriptions import Subscriptions


class Log(Protocol):
    """Where log lines of hosted code go besides the wire."""

    def __call__(
        self, level: str, source: str, text: str, where: str = "", server: str = "", trace: str = ""
    ) -> None:
        """Keep one line. `where` is `file:line` when known, `trace` the id of the caller's trace."""


class Mask(Protocol):
    """Makes secrets illegible."""

    def __call__(self, value: Any, schema: Any = None) -> Any:
        """A copy of a JSON value without its secrets. `schema` is its JSON Schema, if there is one."""


def _unmasked(value: Any, schema: Any = None) -> Any:
    return value


class Services(Struct, frozen=True):
    """One per core, shared by all its servers."""

    inbox: Inbox
    log: Log
    deadlines: Deadlines = field(default_factory=Deadlines)
    subscriptions: Subscriptions = field(default_factory=Subscriptions)
    rounds: Rounds = field(default_factory=Rounds)
    jobs: JobStore = field(default_factory=JobStore)
    mask: Mask = _unmasked
    """For what a person is shown of a call."""
    environment: Callable[[], dict[str, str]] = dict
    """The process environment without what is secret in it: for `context.py` on pipes, and for programs."""
