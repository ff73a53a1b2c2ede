"""The desk's own client, on the in-memory channel, in both eras."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from mcpdesk.auth.access import Access
from mcpdesk.auth.keys import CONSTANT, KeySource, constant, secret_keys
from mcpdesk.auth.principal import MISSING_TOKEN
from mcpdesk.auth.tokens import TokenTerms, Verifier
from mcpdesk.errors import LocalProtocolError
from mcpdesk.inbox.question import Answer, Question
from mcpdesk.link.local.desk_client import MAX_LOGS, DeskCall, HostedDesk
from mcpdesk.link.values import CallOutcome
from mcpdesk.protocol import task_shapes
from mcpdesk.protocol.revisions import LATEST, LATEST_HANDSHAKE, Revision
from mcpdesk.server.offer.resources import Resource
from mcpdesk.server.offer.tool import Tool
from tests.support.asked_client import ANYTHING, Asked
from tests.support.patience import in_time, until, within
from tests.support.served import Peer
from tests.support.task_server import TaskPeer
from tests.support.tokens import SECRET, token
from tests.support.traffic import settle

ERAS = [LATEST, LATEST_HANDSHAKE]
both_eras = pytest.mark.parametrize("revision", ERAS, ids=str)


async def test_calls_run_side_by_side_and_find_their_answers() -> None:
    client = HostedDesk(Peer().endpoint, lambda function: asyncio.get_running_loop().call_soon(function))
    stuck = client.request("tools/call", {"name": "forever"})
    quick = client.request("tools/call", {"name": "echo", "arguments": {"text": "x"}})
    failed = client.request("tools/call", {"name": "nope"})
    async with within():
        outcome = await asyncio.wrap_future(quick.outcome)
        error = (await asyncio.wrap_future(failed.outcome)).error
    assert outcome.result is not None and outcome.raw.startswith(b'{"jsonrpc"')
    assert error is not None and error["code"] == -32602
    assert client.running == 1
    client.close()
    assert stuck.outcome.result().cancelled


async def test_params_json_cannot_carry_leave_no_call_behind() -> None:
    client = HostedDesk(Peer().endpoint, lambda function: None)
    with pytest.raises(LocalProtocolError):
        client.request("tools/call", {"name": "echo", "arguments": {"text": object()}})
    assert client.running == 0


class Desk:
    """A desk with a screen, whose inbox announces every question."""

    def __init__(self, revision: Revision = LATEST) -> None:
        self.peer = Asked()
        self.inbox = self.peer.inbox
        self.inbox.audience = 1
        self._came: asyncio.Queue[Question] = asyncio.Queue()
        self.inbox.subscribe(self._came.put_nowait)
        loop = asyncio.get_running_loop()
        roots = [{"uri": "file:///srv", "name": "srv"}]
        self.client = HostedDesk(
            self.peer.endpoint, lambda function: loop.call_soon(function), lambda: roots, revision
        )

    def call(self, tool: str) -> DeskCall:
        """Call a tool."""
        return self.client.request("tools/call", {"name": tool})

    async def question(self, state: str = "waiting") -> Question:
        """The next question in that state."""
        async with within():
            while (question := await self._came.get()).state != state:
                pass
        return question

    async def listening(self) -> None:
        """Wait until one subscription holds: the next one begins before the last one ends."""
        await until(lambda: len(self.peer.services.subscriptions) == 1)

    async def text(self, call: DeskCall) -> str:
        """Result text of the tool."""
        async with within():
            outcome = await asyncio.wrap_future(call.outcome)
        assert outcome.result is not None, outcome
        return str(outcome.result["content"][0]["text"])


@both_eras
async def test_a_form_a_tool_asks_for_is_a_question_in_the_inbox(revision: Revision) -> None:
    desk = Desk(revision)
    call = desk.call("greet")
    question = await desk.question()
    assert (question.peer, question.tool, question.server) == ("desk", "greet", "asking")
    assert desk.client.running == 1 and question.may_cancel
    desk.inbox.answer(question.id, [Answer(other="Ada")])
    assert await desk.text(call) == "Hello, Ada!"
    assert desk.client.running == 0 and desk.peer.asking.started == 1


@both_eras
async def test_what_was_filled_in_beforehand_may_stay(revision: Revision) -> None:
    desk = Desk(revision)
    call = desk.call("person")
    pages = (question := await desk.question()).pages
    assert pages[1].default == Answer(other="30")
    desk.inbox.answer(question.id, [Answer(other="Ada"), pages[1].default])
    assert await desk.text(call) == "Person Ada 30"


@both_eras
@pytest.mark.parametrize("tool", ["greet", "visit"])
async def test_accepting_declining_and_cancelling_are_three_things(revision: Revision, tool: str) -> None:
    desk = Desk(revision)
    call = desk.call(tool)
    desk.inbox.decline((await desk.question()).id)
    assert await desk.text(call) == "decline"
    call = desk.call(tool)
    desk.inbox.cancel((await desk.question()).id)
    assert await desk.text(call) == "cancel"


@both_eras
async def test_a_link_is_agreed_to(revision: Revision) -> None:
    desk = Desk(revision)
    call = desk.call("visit")
    question = await desk.question()
    assert question.pages[0].link == "https://example.org/in"
    desk.inbox.answer(question.id, [Answer()])
    assert await desk.text(call) == "accept"


@both_eras
async def test_what_a_link_was_for_may_be_said_to_be_done(revision: Revision) -> None:
    desk = Desk(revision)
    call = desk.call("connect")
    desk.inbox.answer((await desk.question()).id, [Answer()])
    assert await desk.text(call) == "accept"
    told = () if revision.is_stateless else ("the step in the browser is complete",)
    assert call.logs == told


@both_eras
async def test_the_person_writes_what_a_model_would(revision: Revision) -> None:
    desk = Desk(revision)
    call = desk.call("capital")
    question = await desk.question()
    assert "user: The capital of France?" in question.pages[0].detail and not question.may_cancel
    desk.inbox.answer(question.id, [Answer(other="Paris")])
    assert await desk.text(call) == "the person at the desk: Paris"


async def test_a_refused_message_ends_the_call_where_the_server_cannot_be_told() -> None:
    desk = Desk()
    call = desk.call("capital")
    desk.inbox.decline((await desk.question()).id, "no time")
    async with within():
        error = (await asyncio.wrap_future(call.outcome)).error
    assert error == {"code": -1, "message": "The request for a message was declined at the desk: no time"}
    assert desk.client.running == 0
    desk.peer.services.rounds.close()


async def test_a_refused_message_is_an_error_where_there_are_requests() -> None:
    desk = Desk(LATEST_HANDSHAKE)
    call = desk.call("careful")
    desk.inbox.decline((await desk.question()).id)
    assert "declined at the desk (-1)" in await desk.text(call)


@both_eras
async def test_roots_are_known_without_asking_anybody(revision: Revision) -> None:
    desk = Desk(revision)
    assert await desk.text(desk.call("places")) == '["file:///srv"]'
    assert desk.inbox.questions() == ()


@both_eras
async def test_several_questions_wait_side_by_side(revision: Revision) -> None:
    desk = Desk(revision)
    call = desk.call("all")
    first, second = await desk.question(), await desk.question()
    desk.inbox.answer(second.id, [Answer(other="hello")])
    desk.inbox.answer(first.id, [Answer(other="Ada")])
    assert await desk.text(call) == "Ada hello 1"


@both_eras
async def test_cancelling_withdraws_the_question_and_on_the_wire_only_a_request_under_way(
    revision: Revision,
) -> None:
    desk = Desk(revision)
    asking = desk.call("greet")
    await desk.question()
    asking.cancel()
    assert (await desk.question("withdrawn")).reason == "the call is over"
    assert asking.outcome.result().cancelled and desk.client.running == 0
    for _ in range(10):
        await asyncio.sleep(0)
    settle(desk.peer.recording)
    sent = [exchange.method for exchange in desk.peer.recording.index.exchanges]
    assert ("notifications/cancelled" in sent) is not revision.is_stateless
    desk.peer.services.rounds.close()


async def test_without_a_screen_the_desk_offers_no_forms() -> None:
    desk = Desk()
    desk.inbox.audience = 0
    call = desk.call("greet")
    async with within():
        outcome = await asyncio.wrap_future(call.outcome)
    assert outcome.error is not None and outcome.error["code"] == -32021
    assert await desk.text(desk.call("places")) == '["file:///srv"]'


@both_eras
async def test_closing_the_desk_withdraws_what_it_was_asked(revision: Revision) -> None:
    desk = Desk(revision)
    desk.call("greet")
    await desk.question()
    desk.client.close()
    assert (await desk.question("withdrawn")).state == "withdrawn"
    desk.peer.services.rounds.close()


@both_eras
async def test_watched_resources_count_their_changes(revision: Revision) -> None:
    desk = Desk(revision)
    watch, changed = desk.client.watch, desk.peer.services.subscriptions.resource_updated
    desk.peer.asking.server.resources.replace(
        [Resource(uri, uri, desk.peer.asking.read) for uri in ("a://1", "a://2")]
    )
    watch.add("a://1")
    watch.add("a://2")
    await desk.listening()
    changed("asking", "a://1")
    changed("asking", "a://3")
    await asyncio.sleep(0)  # what is sent in one turn of the loop leaves together at its end
    assert watch.updates == {"a://1": 1, "a://2": 0}
    watch.remove("a://1")
    await desk.listening()
    changed("asking", "a://1")
    changed("asking", "a://2")
    await asyncio.sleep(0)
    assert watch.updates == {"a://2": 1}
    watch.remove("a://2")
    assert watch.updates == {} and desk.client.running == 0
    desk.client.close()


@both_eras
async def test_a_token_counts_for_what_is_sent_while_it_does(revision: Revision) -> None:
    peer = Peer()
    terms = TokenTerms(frozenset({"HS256"}))
    keys = KeySource(constant(secret_keys(SECRET.encode(), terms.algorithms)), CONSTANT)
    peer.server.access = Access(requires_token=True, verifier=Verifier(terms, keys))
    loop = asyncio.get_running_loop()
    client = HostedDesk(peer.endpoint, lambda function: loop.call_soon(function), revision=revision)

    async def said() -> str:
        call = client.request("tools/call", {"name": "echo", "arguments": {"text": "x"}})
        async with within():
            error = (await asyncio.wrap_future(call.outcome)).error
        return "" if error is None else str(error["message"])

    assert await said() == MISSING_TOKEN
    async with within():
        await asyncio.wrap_future(client.token.give(token("HS256")))
    assert await said() == ""
    peer.server.access = Access(requires_token=True, verifier=Verifier(terms, keys))
    assert await said() == MISSING_TOKEN
    client.close()


def made(withdraw: Callable[[DeskCall], None] = lambda ended: ended.finish(None)) -> DeskCall:
    return DeskCall(1, "tools/call", {}, withdraw)


def test_cancelling_ends_a_call_and_a_late_answer_changes_nothing() -> None:
    call = made()
    call.cancel()
    call.finish({"result": {}}, b"{}")
    outcome = call.outcome.result()
    assert outcome.cancelled and outcome.error is not None and outcome.result is None


def test_logs_are_kept_up_to_a_bound() -> None:
    call = made()
    for number in range(MAX_LOGS + 5):
        call.on_log(str(number))
    assert len(call.logs) == MAX_LOGS


class TaskDesk:
    """A desk with a screen, on a server whose tools are all tasks."""

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
        self.client = HostedDesk(self.peer.endpoint, lambda function: loop.call_soon(function) and None)

    def call(self, tool: str) -> DeskCall:
        return self.client.request("tools/call", {"name": tool, "arguments": {}})

    async def outcome(self, call: DeskCall) -> CallOutcome:
        async with within():
            return await asyncio.wrap_future(call.outcome)

    async def question(self) -> Question:
        async with within():
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
    await until(lambda: call.progress is not None and "half way" in call.progress.message)
    assert call.progress is not None and call.progress.message == "a task, working: half way"
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
    await until(lambda: call.progress is not None)
    call.cancel()
    assert (await desk.outcome(call)).cancelled
    await in_time(desk.peer.tasks.over.wait())
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
