"""An answer in the making follows the rules of its page."""

from __future__ import annotations

from mcpdesk.inbox.question import Answer, Option, Page
from mcpdesk.tui.forms.question_page import Draft

OPTIONS = (Option("a"), Option("b"), Option("c"))


def test_one_choice_replaces_the_other() -> None:
    draft = Draft(Page("Which?", options=OPTIONS))
    draft.toggle(0)
    draft.toggle(2)
    assert draft.answer == Answer(("c",))
    draft.toggle(2)
    assert draft.problem.startswith("choose at least one")


def test_many_choices_come_in_the_order_of_the_options() -> None:
    draft = Draft(Page("Which?", options=OPTIONS, multi_select=True))
    draft.toggle(2)
    draft.toggle(0)
    draft.write(" and d ")
    assert draft.answer == Answer(("a", "c"), "and d")
    assert [draft.mark(index) for index in range(4)] == ["[x]", "[ ]", "[x]", "[x]"]


def test_own_words_and_an_option_exclude_each_other_on_a_page_for_one_choice() -> None:
    draft = Draft(Page("Which?", options=OPTIONS))
    draft.toggle(1)
    draft.write("d")
    assert draft.answer == Answer(other="d")
    draft.toggle(1)
    assert draft.answer == Answer(("b",)) and draft.other == "d"
    assert [draft.mark(index) for index in range(4)] == ["( )", "(•)", "( )", "( )"]


def test_words_that_are_blank_are_no_answer() -> None:
    draft = Draft(Page("Why?"))
    draft.write("   ")
    assert draft.problem == "write something"


def test_a_draft_begins_with_what_is_filled_in() -> None:
    draft = Draft(Page("Which?", options=OPTIONS, multi_select=True, default=Answer(("b", "c"), "and d")))
    assert draft.answer == Answer(("b", "c"), "and d")
