"""What a search engine is: a name, a request, and how its answer is read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

SIGNS_OF_A_CAPTCHA = (
    "captcha",
    "unusual traffic",
    "anomaly-modal",
    "are you a robot",
    "not a robot",
    "verify you are human",
    "challenge-platform",
    "automated queries",
)
"""Words on a page that has no results because the engine takes us for a machine."""
REFUSALS = {
    202: "it asks for a captcha",
    401: "it wants a key",
    403: "it refuses (HTTP 403)",
    429: "it limits the rate (HTTP 429)",
    503: "it is overloaded or limits the rate (HTTP 503)",
}
"""HTTP statuses that say more than that something failed."""


class EngineError(Exception):
    """An engine gave no answer; the text says why."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One result of one engine."""

    title: str
    url: str
    snippet: str


Search = Callable[[str, str, float], Awaitable[list[Hit]]]
"""Query, base of a mirror (empty: the engine itself) and seconds in; hits in their order out.

Raises: EngineError; TimeoutError; what a parser makes of an answer that is not what it was.
"""


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine."""

    name: str
    search: Search
    home: str
    """What it is, for a person: `mojeek.com`."""


def at(base: str, url: str) -> str:
    """The URL at a mirror: its path and query below `base`; as it is without one."""
    if not base:
        return url
    parts = urlsplit(url)
    return f"{base.rstrip('/')}{parts.path}{'?' if parts.query else ''}{parts.query}"


def check_status(status: int) -> None:
    """Raises: EngineError for an HTTP status that is no success."""
    if status in REFUSALS:
        raise EngineError(REFUSALS[status])
    if not 200 <= status < 300:
        raise EngineError(f"it answered with HTTP {status}")


def check_page(page: str, hits: list[Hit]) -> None:
    """Raises: EngineError for a page without results that asks whether we are human."""
    if not hits and any(sign in page.lower() for sign in SIGNS_OF_A_CAPTCHA):
        raise EngineError("it asks for a captcha")
