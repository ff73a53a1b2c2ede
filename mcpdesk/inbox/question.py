"""Questions only a person can answer, as values. Knows nothing of tools, screens or the wire."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class QuestionState(StrEnum):
    """Where a question stands; everything but `WAITING` is final."""

    WAITING = "waiting"
    ANSWERED = "answered"
    DECLINED = "declined"
    TIMED_OUT = "timed out"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True)
class Option:
    """One choice of a page."""

    label: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """One question of a set; a set is answered as one. Free text is always allowed besides the options."""

    question: str
    header: str = ""
    options: tuple[Option, ...] = ()
    multi_select: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one page: labels of the chosen options, in their order, and free text if any."""

    selected: tuple[str, ...] = ()
    other: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """A set of pages waiting in the inbox, or what became of it."""

    id: int
    server: str
    peer: str
    """Who caused it: `claude-code 2.1`, `desk`."""
    tool: str
    pages: tuple[Page, ...]
    asked: float
    """Unix time in seconds."""
    deadline: float
    """Unix time in seconds at which it times out."""
    state: QuestionState = QuestionState.WAITING
    answers: tuple[Answer, ...] = ()
    """One per page when answered, else empty."""
    reason: str = ""
    """Why it was declined or withdrawn, if known."""
    answered_by: str = ""
    ended: float | None = None
    """Unix time in seconds at which it left `WAITING`; None while it waits."""
