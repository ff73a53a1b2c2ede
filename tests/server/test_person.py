"""A question in the inbox for as long as its caller waits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpdesk.errors import ClientError
from mcpdesk.inbox.question import Answer, Option, Page, Question, QuestionState
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.tool import Tool
from tests.support.patience import WITHIN_S
from tests.support.served import Peer

PAGES = (Page("Which?", options=(Option("a"), Option("b"))),)


class Elsewhere(Peer):
    """A server whose tool asks here and elsewhere at once; `other` is what becomes of it there."""

    def __init__(self) -> None:
        super().__init__()
        self.other: asyncio.Future[Question] = asyncio.get_running_loop().create_future()
        self.inbox.audience = 1
        self.server.tools.replace([Tool("both", self._both, {"type": "object"})])

    async def _both(self, arguments: dict[str, Any], context: Context) -> Any:
        async def ask() -> Question:
            return await self.other

        asked = await context.ask_desk(PAGES, asyncio.create_task(ask()))
        return f"{asked.state} {asked.answered_by}"

    async def called(self) -> int:
        """Call it, and wait for its question."""
        arrived = asyncio.Event()
        self.inbox.subscribe(lambda _: arrived.set())
        self.modern(1, "tools/call", {"name": "both"})
        async with asyncio.timeout(WITHIN_S):
            await arrived.wait()
        return self.inbox.questions()[0].id

    def ended(self, state: QuestionState) -> Question:
        return Question(0, "s", "p", "both", PAGES, 1.0, 2.0, state=state, answered_by="the client")

    async def said(self) -> str:
        text: str = (await self.response(1))["result"]["content"][0]["text"]
        return text


@pytest.mark.parametrize("state", [QuestionState.ANSWERED, QuestionState.DECLINED])
async def test_an_answer_elsewhere_withdraws_the_question(state: QuestionState) -> None:
    peer = Elsewhere()
    await peer.called()
    peer.other.set_result(peer.ended(state))
    assert await peer.said() == f"{state} the client"
    (question,) = peer.inbox.questions()
    assert (question.state, question.reason) == (QuestionState.WITHDRAWN, f"{state} by the client")


async def test_an_answer_here_counts_though_it_is_asked_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Elsewhere()
    number = await peer.called()
    assert peer.inbox.answer(number, [Answer(("a",))])
    assert await peer.said() == "answered desk"


@pytest.mark.parametrize("how", ["error", "closed", "timed out"])
async def test_who_has_no_answer_elsewhere_leaves_the_question_to_the_desk(how: str) -> None:
    peer = Elsewhere()
    number = await peer.called()
    if how == "error":
        peer.other.set_exception(ClientError("no"))
    else:
        peer.other.set_result(
            peer.ended(QuestionState.CANCELLED if how == "closed" else QuestionState.TIMED_OUT)
        )
    for _ in range(5):
        await asyncio.sleep(0)
    assert peer.inbox.questions()[0].state is QuestionState.WAITING
    peer.inbox.decline(number, "no")
    assert await peer.said() == "declined desk"
