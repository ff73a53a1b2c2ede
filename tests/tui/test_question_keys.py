"""The line of keys says what is possible on the page that is up."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mcpdesk.inbox.question import Option, Page, Question, QuestionKind
from mcpdesk.tui.forms.question_dialog import question_keys

CHOICE = Page("Which?", options=(Option("a"),))
WORDS = Page("Why?")
LONG = Page("Write", is_long=True)
LINK = Page("Open", link="https://example.org/", own_words=False)

APPROVAL = Page("May p call t?", options=(Option("allow once"),), own_words=False, detail="command: ls")
DETAILED = replace(APPROVAL, detail="\n".join("abcdefghij"))


def keys(
    *pages: Page,
    at: int = 0,
    may_cancel: bool = False,
    is_writing: bool = False,
    kind: QuestionKind = QuestionKind.QUESTION,
) -> str:
    question = Question(1, "s", "p", "t", pages, 0.0, 1.0, may_cancel, kind=kind)
    hints = question_keys(question, at, is_writing=is_writing)
    return ", ".join(f"{hint.key} {hint.title}" for hint in hints)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (keys(CHOICE), "digits choose, space toggles, enter answers, d decline, esc later"),
        (keys(CHOICE, WORDS), "digits choose, space toggles, enter next, d decline, esc later"),
        (keys(CHOICE, WORDS, at=1), "enter answers, ⌫ back, d decline, esc later"),
        (keys(WORDS, is_writing=True), "enter answers, esc d decline, esc stops writing"),
        (keys(LONG, is_writing=True), "enter answers, ctrl+j new line, esc d decline, esc stops writing"),
        (
            keys(APPROVAL, kind=QuestionKind.APPROVAL),
            "digits choose, space toggles, enter answers, d deny, esc later",
        ),
        (
            keys(DETAILED, kind=QuestionKind.APPROVAL),
            "digits choose, space toggles, enter answers, d deny, pgdn scrolls, esc later",
        ),
        (keys(LINK, may_cancel=True), "o open, y copy, enter agrees, d decline, c cancel, esc later"),
    ],
)
def test_keys_of_a_page(told: str, expected: str) -> None:
    assert told == expected
