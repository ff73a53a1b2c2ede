"""The desk's own client, on the in-memory channel."""

from __future__ import annotations

import asyncio

import pytest

from mcpdesk.errors import LocalProtocolError
from mcpdesk.inbox.question import Answer, Question
from mcpdesk.link.desk_client import DeskCall, DeskClient
from tests.support.asked_client import Asked
from tests.support.served import Peer


async def test_calls_run_side_by_side_and_find_their_answers() -> None:
    client = DeskClient(
        Peer().endpoint, lambda function: asyncio.get_running_loop().call_soon(function) and None
    )
    stuck = client.request("tools/call", {"name": "forever"})
    quick = client.request("tools/call", {"name": "echo", "arguments": {"text": "x"}})
    failed = client.request("tools/call", {"name": "nope"})
    async with asyncio.timeout(5):
        outcome = await asyncio.wrap_future(quick.outcome)
        error = (await asyncio.wrap_future(failed.outcome)).error
    assert outcome.result is not None and outcome.raw.startswith(b'{"jsonrpc"')
    assert error is not None and error["code"] == -32602
    assert client.running == 1
    client.close()
    assert stuck.outcome.result().cancelled


async def test_params_json_cannot_carry_leave_no_call_behind() -> None:
    client = DeskClient(Peer().endpoint, lambda function: None)
    with pytest.raises(LocalProtocolError):
        client.request("tools/call", {"name": "echo", "arguments": {"text": 2**70}})
    assert client.running == 0


class Desk:
    """A desk with a screen, whose inbox tells of every question."""

    def __init__(self) -> None:
        self.peer = Asked()
        self.inbox = self.peer.inbox
        self.inbox.audience = 1
        self._came: asyncio.Queue[Question] = asyncio.Queue()
        self.inbox.subscribe(self._came.put_nowait)
        loop = asyncio.get_running_loop()
        self.client = DeskClient(self.peer.endpoint, lambda function: loop.call_soon(function) and None)

    async def question(self, state: str = "waiting") -> Question:
        """The next question in that state."""
        async with asyncio.timeout(5):
            while (question := await self._came.get()).state != state:
                pass
        return question

    async def text(self, call: DeskCall) -> str:
        """What the tool answered."""
        async with asyncio.timeout(5):
            outcome = await asyncio.wrap_future(call.outcome)
        assert outcome.result is not None, outcome
        return str(outcome.result["content"][0]["text"])


async def test_a_form_a_tool_asks_for_is_a_question_in_the_inbox() -> None:
    desk = Desk()
    call = desk.client.request("tools/call", {"name": "greet"})
    question = await desk.question()
    assert (question.peer, question.tool, question.server) == ("desk", "greet", "asking")
    assert desk.client.running == 1
    desk.inbox.answer(question.id, [Answer(other="Ada")])
    assert await desk.text(call) == "Hello, Ada!"
    assert desk.client.running == 0 and desk.peer.asking.started == 1


async def test_what_does_not_fit_is_asked_again() -> None:
    desk = Desk()
    call = desk.client.request("tools/call", {"name": "person"})
    for age in ("old", "36"):
        question = await desk.question()
        desk.inbox.answer(question.id, [Answer(other="Ada"), Answer(other=age)])
    assert await desk.text(call) == "Person Ada 36"


async def test_declining_the_question_declines_the_form() -> None:
    desk = Desk()
    call = desk.client.request("tools/call", {"name": "greet"})
    desk.inbox.decline((await desk.question()).id)
    assert await desk.text(call) == "decline"


async def test_cancelling_the_call_withdraws_its_question() -> None:
    desk = Desk()
    call = desk.client.request("tools/call", {"name": "greet"})
    await desk.question()
    call.cancel()
    assert (await desk.question("withdrawn")).reason == "the call was cancelled"
    assert call.outcome.result().cancelled and desk.client.running == 0
    desk.peer.services.rounds.close()


async def test_without_a_screen_the_desk_offers_no_forms() -> None:
    desk = Desk()
    desk.inbox.audience = 0
    call = desk.client.request("tools/call", {"name": "greet"})
    async with asyncio.timeout(5):
        outcome = await asyncio.wrap_future(call.outcome)
    assert outcome.error is not None and outcome.error["code"] == -32021
