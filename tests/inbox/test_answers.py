"""Answers are checked against the pages they belong to."""

from __future__ import annotations

import pytest

from mcpdesk.inbox.answers import MAX_TEXT_LENGTH, checked_answers
from mcpdesk.inbox.question import Answer, Option, Page

ONE = Page("Which?", options=(Option("a"), Option("b"), Option("c")))
MANY = Page("Which ones?", options=ONE.options, multi_select=True)
OFFERED = Page("Which?", options=ONE.options, own_words=False)
AGE = Page("How old?", rules={"type": "integer", "maximum": 99})


def test_labels_come_back_in_the_order_of_the_options() -> None:
    assert checked_answers([MANY], [Answer(("c", "a"), " more ")]) == (Answer(("a", "c"), "more"),)


def test_free_text_alone_answers_any_page() -> None:
    assert checked_answers([ONE, Page("Why?")], [Answer(other="d"), Answer(other="so")])[1].other == "so"


@pytest.mark.parametrize(
    ("page", "answer", "message"),
    [
        (ONE, Answer(), "page 1: choose at least one option"),
        (ONE, Answer(("a", "b")), "page 1: only one choice"),
        (ONE, Answer(("a",), "and more"), "page 1: only one choice"),
        (ONE, Answer(("z",)), "page 1: 'z' is not an option"),
        (MANY, Answer(("a", "a")), "page 1: an option is chosen twice"),
        (MANY, Answer(other="x" * (MAX_TEXT_LENGTH + 1)), "page 1: free text is limited"),
        (Page("Why?"), Answer(other="  "), "page 1: write something"),
        (OFFERED, Answer(), "page 1: choose at least one option$"),
        (OFFERED, Answer(other="d"), "page 1: only the given options"),
        (AGE, Answer(other="100"), "page 1: at most 99"),
        (Page("Open it", link="javascript:alert(1)"), Answer(), "page 1: only http and https links"),
    ],
)
def test_an_unfit_answer_names_its_page(page: Page, answer: Answer, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        checked_answers([page], [answer])


def test_the_number_of_answers_must_match_the_pages() -> None:
    with pytest.raises(ValueError, match="2 pages need as many answers, not 1"):
        checked_answers([ONE, MANY], [Answer(("a",))])


def test_what_is_not_required_may_be_passed_over() -> None:
    pages = [Page("Why?", is_required=False), Page("Open it", link="https://example.org/")]
    assert checked_answers(pages, [Answer(), Answer()]) == (Answer(), Answer())
