"""The keys of a question's page, as its last line shows them. Knows no widget."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mcpdesk.inbox.question import Kind, Question

LONG = 6
"""Lines to read before answering from which scrolling is spoken of."""


class Hint(NamedTuple):
    """A key, what it does, and which goes first where there is little room (low `rank`)."""

    key: str
    title: str
    action: str
    """What a click on it does."""
    rank: int


def question_keys(question: Question, at: int, *, is_writing: bool) -> Iterator[Hint]:
    """Those of page `at`. While somebody writes, letters are no keys until esc is pressed."""
    page = question.pages[at]
    lead = "esc " if is_writing else ""
    if page.options and not is_writing:
        yield Hint("digits", "choose", "screen.choose", 2)
        yield Hint("space", "toggles", "screen.choose", 1)
    if page.link:
        yield Hint("o", "open", "screen.open_link", 8)
        yield Hint("y", "copy", "screen.copy_link", 5)
    yield Hint("enter", _onward(question, at), "screen.next_page", 9)
    if page.is_long and is_writing:
        yield Hint("ctrl+j", "new line", "", 3)
    if at and not is_writing:
        yield Hint("⌫", "back", "screen.previous_page", 4)
    yield Hint(f"{lead}d", declining(question), "screen.decline", 6)
    if page.detail.count("\n") >= LONG and not page.is_long:
        yield Hint("pgdn", "scrolls", "screen.scroll(1)", 2)
    if question.may_cancel:
        yield Hint(f"{lead}c", "cancel", "screen.cancel", 5)
    if is_writing:
        yield Hint("esc", "stops writing", "", 7)
    else:
        yield Hint("esc", "later", "screen.later", 7)


def declining(question: Question) -> str:
    """What saying no is called."""
    return "deny" if question.kind is Kind.APPROVAL else "decline"


def _onward(question: Question, at: int) -> str:
    if question.pages[at].link:
        return "agrees"
    return "answers" if at + 1 == len(question.pages) else "next"
