"""Report of a bench about a client. It is also the schema of `oauth-bench --json` and `era-bench --json`.

Texts may contain unsafe characters.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

VERSION = 1
"""Number of the schema. It changes when a member is removed or its meaning changes, not when one is added."""

MAX_TEXT_LENGTH = 200
"""Maximum number of characters of a text that the client chooses."""


class CheckVerdict(StrEnum):
    """Result of one check."""

    PASS = "pass"
    WARNING = "warning"
    """The client does not follow a recommendation (SHOULD) of a specification."""
    FAIL = "fail"
    """The client breaks a rule (MUST), or loses its login."""
    FACT = "fact"
    """An observation without a rule."""
    NOT_SEEN = "not seen"
    """The client did nothing that shows whether it follows the rule."""


class Check(Struct, frozen=True):
    """Check of one rule."""

    name: str
    """Identifier of the check. It does not change."""
    verdict: CheckVerdict
    observed: str
    """Observation, for a person."""
    rule: str
    """Text of the rule."""
    source: str
    """Specification and section of the rule."""
    hint: str = ""
    """Advice for the author of the client, if the verdict is `warning` or `fail`."""


class ClientFacts(Struct, frozen=True):
    """Client as it describes itself."""

    name: str = ""
    version: str = ""
    user_agent: str = ""


class Message(Struct, frozen=True):
    """Message of a client, or another request of it."""

    at_s: float
    """Seconds since the start of the run."""
    sent: str
    """Request of the client, with secrets masked."""
    answer: str
    """Answer of the bench."""
    count: int = 1
    """Number of equal messages with equal answers in a row."""


def short_text(value: object) -> str:
    """Return the beginning of a text that the client chose, or "" for any other JSON value."""
    return value[:MAX_TEXT_LENGTH] if isinstance(value, str) else ""


def add_message(messages: list[Message], message: Message, max_length: int) -> None:
    """Add a message, or count it if it equals the last one. `max_length` limits the list."""
    last = messages[-1] if messages else None
    if last is not None and (last.sent, last.answer) == (message.sent, message.answer):
        messages[-1] = replace(last, count=last.count + 1)
    elif len(messages) < max_length:
        messages.append(message)


class BenchRun(Struct, frozen=True):
    """One run with a client."""

    name: str
    """Name of the run: a probe of `oauth-bench`, or a revision of `era-bench`."""
    url: str
    """URL of the server. Empty over stdio."""
    outcome: Literal["complete", "incomplete", "no client"]
    """`incomplete` if the client ended, or the time was over, before all checks of the run were decided."""
    client: ClientFacts
    checks: list[Check]
    messages: list[Message]
    """First messages of the client, in order."""
    seconds: float
    """Duration of the run."""
    client_exit: int | None = None
    """Exit code of the client, or null if it was not started by the bench or did not end by itself."""


class BenchReport(Struct, frozen=True):
    """Result of a bench."""

    version: int
    bench: Literal["oauth", "era"]
    ok: bool
    """True if no check failed, and all runs are complete, so that the exit code is 0."""
    runs: list[BenchRun]
