"""Questions that only a person can answer, as values that do not depend on tools, screens or the protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, field
from msgspec.structs import replace

WEB_SCHEMES = frozenset({"http", "https"})
"""URL schemes that a person may be asked to open."""
MASKED_NOTE = (
    "Part of this call is masked here (shared_mask): only a desk of the replica itself can allow it."
)
LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})


class QuestionState(StrEnum):
    """State of a question. All states except `WAITING` are final."""

    WAITING = "waiting"
    ANSWERED = "answered"
    DECLINED = "declined"
    CANCELLED = "cancelled"
    """Closed without an answer."""
    TIMED_OUT = "timed out"
    WITHDRAWN = "withdrawn"


class QuestionKind(StrEnum):
    """Subject of a question."""

    QUESTION = "question"
    APPROVAL = "approval"
    """Approval of a call; the only page offers the options of `Approval`."""


WAITING_TEXTS = {
    QuestionKind.QUESTION: "waiting for an answer on the desk",
    QuestionKind.APPROVAL: "waiting for approval on the desk",
}
"""Progress text that a caller receives while a person has not answered, without the duration."""


class Approval(StrEnum):
    """Options of an approval. If the person declines the question, the call is denied with a reason."""

    ONCE = "allow once"
    ALWAYS = "always for this peer"
    DENY = "deny"


class Option(Struct, frozen=True):
    """One option of a page."""

    label: str
    description: str = ""


class Answer(Struct, frozen=True):
    """Answer to one page: labels of the chosen options, in their order, and free text if any."""

    selected: tuple[str, ...] = ()
    other: str = ""


class Page(Struct, frozen=True):
    """One part of a question. All pages of a question are answered together."""

    question: str
    header: str = ""
    options: tuple[Option, ...] = ()
    multi_select: bool = False
    own_words: bool = True
    """True if free text is allowed besides the options."""
    is_required: bool = True
    """False if the person may skip the page. A skipped page stays unanswered."""
    default: Answer = Answer()
    """Initial answer in the form."""
    detail: str = ""
    """Text to read before answering."""
    is_long: bool = False
    """True if the free text has several lines."""
    rules: Mapping[str, Any] = field(default_factory=dict)
    """Bounds of the answer in JSON Schema keywords: type, format, pattern, lengths, numbers, items."""
    link: str = ""
    """URL that the person is asked to open. The answer only means that the person agrees."""


class Question(Struct, frozen=True):
    """Waiting or ended question with its pages."""

    id: int
    server: str
    peer: str
    """Peer that caused the question: `claude-code 2.1`, `desk`."""
    tool: str
    pages: tuple[Page, ...]
    asked: float
    """Unix time of the question in seconds."""
    deadline: float
    """Unix time in seconds at which the question times out."""
    may_cancel: bool = False
    """True if the question can be closed without an answer."""
    state: QuestionState = QuestionState.WAITING
    answers: tuple[Answer, ...] = ()
    """One answer per page if the question was answered, otherwise empty."""
    reason: str = ""
    """Reason for declining or withdrawing the question, if known."""
    answered_by: str = ""
    ended: float | None = None
    """Unix time of the end in seconds, or None while the question is waiting."""
    kind: QuestionKind = QuestionKind.QUESTION
    connection: int = 0
    """Number of the client's connection or session, or 0 without one. When the connection or session ends,
    the question is withdrawn.
    """
    core: str = field(default="", name="replica")
    """Name of the core that asks, or "" if the desk shows only one core."""
    origin: str = ""
    """Id that is unique among all cores that share their state, or "" if the state is not shared."""
    is_form: bool = False
    """True if the pages are the fields of one form, which is shown as one page."""

    @property
    def asker(self) -> str:
        """Display name of the asker: the peer, or the tool in a call of the desk."""
        return f"{self.tool or 'a tool'} of {self.server}" if self.peer == "desk" else self.peer

    @property
    def word(self) -> str:
        """State in one word. For an approval that a person decided, the word is `allowed` or `denied`."""
        if self.kind is QuestionKind.QUESTION or self.state not in (
            QuestionState.ANSWERED,
            QuestionState.DECLINED,
        ):
            return self.state.value
        is_denied = not self.answers or self.answers[0].selected == (Approval.DENY,)
        return "denied" if is_denied else "allowed"


def as_masked(question: Question, masked: Question) -> Question:
    """Return `masked`, a copy of `question` without secrets. If parts of an approval are hidden, the copy can
    only be denied.
    """
    if question.kind is not QuestionKind.APPROVAL or masked.pages == question.pages:
        return masked
    page = masked.pages[0]
    options = tuple(option for option in page.options if option.label == Approval.DENY)
    detail = f"{MASKED_NOTE}\n{page.detail}"
    return replace(masked, pages=(replace(page, options=options, detail=detail),))


def host_of(link: str) -> str:
    """Return the host of an http or https link, or "" for any other link."""
    try:
        parts = urlsplit(link)
        return (parts.hostname or "") if parts.scheme.lower() in WEB_SCHEMES else ""
    except ValueError:
        return ""


def link_warnings(link: str) -> Iterator[str]:
    """Yield warnings for a person who is about to open a link."""
    host = host_of(link)
    if not host:
        yield "not a web link: it cannot be opened here"
        return
    if "xn--" in host or not host.isascii():
        yield "the host is spelled with characters that can look like others"
    if "@" in urlsplit(link).netloc:
        yield "the part before the @ is not the host"
    if link.lower().startswith("http:") and host not in LOCAL_HOSTS:
        yield "http: the connection is not encrypted"
