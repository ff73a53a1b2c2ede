"""Every question ends exactly once, with an outcome."""

from __future__ import annotations

import asyncio

import pytest

from mcpdesk.errors import HandlerError
from mcpdesk.inbox import inbox as module
from mcpdesk.inbox.inbox import Inbox
from mcpdesk.inbox.question import Answer, Approval, Option, Page, Question, QuestionKind, QuestionState
from tests.support.patience import in_time

DATABASE = Page("Which database?", "Storage", (Option("PostgreSQL"), Option("SQLite", "one file")))


def ask(inbox: Inbox, timeout_s: float = 60.0, *pages: Page) -> tuple[int, asyncio.Future[Question]]:
    return inbox.ask(server="s", peer="p", tool="t", pages=pages or (DATABASE,), timeout_s=timeout_s)


async def ended(future: asyncio.Future[Question]) -> Question:
    return await in_time(future)


async def test_an_answer_reaches_the_asker() -> None:
    inbox = Inbox(clock=lambda: 1000.0)
    number, future = ask(inbox)
    assert inbox.questions()[0].state is QuestionState.WAITING
    assert inbox.answer(number, [Answer(("SQLite",))], by="desk 2")
    question = await ended(future)
    assert question.state is QuestionState.ANSWERED
    assert question.answers == (Answer(("SQLite",)),)
    assert question.answered_by == "desk 2"
    assert (question.asked, question.deadline, question.ended) == (1000, 1060, 1000)


async def test_the_first_answer_wins() -> None:
    inbox = Inbox()
    number, future = ask(inbox)
    assert inbox.answer(number, [Answer(("SQLite",))])
    assert not inbox.answer(number, [Answer(("PostgreSQL",))])
    assert not inbox.decline(number)
    assert not inbox.withdraw(number, "late")
    assert (await ended(future)).answers == (Answer(("SQLite",)),)


async def test_declined_timed_out_and_withdrawn_are_distinct() -> None:
    inbox = Inbox()
    declined, timed_out, withdrawn = ask(inbox), ask(inbox, 0.01), ask(inbox)
    inbox.decline(declined[0], "not now")
    inbox.withdraw(withdrawn[0], "client gone")
    ends = [await ended(future) for _, future in (declined, timed_out, withdrawn)]
    assert [(each.state, each.reason) for each in ends] == [
        (QuestionState.DECLINED, "not now"),
        (QuestionState.TIMED_OUT, ""),
        (QuestionState.WITHDRAWN, "client gone"),
    ]


async def test_an_unfit_answer_leaves_the_question_waiting() -> None:
    inbox = Inbox()
    number, future = ask(inbox)
    with pytest.raises(ValueError, match="page 1: 'MySQL' is not an option"):
        inbox.answer(number, [Answer(("MySQL",))])
    assert not future.done()
    assert inbox.answer(number, [Answer(other="MySQL")])


async def test_an_asker_that_left_does_not_break_the_answer() -> None:
    inbox = Inbox()
    number, future = ask(inbox)
    future.cancel()
    assert inbox.answer(number, [Answer(("SQLite",))])
    assert inbox.questions()[0].state is QuestionState.ANSWERED


def withdraw_waiting(inbox: Inbox) -> None:
    """Withdraw all waiting questions, so no timer remains."""
    for question in inbox.questions():
        inbox.withdraw(question.id, "over")


async def test_waiting_questions_come_first_and_history_is_bounded() -> None:
    inbox = Inbox(keep_ended=2)
    for _ in range(3):
        inbox.decline(ask(inbox)[0])
    ask(inbox)
    ask(inbox)
    assert [question.id for question in inbox.questions()] == [4, 5, 3, 2]
    withdraw_waiting(inbox)


async def test_listeners_and_version_follow_every_change() -> None:
    inbox = Inbox()
    heard: list[tuple[int, str]] = []
    inbox.subscribe(lambda question: heard.append((question.id, question.state)))
    number, _ = ask(inbox)
    inbox.decline(number)
    assert heard == [(1, "waiting"), (1, "declined")]
    assert inbox.version == 2


async def test_a_flood_of_questions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_QUESTIONS", 2)
    inbox = Inbox()
    ask(inbox)
    ask(inbox)
    with pytest.raises(HandlerError, match="inbox is full"):
        ask(inbox)
    withdraw_waiting(inbox)


async def test_only_a_question_that_allows_it_can_be_cancelled() -> None:
    inbox = Inbox()
    for may_cancel in (False, True):
        number, future = inbox.ask(
            server="s", peer="p", tool="t", pages=[Page("?")], timeout_s=5, may_cancel=may_cancel
        )
        assert inbox.cancel(number) is may_cancel
        assert future.done() is may_cancel
    assert future.result().state is QuestionState.CANCELLED
    inbox.withdraw(1, "over")


async def test_what_was_answered_elsewhere_is_kept_among_the_ended() -> None:
    inbox = Inbox()
    number, _ = ask(inbox)
    inbox.withdraw(number, "answered by the client")
    heard: list[Question] = []
    inbox.subscribe(heard.append)
    ended = Question(0, "s", "p", "t", (DATABASE,), 1.0, 2.0, state=QuestionState.DECLINED)
    inbox.add_ended(ended)
    assert [each.id for each in inbox.questions()] == [2, 1]
    assert heard == [inbox.questions()[0]] and inbox.version == 3


@pytest.mark.parametrize(
    ("selected", "word"),
    [(Approval.ONCE, "allowed"), (Approval.ALWAYS, "allowed"), (Approval.DENY, "denied"), (None, "denied")],
)
async def test_an_approval_says_in_a_word_what_became_of_it(selected: Approval | None, word: str) -> None:
    inbox = Inbox()
    page = Page("May p call t?", options=tuple(Option(each) for each in Approval), own_words=False)
    number, future = inbox.ask(
        server="s", peer="p", tool="t", pages=[page], timeout_s=5, kind=QuestionKind.APPROVAL
    )
    assert inbox.questions()[0].word == "waiting"
    if selected is None:
        inbox.decline(number, "no")
    else:
        inbox.answer(number, [Answer((selected,))])
    assert (await ended(future)).word == word
