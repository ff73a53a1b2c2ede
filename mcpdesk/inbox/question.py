"""Questions only a person can answer, as values. Knows nothing of tools, screens or the wire."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, field
from msgspec.structs import replace

WEB = frozenset({"http", "https"})
"""Schemes of links a person may be asked to open."""
HIDDEN = "Part of this call is masked here (shared_mask): only a desk of the replica itself can allow it."
LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


class QuestionState(StrEnum):
    """Where a question stands; everything but `WAITING` is final."""

    WAITING = "waiting"
    ANSWERED = "answered"
    DECLINED = "declined"
    CANCELLED = "cancelled"
    """Closed without saying yes or no."""
    TIMED_OUT = "timed out"
    WITHDRAWN = "withdrawn"


class QuestionKind(StrEnum):
    """What a question is about."""

    QUESTION = "question"
    APPROVAL = "approval"
    """Whether a call may go on; its one page offers what `Approval` names."""


class Approval(StrEnum):
    """What may be answered where an approval is wanted. Declining denies as well, with a reason."""

    ONCE = "allow once"
    ALWAYS = "always for this peer"
    DENY = "deny"


class Option(Struct, frozen=True):
    """One choice of a page."""

    label: str
    description: str = ""


class Answer(Struct, frozen=True):
    """The answer to one page: labels of the chosen options, in their order, and free text if any."""

    selected: tuple[str, ...] = ()
    other: str = ""


class Page(Struct, frozen=True):
    """One question of a set; a set is answered as one."""

    question: str
    header: str = ""
    options: tuple[Option, ...] = ()
    multi_select: bool = False
    own_words: bool = True
    """Whether free text is allowed besides the options."""
    is_required: bool = True
    """False: it may be passed over, which answers nothing."""
    default: Answer = Answer()
    """What is filled in at first."""
    detail: str = ""
    """What to read before answering."""
    is_long: bool = False
    """Whether the free text is one of several lines."""
    rules: Mapping[str, Any] = field(default_factory=dict)
    """Bounds of the answer in words of JSON Schema: type, format, lengths, numbers, items."""
    link: str = ""
    """A URL the person is asked to open. The answer says only that they agree."""


class Question(Struct, frozen=True):
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
    may_cancel: bool = False
    """Whether it can be closed without saying yes or no."""
    state: QuestionState = QuestionState.WAITING
    answers: tuple[Answer, ...] = ()
    """One per page when answered, else empty."""
    reason: str = ""
    """Why it was declined or withdrawn, if known."""
    answered_by: str = ""
    ended: float | None = None
    """Unix time in seconds at which it left `WAITING`; None while it waits."""
    kind: QuestionKind = QuestionKind.QUESTION
    connection: int = 0
    """The number of the connection or session whose end means that its client is gone; 0: there is none."""
    replica: str = ""
    """Of several machines that a desk looks at, the one that asks."""
    origin: str = ""
    """What it is known by at every replica; empty where there is one only."""

    @property
    def asker(self) -> str:
        """Who asks: the peer, or what a call of the desk's own runs."""
        return f"{self.tool or 'a tool'} of {self.server}" if self.peer == "desk" else self.peer

    @property
    def word(self) -> str:
        """Its state in a word; an approval is `allowed` or `denied`."""
        if self.kind is QuestionKind.QUESTION or self.state not in (
            QuestionState.ANSWERED,
            QuestionState.DECLINED,
        ):
            return self.state.value
        is_denied = not self.answers or self.answers[0].selected == (Approval.DENY,)
        return "denied" if is_denied else "allowed"


def as_masked(question: Question, masked: Question) -> Question:
    """The masked copy of a question; where that hides something of a call, it can only be denied."""
    if question.kind is not QuestionKind.APPROVAL or masked.pages == question.pages:
        return masked
    page = masked.pages[0]
    options = tuple(option for option in page.options if option.label == Approval.DENY)
    detail = f"{HIDDEN}\n{page.detail}"
    return replace(masked, pages=(replace(page, options=options, detail=detail),))


def host_of(link: str) -> str:
    """The host a link of the web leads to; empty for any other link."""
    try:
        parts = urlsplit(link)
        return (parts.hostname or "") if parts.scheme.lower() in WEB else ""
    except ValueError:
        return ""


def oddities(link: str) -> Iterator[str]:
    """What a person should notice before they open a link."""
    host = host_of(link)
    if not host:
        yield "not a link of the web: it is not opened here"
        return
    if "xn--" in host or not host.isascii():
        yield "the host is spelled with characters that can look like others"
    if "@" in urlsplit(link).netloc:
        yield "what stands before the @ is no host"
    if link.lower().startswith("http:") and host not in LOCAL:
        yield "http: others on the way can read along"
