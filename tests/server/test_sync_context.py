"""Plain functions run in threads with the same context, and may block as they like."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mcpdesk.inbox.question import Answer, Question
from mcpdesk.server.calls.threads import worker_threads
from mcpdesk.server.calls.threads.worker_threads import ThreadedCall, WorkerThreads
from mcpdesk.server.offer.prompts import Prompt
from mcpdesk.server.offer.resources import Resource, ResourceTemplate
from mcpdesk.server.offer.server import Limits, Server
from mcpdesk.server.offer.tool import Tool
from tests.support.messages import said
from tests.support.module import found_in
from tests.support.patience import WITHIN_S, in_time, until
from tests.support.served import Peer

SIGNALS = SimpleNamespace()
"""Events between hosted code of these tests and the test."""

TOOLS = '''
import threading
import time
from tests.server.test_sync_context import SIGNALS
from mcpdesk import ClientError, Option, Page, SyncContext, fail, message, prompt, resource, tool

@tool
def where(word: str) -> dict[str, str]:
    """Say in which thread it runs."""
    return {"thread": threading.current_thread().name, "word": word}

@tool
def steps(ctx: SyncContext) -> str:
    """Report progress and log."""
    ctx.info("starting")
    for step in (1, 2):
        ctx.progress(step, 2, f"step {step}")
    return f"{ctx.tool} for {ctx.peer}"

@tool
def tea(ctx) -> str:
    """Ask a person."""
    return ctx.ask([Page("Which?", options=(Option("green"), Option("black")))]).answers[0].selected[0]

@tool
def form(ctx: SyncContext) -> str:
    """Ask the client."""
    answer = ctx.elicit("Name?", {"type": "object", "properties": {"name": {"type": "string"}}})
    return answer.content["name"]

@tool
def roots(ctx: SyncContext) -> str:
    """Ask a client that cannot be asked."""
    try:
        return str(ctx.list_roots())
    except ClientError as error:
        return f"no roots: {error.message}"

@tool
def wrong() -> str:
    """Fail."""
    raise ValueError("broken inside")

@tool
def ends() -> str:
    """Try to end the process."""
    raise SystemExit(3)

@tool
def stops() -> str:
    """Raise what no future takes."""
    raise StopIteration

@tool
def polite() -> str:
    """Fail on purpose."""
    fail("no such order", order=7)

@tool(timeout=0.2)
def blocks(ctx: SyncContext) -> str:
    """Block past its limit, then go on."""
    SIGNALS.begun.set()
    SIGNALS.go.wait(20)
    SIGNALS.seen.append(ctx.cancelled)
    try:
        ctx.progress(1)
    except BaseException as error:
        SIGNALS.seen.append(type(error).__name__)
        SIGNALS.over.set()
        raise
    return "late"

@tool(timeout=60)
def waits(ctx: SyncContext) -> str:
    """Wait for a person, until it is cancelled."""
    SIGNALS.begun.set()
    try:
        ctx.ask([Page("Which?", options=(Option("a"), Option("b")))])
    except BaseException as error:
        SIGNALS.seen.append(type(error).__name__)
        SIGNALS.over.set()
        raise
    return "answered"

@tool
def offers(ctx: SyncContext) -> str:
    """Withdraw another tool, on the core's loop."""
    ctx.on_loop(ctx.server.tools.withdraw, "where")
    return "withdrawn"

@resource("clock://now")
def clock(ctx: SyncContext) -> str:
    """A plain resource."""
    return f"{threading.current_thread().name} {ctx.tool}"

@resource("city://{name}", complete=lambda typed: [f"{typed}{threading.current_thread().name}"])
def city(name: str) -> str:
    """A plain template."""
    return f"{threading.current_thread().name} {name}"

@prompt
def summarize(topic: str) -> str:
    """A plain prompt."""
    return f"{threading.current_thread().name}: Summarize {topic}"
'''

HANDLER = """
import threading
INPUT_SCHEMA = {"type": "object"}

def handler(args, context, ctx):
    ctx.info("from a handler")
    return {"thread": threading.current_thread().name, "context": context, "args": args}
"""


@pytest.fixture(autouse=True)
def signals() -> SimpleNamespace:
    SIGNALS.begun, SIGNALS.go, SIGNALS.over = threading.Event(), threading.Event(), threading.Event()
    SIGNALS.seen = []
    return SIGNALS


@pytest.fixture
def serve(tmp_path: Path) -> Callable[..., Peer]:
    def make(text: str = TOOLS, **limits: Any) -> Peer:
        server = Server("plain", limits=Limits(**limits))
        shelves: dict[type, Any] = {
            Tool: server.tools, Prompt: server.prompts,
            Resource: server.resources, ResourceTemplate: server.templates,
        }  # fmt: skip
        found = found_in(tmp_path, text)
        assert not found.broken
        for kind, registry in shelves.items():
            registry.replace([item for item in found.items if isinstance(item, kind)])
        return Peer(server)

    return make


async def call(peer: Peer, tool: str, identifier: int = 1, **arguments: Any) -> dict[str, Any]:
    await peer.shake_hands()
    peer.request(identifier, "tools/call", {"name": tool, "arguments": arguments})
    answer: dict[str, Any] = (await peer.response(identifier))["result"]
    return answer


async def test_a_plain_tool_runs_in_a_thread(serve: Callable[..., Peer]) -> None:
    result = await call(serve(), "where", word="hello")
    assert result["structuredContent"] == {"thread": "worker", "word": "hello"}


async def test_it_reports_and_logs_without_await(serve: Callable[..., Peer]) -> None:
    peer = serve()
    await peer.shake_hands()
    peer.request(2, "tools/call", {"name": "steps", "arguments": {}, "_meta": {"progressToken": "t"}})
    assert said((await peer.response(2))["result"]) == "steps for tester"
    progress = [each["params"]["message"] for each in peer.received if "progress" in str(each.get("method"))]
    assert progress == ["step 1", "step 2"]
    assert ("info", "steps", "starting") in peer.logged


async def test_it_asks_a_person(serve: Callable[..., Peer]) -> None:
    peer = serve()
    await peer.shake_hands()
    peer.inbox.audience = 1

    def answer(question: Question) -> None:
        peer.inbox.answer(question.id, [Answer(("green",))])

    peer.inbox.subscribe(answer)
    peer.request(2, "tools/call", {"name": "tea", "arguments": {}})
    assert said((await peer.response(2))["result"]) == "green"


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_it_asks_the_client_in_both_eras(serve: Callable[..., Peer], revision: str) -> None:
    peer, answer = serve(), {"action": "accept", "content": {"name": "Ada"}}
    params: dict[str, Any] = {"name": "form", "arguments": {}}
    capabilities: dict[str, Any] = {"elicitation": {"form": {}}}
    if revision == "2026-07-28":
        meta = {"io.modelcontextprotocol/clientCapabilities": capabilities}
        peer.modern(2, "tools/call", params, **meta)
        first = (await peer.response(2))["result"]
        (key,) = first["inputRequests"]
        again = params | {"requestState": first["requestState"], "inputResponses": {key: answer}}
        peer.modern(3, "tools/call", again, **meta)
    else:
        client = {"name": "tester", "version": "1"}
        opening = {"protocolVersion": revision, "capabilities": capabilities, "clientInfo": client}
        peer.request(0, "initialize", opening)
        await peer.response(0)
        peer.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        peer.request(3, "tools/call", params)
        asked = await peer.message(lambda message: message.get("method") == "elicitation/create")
        peer.send({"jsonrpc": "2.0", "id": asked["id"], "result": answer})
    assert said((await peer.response(3))["result"]) == "Ada"


async def test_what_cannot_be_asked_raises_in_the_thread(serve: Callable[..., Peer]) -> None:
    assert said(await call(serve(), "roots")) == "no roots: The client does not offer roots"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        ("wrong", "wrong failed: ValueError: broken inside"),
        ("ends", "ends failed: RuntimeError: it raised SystemExit: 3"),
        ("stops", "stops failed: RuntimeError: it raised StopIteration"),
        ("polite", "no such order"),
    ],
)
async def test_what_it_raises_is_a_result(serve: Callable[..., Peer], tool: str, text: str) -> None:
    result = await call(serve(), tool)
    assert result["isError"] and said(result) == text


async def test_a_function_that_blocks_times_out_while_others_are_answered(
    serve: Callable[..., Peer], signals: SimpleNamespace
) -> None:
    peer = serve()
    await peer.shake_hands()
    peer.request(2, "tools/call", {"name": "blocks", "arguments": {}})
    peer.request(3, "tools/call", {"name": "where", "arguments": {"word": "x"}})
    await peer.response(3)
    assert "not finished within its limit of 0.2 s" in said((await peer.response(2))["result"])
    answers = len(peer.received)
    signals.go.set()
    assert await asyncio.to_thread(signals.over.wait, WITHIN_S)
    assert signals.seen == [True, "CancelledError"]
    assert len(peer.received) == answers


async def test_a_cancelled_call_raises_where_the_function_waits(
    serve: Callable[..., Peer], signals: SimpleNamespace
) -> None:
    peer = serve()
    await peer.shake_hands()
    peer.inbox.audience, asked = 1, asyncio.Event()
    peer.inbox.subscribe(lambda _: asked.set())
    peer.request(2, "tools/call", {"name": "waits", "arguments": {}})
    await in_time(asked.wait())
    peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})
    assert await asyncio.to_thread(signals.over.wait, WITHIN_S)
    assert signals.seen == ["CancelledError"]


async def test_resources_templates_prompts_and_completions_run_in_threads(
    serve: Callable[..., Peer],
) -> None:
    peer = serve()
    await peer.shake_hands()
    peer.request(1, "resources/read", {"uri": "clock://now"})
    peer.request(2, "resources/read", {"uri": "city://oslo"})
    peer.request(3, "prompts/get", {"name": "summarize", "arguments": {"topic": "tea"}})
    reference = {"type": "ref/resource", "uri": "city://{name}"}
    peer.request(4, "completion/complete", {"ref": reference, "argument": {"name": "name", "value": "x"}})
    assert (await peer.response(1))["result"]["contents"][0]["text"] == "worker clock://now"
    assert (await peer.response(2))["result"]["contents"][0]["text"] == "worker oslo"
    prompt = (await peer.response(3))["result"]["messages"][0]["content"]["text"]
    assert prompt == "worker: Summarize tea"
    assert (await peer.response(4))["result"]["completion"]["values"] == ["xworker"]


async def test_a_plain_handler_gets_what_an_async_one_does(serve: Callable[..., Peer]) -> None:
    peer = serve(HANDLER)
    result = await call(peer, "my-file", x=1)
    assert result["structuredContent"] == {"thread": "worker", "context": None, "args": {"x": 1}}
    assert ("info", "my-file", "from a handler") in peer.logged


async def test_what_is_served_is_changed_on_the_loop(serve: Callable[..., Peer]) -> None:
    peer = serve()
    result = await call(peer, "offers")
    assert said(result) == "withdrawn" and peer.server.tools.get("where") is None


async def test_context_variables_are_carried_over() -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("mine")
    assert await WorkerThreads().run(ThreadedCall(variable.get, asyncio.get_running_loop())) == "mine"


async def test_when_all_threads_are_in_use_the_answer_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_threads, "QUEUE_TIMEOUT_S", 0.05)
    pool, go, loop = WorkerThreads(max_threads=2), threading.Event(), asyncio.get_running_loop()
    blocking = [asyncio.create_task(pool.run(ThreadedCall(go.wait, loop))) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(Exception, match=r"All 2 threads for plain functions are in use\. Call again later"):
        await pool.run(ThreadedCall(lambda: 1, loop))
    for each in blocking:
        each.cancel()
    await asyncio.wait(blocking)
    with pytest.raises(Exception, match="2 of them by functions that still run after their call ended"):
        await pool.run(ThreadedCall(lambda: 1, loop))
    monkeypatch.setattr(worker_threads, "QUEUE_TIMEOUT_S", WITHIN_S)
    go.set()
    await until(lambda: not pool._running_calls)
    results = await asyncio.gather(*(pool.run(ThreadedCall(lambda: 7, loop)) for _ in range(20)))
    assert results == [7] * 20


async def test_threads_without_work_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_threads, "IDLE_S", 0.01)
    pool = WorkerThreads(max_threads=3)
    found = await pool.run(ThreadedCall(threading.current_thread, asyncio.get_running_loop()))
    await asyncio.to_thread(found.join, WITHIN_S)
    assert not found.is_alive() and found.daemon
    assert await pool.run(ThreadedCall(lambda: 7, asyncio.get_running_loop())) == 7


def test_a_generator_is_refused(tmp_path: Path) -> None:
    found = found_in(tmp_path, "def rows():\n    yield 1\n")
    assert not found.items and "rows yields" in found.broken[0][1].reason


async def test_what_wraps_an_async_function_is_called_as_that_is(serve: Callable[..., Peer]) -> None:
    text = """
import functools
import threading

def _logged(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        return function(*args, **kwargs)
    return call

@_logged
async def thread(ctx) -> str:
    await ctx.info("called")
    return threading.current_thread().name
"""
    assert said(await call(serve(text), "thread")) == threading.current_thread().name


def test_an_async_function_cannot_have_the_context_of_plain_ones(tmp_path: Path) -> None:
    text = "from mcpdesk import SyncContext\nasync def mine(ctx: SyncContext) -> str: ...\n"
    found = found_in(tmp_path, text)
    assert "mine is async: its context is a Context" in found.broken[0][1].reason
