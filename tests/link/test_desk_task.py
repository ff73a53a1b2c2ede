"""Tools that are tasks or nothing, called at the desk."""

from __future__ import annotations

import asyncio

import pytest

from mcpdesk.inbox.question import Answer, Question
from mcpdesk.link.desk_client import DeskCall, DeskClient
from mcpdesk.link.values import CallOutcome
from mcpdesk.protocol import task_shapes
from mcpdesk.server.offer.tool import Tool
from tests.support.asked_client import ANYTHING
from tests.support.patience import WITHIN_S
from tests.support.task_server import TaskPeer


class TaskDesk:
    """A desk with a screen, on a server whose every tool is a task."""

    def __init__(self, audience: int = 1) -> None:
        self.peer = TaskPeer()
        names = ("wait", "boom", "refused", "ask", "two")
        self.peer.server.tools.replace(
            [
                Tool(name, getattr(self.peer.tasks, name), ANYTHING, task="required", timeout_s=60)
                for name in names
            ]
            + [Tool("optional", self.peer.tasks.plain, ANYTHING, task="optional")]
        )
        self.peer.inbox.audience = audience
        self._came: asyncio.Queue[Question] = asyncio.Queue()
        self.peer.inbox.subscribe(self._came.put_nowait)
        loop = asyncio.get_running_loop()
        self.client = DeskClient(self.peer.endpoint, lambda function: loop.call_soon(function) and None)

    def call(self, tool: str) -> DeskCall:
        return self.client.request("tools/call", {"name": tool, "arguments": {}})

    async def outcome(self, call: DeskCall) -> CallOutcome:
        async with asyncio.timeout(WITHIN_S):
            return await asyncio.wrap_future(call.outcome)

    async def question(self) -> Question:
        async with asyncio.timeout(WITHIN_S):
            while (question := await self._came.get()).state != "waiting":
                pass
        return question


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_shapes, "POLL_MS", 1)


async def test_the_result_of_a_task_is_that_of_the_call() -> None:
    desk = TaskDesk()
    call = desk.call("wait")
    await desk.peer.tasks.running.wait()
    async with asyncio.timeout(WITHIN_S):
        while call.progress is None or "half way" not in call.progress.message:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert call.progress.message == "a task, working: half way"
    desk.peer.tasks.go.set()
    outcome = await desk.outcome(call)
    assert outcome.result is not None and outcome.result["structuredContent"] == {"waited": ""}
    assert desk.client.running == 0
    desk.peer.services.jobs.close()


async def test_failures_come_as_they_would_have_come() -> None:
    desk = TaskDesk()
    boom = (await desk.outcome(desk.call("boom"))).result
    assert boom is not None and boom["isError"]
    refused = (await desk.outcome(desk.call("refused"))).error
    assert refused is not None and (refused["code"], refused["message"]) == (7, "not today")
    desk.peer.services.jobs.close()


async def test_what_a_task_asks_is_asked_of_the_person() -> None:
    desk = TaskDesk()
    call = desk.call("ask")
    question = await desk.question()
    desk.peer.inbox.answer(question.id, [Answer(other="Ada")])
    result = (await desk.outcome(call)).result
    assert result is not None and result["content"][0]["text"] == "Hello, Ada!"
    desk.peer.services.jobs.close()


async def test_cancelling_the_call_cancels_its_task() -> None:
    desk = TaskDesk()
    call = desk.call("wait")
    await desk.peer.tasks.running.wait()
    async with asyncio.timeout(WITHIN_S):
        while call.progress is None:  # noqa: ASYNC110
            await asyncio.sleep(0)
    call.cancel()
    assert (await desk.outcome(call)).cancelled
    await asyncio.wait_for(desk.peer.tasks.over.wait(), WITHIN_S)
    assert desk.peer.tasks.ended == ["cancelled"]
    assert [view.status for view in desk.peer.services.jobs.snapshot()] == ["cancelled"]
    desk.peer.services.jobs.close()


async def test_a_task_cancelled_elsewhere_ends_the_call_with_an_error() -> None:
    desk = TaskDesk()
    call = desk.call("wait")
    await desk.peer.tasks.running.wait()
    (job,) = desk.peer.services.jobs.snapshot()
    desk.peer.services.jobs.cancel_by_id(job.id, "enough of it")
    error = (await desk.outcome(call)).error
    assert error is not None and error["message"] == "the task was cancelled: enough of it"
    desk.peer.services.jobs.close()


async def test_a_tool_that_need_not_be_a_task_is_called_plainly() -> None:
    desk = TaskDesk()
    result = (await desk.outcome(desk.call("optional"))).result
    assert result is not None and result["content"][0]["text"] == "plain, False"
    assert desk.peer.services.jobs.snapshot() == ()
