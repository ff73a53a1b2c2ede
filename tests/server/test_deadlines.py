"""Time limits: calls over theirs are ended; waiting for a person does not count."""

from __future__ import annotations

import asyncio
import sys
import time
from asyncio import Task
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.protocol.client_questions import Terms
from mcpdesk.protocol.revisions import V2026_07_28
from mcpdesk.protocol.stateless import CAPABILITIES_KEY
from mcpdesk.server.calls.context import Context
from mcpdesk.server.calls.deadlines import SERVER_STOPPING, Deadlines
from mcpdesk.server.calls.running_call import Call
from mcpdesk.server.offer.prompts import Prompt
from mcpdesk.server.offer.resources import Resource
from mcpdesk.server.offer.server import Limits, Server
from mcpdesk.server.offer.tool import Tool
from tests.support.patience import until, within
from tests.support.served import Peer


def make_call() -> Call:
    return Call(1, "tools/call", {}, Terms(V2026_07_28), Peer().channel)


async def begun(deadlines: Deadlines, call: Call, limit_s: float, work: Awaitable[object]) -> Task[object]:
    """A call that runs hosted code within a limit, and waits by now."""

    async def run() -> object:
        call.task = asyncio.current_task()
        return await deadlines.run(work, call, limit_s)

    task = asyncio.create_task(run())
    await asyncio.sleep(0)
    return task


@pytest.fixture
async def forever() -> AsyncIterator[asyncio.Event]:
    """Event for hosted code to wait on; set at the end of the test."""
    event = asyncio.Event()
    yield event
    event.set()


async def test_a_call_over_its_limit_is_ended_and_others_are_not(forever: asyncio.Event) -> None:
    deadlines = Deadlines()
    brief, long = make_call(), make_call()
    late = await begun(deadlines, brief, 0.01, asyncio.Event().wait())
    others = await begun(deadlines, long, 60, forever.wait())
    assert await deadlines.run(asyncio.sleep(0, "quick"), make_call(), 60) == "quick"
    async with within():
        with pytest.raises(TimeoutError, match=r"limit of 0\.01 s"):
            await late
    assert list(deadlines) == [long] and not long.stop
    forever.set()
    assert await others is True


async def test_a_stop_ends_each_call_once_and_does_not_wait_for_those_that_go_on(
    monkeypatch: pytest.MonkeyPatch, forever: asyncio.Event
) -> None:
    async def go_on() -> None:
        while not forever.is_set():
            try:
                await forever.wait()
            except asyncio.CancelledError:
                continue

    monkeypatch.setattr("mcpdesk.server.calls.deadlines.CANCEL_WAIT_S", 0.01)
    deadlines, deaf, cancelled = Deadlines(), make_call(), make_call()
    running = [await begun(deadlines, each, 60, go_on()) for each in (deaf, cancelled)]
    cancelled.end("withdrawn")
    async with within():
        await deadlines.stop()
    assert (deaf.stop, cancelled.stop) == (SERVER_STOPPING, "withdrawn")
    monkeypatch.setattr("mcpdesk.server.calls.deadlines.CANCEL_WAIT_S", 3_600)
    async with within():
        await deadlines.stop()
    forever.set()
    await asyncio.gather(*running, return_exceptions=True)


LIMIT_S, BLOCK_S = 0.05, 0.1


async def blocking(*_: Any) -> str:
    """Block the loop (the subject of the test), and finish normally."""
    time.sleep(BLOCK_S)  # noqa: ASYNC251 (hosted code does so)
    return "finished"


async def quick(_arguments: dict[str, Any], _context: Context) -> str:
    return "quick"


def make_peer(**tool: Any) -> Peer:
    server = Server("blocks", limits=Limits(tool_timeout_s=LIMIT_S))
    server.tools.replace(
        [Tool("blocks", blocking, {"type": "object"}, **tool), Tool("quick", quick, {"type": "object"})]
    )
    server.resources.replace([Resource("x://a", "a", blocking)])
    server.prompts.replace([Prompt("p", blocking)])
    return Peer(server)


CALL = {"name": "blocks", "arguments": {}}


def is_told(answer: dict[str, Any]) -> bool:
    """True if an answer reports the timeout, as a result or as an error."""
    told = f"not finished within its limit of {LIMIT_S:g} s"
    if "error" in answer:
        return told in answer["error"]["message"]
    return answer["result"]["isError"] and told in answer["result"]["content"][0]["text"]


@pytest.mark.parametrize("capabilities", [None, {}, {"elicitation": {"form": {}}}])
async def test_in_a_session_without_one_and_in_rounds(capabilities: dict[str, Any] | None) -> None:
    peer = make_peer()
    if capabilities is None:
        await peer.shake_hands()
        peer.request(1, "tools/call", CALL)
    else:
        meta: dict[str, Any] = {CAPABILITIES_KEY: capabilities}
        peer.modern(1, "tools/call", CALL, **meta)
    assert is_told(await peer.response(1))


async def test_as_a_task() -> None:
    peer = make_peer(task="optional", timeout_s=LIMIT_S)
    await peer.shake_hands()
    peer.request(1, "tools/call", CALL | {"task": {}})
    task = (await peer.response(1))["result"]["task"]
    peer.request(2, "tasks/result", {"taskId": task["taskId"]})
    assert is_told(await peer.response(2))


@pytest.mark.parametrize(
    ("method", "params"), [("resources/read", {"uri": "x://a"}), ("prompts/get", {"name": "p"})]
)
async def test_resources_and_prompts(method: str, params: dict[str, Any]) -> None:
    peer = make_peer()
    await peer.shake_hands()
    peer.request(1, method, params)
    assert is_told(await peer.response(1))


async def test_calls_that_came_with_it_are_not_blamed() -> None:
    peer = make_peer()
    await peer.shake_hands()
    peer.request(1, "tools/call", CALL)
    peer.request(2, "tools/call", {"name": "quick", "arguments": {}})
    assert is_told(await peer.response(1))
    assert (await peer.response(2))["result"]["content"][0]["text"] == "quick"


OBJECT = {"type": "object"}
Work = Callable[[], Awaitable[Any]]


async def exit_at_once() -> Any:
    sys.exit(3)


async def interrupt() -> Any:
    raise KeyboardInterrupt


async def cancel_itself() -> Any:
    raise asyncio.CancelledError


async def await_something_cancelled() -> Any:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def raise_the_base() -> Any:
    raise BaseException("odd")


async def swallow_the_limit() -> Any:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return "too late"


async def convert_the_limit() -> Any:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        raise ValueError("converted") from None


async def hang() -> Any:
    await asyncio.Event().wait()


async def say_hello() -> Any:
    return "hello"


async def fail_in_a_group() -> Any:
    async def fail() -> None:
        raise ValueError("in a group")

    async with asyncio.TaskGroup() as group:
        group.create_task(fail())


def peer_with(*works: Work, limit_s: float = 30.0) -> Peer:
    """A peer of a server with a tool for each function, named like it."""

    def tool(work: Work) -> Tool:
        async def handler(arguments: dict[str, Any], context: Context) -> Any:
            return await work()

        return Tool(work.__name__, handler, OBJECT)

    peer = Peer()
    peer.server.limits = Limits(tool_timeout_s=limit_s)
    peer.server.tools.replace([tool(work) for work in (*works, say_hello)])
    return peer


async def said(peer: Peer, work: Work) -> str:
    """The text of the tool error a call gets."""
    peer.modern(work.__name__, "tools/call", {"name": work.__name__})
    result = (await peer.response(work.__name__))["result"]
    assert result["isError"] is True
    text: str = result["content"][0]["text"]
    return text


@pytest.mark.parametrize(
    ("work", "name"),
    [
        (exit_at_once, "SystemExit: 3"),
        (interrupt, "KeyboardInterrupt"),
        (cancel_itself, "CancelledError"),
        (await_something_cancelled, "CancelledError"),
        (raise_the_base, "BaseException: odd"),
    ],
)
async def test_an_exception_that_would_end_more_than_its_call_is_a_tool_error(work: Work, name: str) -> None:
    peer = peer_with(work)
    assert name in await said(peer, work)
    peer.modern(2, "tools/call", {"name": "say_hello"})
    assert (await peer.response(2))["result"]["content"][0]["text"] == "hello"


@pytest.mark.parametrize("work", [swallow_the_limit, convert_the_limit, hang])
async def test_a_call_over_its_limit_is_answered_whatever_the_handler_makes_of_it(work: Work) -> None:
    assert "limit of 0.05 s" in await said(peer_with(work, limit_s=0.05), work)


@pytest.mark.parametrize("work", [swallow_the_limit, convert_the_limit, hang])
async def test_a_call_the_stop_ends_is_told_so_whatever_the_handler_makes_of_it(work: Work) -> None:
    peer = peer_with(work)
    peer.modern(1, "tools/call", {"name": work.__name__})
    asked: dict[str, Any] = {"elicitation": {}}
    peer.modern(2, "tools/call", {"name": work.__name__}, **{CAPABILITIES_KEY: asked})
    await until(lambda: len(peer.services.deadlines) == 2)
    await peer.services.close()
    results = [message["result"] for message in peer.received]
    assert [each["isError"] for each in results] == [True, True]
    assert all("the server is stopping" in each["content"][0]["text"] for each in results)
    assert not peer.services.deadlines


async def test_a_resource_the_stop_ends_is_an_error_that_says_so() -> None:
    async def read(uri: str, variables: dict[str, str], context: Context) -> Any:
        await hang()

    peer = peer_with()
    peer.server.resources.replace([Resource("slow://it", "it", read)])
    peer.modern(1, "resources/read", {"uri": "slow://it"})
    await until(lambda: peer.services.deadlines)
    await peer.services.close()
    assert "the server is stopping" in peer.received[0]["error"]["message"]


async def test_the_log_says_where_the_limit_was_reached() -> None:
    peer = peer_with(hang, limit_s=0.05)
    peer.server.folder = Path(__file__).parent
    await said(peer, hang)
    assert any("in hang" in text and "limit of 0.05 s" in text for _, _, text in peer.logged)


async def test_a_swallowed_cancellation_does_not_reach_the_calls_after_it() -> None:
    peer = peer_with(swallow_the_limit, fail_in_a_group, limit_s=0.05)
    await said(peer, swallow_the_limit)
    assert "ExceptionGroup" in await said(peer, fail_in_a_group)


async def test_a_prompt_that_hangs_or_exits_is_an_error() -> None:
    async def render(arguments: dict[str, str], context: Context) -> Any:
        await (exit_at_once() if "now" in arguments else hang())

    peer = peer_with(limit_s=0.05)
    peer.server.prompts.replace([Prompt("it", render)])
    peer.modern(1, "prompts/get", {"name": "it"})
    peer.modern(2, "prompts/get", {"name": "it", "arguments": {"now": ""}})
    assert "limit of 0.05 s" in (await peer.response(1))["error"]["message"]
    assert "SystemExit" in (await peer.response(2))["error"]["message"]


async def test_a_context_that_hangs_counts_against_the_limit_of_the_tool() -> None:
    async def create_context(request: Any) -> Any:
        await hang()

    peer = peer_with(limit_s=0.05)
    peer.server.create_context = create_context
    assert "limit of 0.05 s" in await said(peer, say_hello)
