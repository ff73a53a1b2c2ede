"""Calls of tools: arguments, outputs, failures, limits, waiting for a person."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from mcpdesk import fail
from mcpdesk.errors import ServerFailure
from mcpdesk.inbox.question import Answer
from mcpdesk.protocol.revisions import V2026_07_28
from mcpdesk.protocol.stateless import request_meta
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.resources import ResourceTemplate
from mcpdesk.server.offer.tool import Tool
from tests.support.served import Peer

META = request_meta(V2026_07_28, {"name": "tester", "version": "1"})
ANYTHING = {"type": "object"}


async def call(peer: Peer, name: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool in the newest revision and return its result."""
    peer.modern("call", "tools/call", {"name": name, "arguments": arguments})
    result: dict[str, Any] = (await peer.response("call"))["result"]
    return result


async def test_an_exception_is_a_tool_error_without_a_stack() -> None:
    peer = Peer()
    result = await call(peer, "boom")
    assert result["isError"] is True
    assert result["content"][0]["text"] == "boom failed: ValueError: broken inside"
    assert any("Traceback" in text or "raise ValueError" in text for _, _, text in peer.logged)


async def test_an_expected_failure_is_one_line_at_info_and_others_are_errors() -> None:
    async def fails(arguments: dict[str, Any], context: Context) -> str:
        raise ServerFailure("the state file is locked")

    async def read(uri: str, variables: dict[str, str], context: Context) -> str:
        fail("no such item")

    peer = Peer()
    peer.server.folder = Path(__file__).parent
    peer.server.tools.replace([*peer.server.tools, Tool("fails", fails, ANYTHING)])
    peer.server.templates.replace([ResourceTemplate("item://{id}", "item", read)])
    result = await call(peer, "boom", politely=True)
    assert result["content"][0]["text"] == "no such order"
    peer.modern(2, "resources/read", {"uri": "item://7"})
    assert "no such item" in (await peer.response(2))["error"]["message"]
    assert peer.logged == [("info", "boom", "no such order"), ("info", "resources/read", "no such item")]
    peer.modern(3, "tools/call", {"name": "fails"})
    assert (await peer.response(3))["result"]["isError"]
    (level, source, text) = peer.logged[-1]
    assert (level, source) == ("error", "fails") and "ServerFailure: the state file is locked" in text


async def test_waiting_for_a_person_does_not_count_against_the_limit() -> None:
    peer = Peer()
    peer.inbox.audience = 1
    peer.modern(1, "tools/call", {"name": "ask"})
    peer.modern(2, "tools/call", {"name": "brief"})
    await peer.response(2)
    question = peer.inbox.questions()[0]
    peer.inbox.answer(question.id, [Answer(("b",))])
    result = (await peer.response(1))["result"]
    assert result["structuredContent"] == {"state": "answered", "answers": [["b"]]}


async def test_every_call_is_served_under_its_own_terms() -> None:
    peer = Peer()
    await peer.shake_hands("2025-06-18")
    spoken = []
    for number, meta in enumerate((None, META, {"x": 1}, META, None, META | {"y": 1})):
        params = {"name": "echo", "arguments": {"text": "a"}} | ({} if meta is None else {"_meta": meta})
        peer.request(number + 1, "tools/call", params)
        answer = await peer.response(number + 1)
        spoken.append("resultType" in answer["result"])
    assert spoken == [False, True, False, True, False, True]


async def test_claims_a_client_brings_are_dropped() -> None:
    peer = Peer()
    seen: list[dict[str, Any]] = []

    async def keep(arguments: dict[str, Any], context: Context) -> str:
        seen.append(arguments)
        return "kept"

    peer.server.tools.replace([Tool("keep", keep, ANYTHING)])
    await call(peer, "keep", x=1, __jwt={"sub": "eve"})
    assert seen == [{"x": 1}]


async def test_a_tool_that_changed_is_called_as_it_is_now() -> None:
    peer = Peer()
    assert (await call(peer, "echo", text="a"))["content"][0]["text"] == "a"
    peer.received.clear()

    async def other(arguments: dict[str, Any], context: Context) -> str:
        return "other"

    peer.server.tools.replace([Tool("echo", other, ANYTHING, fingerprint="2")])
    assert (await call(peer, "echo"))["content"][0]["text"] == "other"


async def test_a_value_that_fails_at_being_dumped_is_an_error() -> None:
    class Model:
        def model_dump(self, mode: str) -> Any:
            raise KeyError(mode)

    async def model(arguments: dict[str, Any], context: Context) -> Any:
        return Model()

    peer = Peer()
    peer.server.tools.replace([Tool("model", model, ANYTHING)])
    peer.modern(1, "tools/call", {"name": "model"})
    assert "KeyError" in (await peer.response(1))["error"]["message"]


async def test_a_handler_runs_in_a_task_of_its_own_with_time_limits_and_variables() -> None:
    variable = ContextVar("variable", default=0)
    tasks = []

    async def look(arguments: dict[str, Any], context: Context) -> str:
        tasks.append(asyncio.current_task())
        found = variable.get()
        variable.set(found + 1)
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            return f"timed out {found}"
        return "continued"

    peer = Peer()
    peer.server.tools.replace([Tool("look", look, ANYTHING)])
    for number in (1, 2):
        peer.modern(number, "tools/call", {"name": "look"})
        assert "timed out 0" in str(await peer.response(number))
    assert None not in tasks and tasks[0] is not tasks[1]
