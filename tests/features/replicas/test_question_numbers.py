"""Questions of several replicas, whose copies arrive in any order."""

from __future__ import annotations

from msgspec import structs

from mcpdesk.features.replicas.desk.question_numbers import QuestionNumbers
from mcpdesk.inbox.question import Page, Question

OWN = Question(11, "far", "tester", "choose", (Page("Which?"),), 1.0, 2.0, core="a", origin="a/1")
COPY = structs.replace(OWN, id=22)
OTHER = structs.replace(OWN, id=33, asked=3.0, origin="b/1", core="b")


def test_a_question_keeps_the_number_of_the_copy_that_came_first() -> None:
    numbers = QuestionNumbers()
    assert numbers.merged([], [COPY]) == (COPY,) and numbers.replica_number(22) == 22
    own = structs.replace(OWN, pages=(Page("Which one?"),))
    assert numbers.merged([own, OTHER], [COPY]) == (structs.replace(own, id=22), OTHER)
    assert (numbers.replica_number(22), numbers.replica_number(33)) == (11, 33)
    assert numbers.merged([], [COPY]) == (COPY,) and numbers.replica_number(22) == 22


def test_nothing_is_kept_of_questions_that_are_no_longer_shown() -> None:
    numbers = QuestionNumbers()
    numbers.merged([], [COPY])
    assert numbers.merged([], []) == ()
    assert numbers.merged([OWN], [COPY]) == (OWN,) and numbers.replica_number(11) == 11
