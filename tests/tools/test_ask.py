"""AskUserQuestion: the caller's result for each action of the person."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from mcpdesk.errors import HandlerError
from mcpdesk.inbox.inbox import Inbox
from mcpdesk.inbox.question import Answer, Question
from mcpdesk.server.offer.tool import ToolResult
from tests.support.patience import in_time
from tests.tools.support import ToolContext, fields, use

QUESTIONS = [
    {"question": "Which database?", "header": "Storage", "options": ["PostgreSQL", {"label": "SQLite"}]},
    {"question": "Which checks?", "options": ["lint", "types", "tests"], "multiSelect": True},
]

GIVEN = orjson.dumps(QUESTIONS).decode()


async def asked(reaction: Callable[[Inbox, Question], Any]) -> ToolResult[Any]:
    """Ask `QUESTIONS`, let a person react, and return the result."""
    inbox = Inbox()
    inbox.audience = 1
    call = asyncio.create_task(use("AskUserQuestion", ToolContext(inbox), questions_json=GIVEN))
    arrived = asyncio.Event()
    inbox.subscribe(lambda _: arrived.set())
    await in_time(arrived.wait())
    reaction(inbox, inbox.questions()[0])
    return await in_time(call)


async def test_an_answer_is_returned_per_question() -> None:
    answers = [Answer(("SQLite",)), Answer(("tests", "lint"), "spelling")]
    result = await asked(lambda inbox, question: inbox.answer(question.id, answers))
    assert not result.is_error
    assert result.structured == {
        "status": "answered",
        "reason": "",
        "answers": [
            {"question": "Which database?", "header": "Storage", "selected": ["SQLite"], "other": ""},
            {"question": "Which checks?", "header": "", "selected": ["lint", "tests"], "other": "spelling"},
        ],
    }
    assert result.content[0]["text"] == (
        "Which database?\n-> SQLite\nWhich checks?\n-> lint, tests, (own words) spelling"
    )


async def test_declined_is_an_outcome_and_not_an_error() -> None:
    result = await asked(lambda inbox, question: inbox.decline(question.id, "ask me later"))
    assert not result.is_error
    assert result.structured == {"status": "declined", "reason": "ask me later", "answers": []}
    assert "declined to answer: ask me later" in result.content[0]["text"]


async def test_withdrawn_is_an_error_of_its_own() -> None:
    result = await asked(lambda inbox, question: inbox.withdraw(question.id, "the desk closes"))
    assert result.is_error
    assert (fields(result)["status"], fields(result)["reason"]) == ("withdrawn", "the desk closes")


async def test_a_timeout_is_an_error_of_its_own() -> None:
    class Hasty(ToolContext):
        async def ask(self, pages: Any) -> Question:
            _, future = self.inbox.ask(server="s", peer="p", tool="t", pages=pages, timeout_s=0.01)
            return await future

    context = Hasty()
    context.inbox.audience = 1
    result = await use("AskUserQuestion", context, questions_json=GIVEN)
    assert result.is_error and fields(result)["status"] == "timed_out"


async def test_nobody_who_could_answer_is_an_error_at_once() -> None:
    context = ToolContext()
    with pytest.raises(HandlerError, match=r"no desk is open.* `mcpdesk /srv/shop` in a terminal"):
        await use("AskUserQuestion", context, questions_json=GIVEN)
    assert context.inbox.questions() == ()
