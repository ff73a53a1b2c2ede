"""Requests of several exchanges, on a transport without a server: pages, progress, questions, cancelling."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import pytest

from mcpdesk.client.answers.pending_replies import PendingReplies
from mcpdesk.client.connection import Questions, ServerConnection
from mcpdesk.client.flows import MAX_PAGES, CallObserver, argument_headers, without_invalid_headers
from mcpdesk.client.negotiation import Agreement
from mcpdesk.client.transport import ClientTransport, Incoming, Receive, ServerReply
from mcpdesk.errors import CallError, InvalidAnswer, ProtocolError
from mcpdesk.protocol.headers import check_parameters, mirrored_arguments
from mcpdesk.protocol.revisions import LATEST, LATEST_HANDSHAKE, Revision
from tests.support.patience import in_time


class Script(ClientTransport):
    """A transport whose server sends the answers of a test, at the time the test chooses."""

    target = "script"

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.sent: list[dict[str, Any]] = []
        self.listens = 0
        self._replies = PendingReplies()
        self._receive: Receive = lambda incoming: None

    async def open(self, receive: Receive) -> None:
        self._receive = receive

    async def exchange(
        self, request: dict[str, Any], headers: Mapping[str, str], receive: Receive
    ) -> ServerReply:
        with self._replies.pending_reply(request["id"]) as reply:
            self.requests.append(request)
            return await reply

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    async def listen(self, opened: Callable[[], None]) -> None:
        self.listens += 1

    async def close(self) -> None:
        self._replies.fail(CallError("closed"))

    def answer(self, answer: dict[str, Any], place: int = -1) -> None:
        """Answer a request, the last one by default."""
        message = {"jsonrpc": "2.0", "id": self.requests[place]["id"], **answer}
        self._replies.deliver_response(message, b"raw")

    def say(self, method: str, params: Any, **more: Any) -> None:
        """Send a request or notification of the server."""
        self._receive(Incoming({"jsonrpc": "2.0", "method": method, "params": params, **more}))


def connected(revision: Revision, questions: Questions | None = None) -> tuple[Script, ServerConnection]:
    script = Script()
    return script, ServerConnection(
        script, {"name": "t"}, questions=lambda: questions or {}, agreement=Agreement(revision)
    )


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class Watcher(CallObserver):
    """Stores the observed calls."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def sent(self, request_id: int) -> None:
        self.seen.append(request_id)

    def progressed(self, progress: float, total: float | None, message: str) -> None:
        self.seen.append((progress, total, message))

    def on_log(self, text: str) -> None:
        self.seen.append(text)


async def pages(page: Callable[[Any], dict[str, Any]]) -> list[Any]:
    """All items of a list whose pages are found by their cursor."""

    class Paged(Script):
        async def exchange(
            self, request: dict[str, Any], headers: Mapping[str, str], receive: Receive
        ) -> ServerReply:
            result = page(request["params"].get("cursor"))
            return ServerReply({"jsonrpc": "2.0", "id": request["id"], "result": result}, b"")

    connection = ServerConnection(Paged(), {"name": "t"}, agreement=Agreement(LATEST_HANDSHAKE))
    return [each["name"] for each in await connection.list_all("tools/list", "tools")]


def tool(name: str) -> dict[str, Any]:
    return {"name": name, "inputSchema": {}}


async def test_pages_are_joined_in_their_order() -> None:
    answers: dict[Any, Any] = {
        None: {"tools": [tool("1"), tool("2")], "nextCursor": "a"},
        "a": {"tools": [], "nextCursor": ""},
        "": {"tools": [tool("3")]},
    }
    assert await pages(answers.__getitem__) == ["1", "2", "3"]


@pytest.mark.parametrize("again", ["again", ""])
async def test_a_repeated_cursor_ends_the_list_with_what_came(again: str) -> None:
    assert await pages(lambda _: {"tools": [tool("1"), tool("2")], "nextCursor": again}) == ["1", "2"]
    answers: dict[Any, Any] = {
        None: {"tools": [tool("1")], "nextCursor": again},
        again: {"tools": [tool("2")], "nextCursor": again},
    }
    assert await pages(answers.__getitem__) == ["1", "2"]


async def test_pages_without_an_end_are_an_error() -> None:
    cursors = map(str, count())
    with pytest.raises(InvalidAnswer, match="tools/list: the pages have no end"):
        await pages(lambda _: {"tools": [], "nextCursor": next(cursors)})
    assert next(cursors) == str(MAX_PAGES + 1)


@pytest.mark.parametrize("revision", [LATEST, LATEST_HANDSHAKE], ids=str)
async def test_progress_and_logs_reach_who_observes_the_call(revision: Revision) -> None:
    script, connection = connected(revision)
    watcher = Watcher()
    work = asyncio.create_task(connection.request("tools/call", {"name": "t"}, observer=watcher))
    await turns()
    token = script.requests[0]["params"]["_meta"]["progressToken"]
    for params in ({"progressToken": token, "progress": 1, "total": 3, "message": "on"}, {"progress": 2}, {}):
        script.say("notifications/progress", params)
    script.say("notifications/message", {"level": "info", "data": {"a": 1}})
    script.say("notifications/message", {})
    script.answer({"result": {"content": []}})
    assert (await work).frame == b"raw"
    assert watcher.seen == [token, (1, 3, "on"), 'info: {"a":1}', "None: null"]


async def test_cancelled_request_is_cancelled_on_the_wire_and_a_late_answer_is_dropped() -> None:
    script, connection = connected(LATEST_HANDSHAKE)
    work = asyncio.create_task(connection.request("tools/call", {"name": "t"}))
    await turns()
    work.cancel()
    await asyncio.wait([work])
    await turns()
    script.answer({"result": {}})
    (told,) = script.sent
    assert told["method"] == "notifications/cancelled"
    assert told["params"]["requestId"] == script.requests[0]["id"]


async def asks(params: dict[str, Any], subject: str) -> dict[str, Any]:
    if params.get("no"):
        raise ProtocolError(-1, "not today")
    return {"roots": [subject]}


async def test_question_is_answered_in_the_name_of_the_call_that_runs_and_a_refusal_is_sent() -> None:
    script, connection = connected(LATEST_HANDSHAKE, {"roots/list": asks})
    work = asyncio.create_task(connection.request("tools/call", {"name": "t"}))
    await turns()
    for identifier, params in (("1", {}), ("2", {"no": True})):
        script.say("roots/list", params, id=identifier)
        await turns()
    script.answer({"result": {"content": []}})
    await work
    assert [each.get("result") or each["error"]["code"] for each in script.sent] == [{"roots": ["t"]}, -1]


async def test_refusal_that_cannot_be_sent_ends_the_call() -> None:
    script, connection = connected(LATEST, {"roots/list": asks})
    work = asyncio.create_task(connection.request("tools/call", {"name": "t"}))
    await turns()
    requests = {"a": {"method": "roots/list", "params": {"no": True}}}
    script.answer({"result": {"resultType": "input_required", "inputRequests": requests}})
    with pytest.raises(ProtocolError, match="not today"):
        await work
    assert len(script.requests) == 1


async def test_question_the_server_takes_back_is_not_answered() -> None:
    is_cancelled = asyncio.Event()

    async def think(params: dict[str, Any], subject: str) -> dict[str, Any]:
        try:
            await asyncio.Event().wait()
        finally:
            is_cancelled.set()
        return {}

    script, connection = connected(LATEST_HANDSHAKE, {"roots/list": think})
    await connection.open()
    script.say("roots/list", {}, id=7)
    await turns()
    script.say("notifications/cancelled", {"requestId": 8})
    script.say("notifications/cancelled", {"requestId": 7})
    await in_time(is_cancelled.wait())
    assert script.sent == []


async def test_server_of_the_stateless_era_cannot_send_requests() -> None:
    script, connection = connected(LATEST, {"roots/list": asks})
    await connection.open()
    script.say("roots/list", {}, id=7)
    await turns()
    assert script.sent == []


SCHEMA = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "place": {"type": "object", "properties": {"floor": {"type": "integer", "x-mcp-header": "Floor"}}},
        "fast": {"type": "boolean", "x-mcp-header": "Fast"},
    },
}


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"region": "eu"}, {"mcp-param-region": "eu"}),
        ({"region": " x "}, {"mcp-param-region": "=?base64?IHgg?="}),
        ({"region": None, "fast": False}, {"mcp-param-fast": "false"}),
        ({"place": {"floor": -7}}, {"mcp-param-floor": "-7"}),
        ({"place": "upstairs"}, {}),
        ({}, {}),
    ],
)
def test_arguments_become_headers_a_server_accepts(arguments: Any, headers: dict[str, str]) -> None:
    assert argument_headers(SCHEMA, arguments) == headers
    check_parameters(mirrored_arguments(SCHEMA), arguments, headers)


def test_tool_with_a_wrong_mark_is_left_out_and_named(caplog: pytest.LogCaptureFixture) -> None:
    wrong = {"properties": {"a": {"type": "object", "x-mcp-header": "A"}}}
    tools = [{"name": "good", "inputSchema": SCHEMA}, {"name": "bad", "inputSchema": wrong}]
    with caplog.at_level(logging.WARNING, "mcpdesk.client"):
        assert without_invalid_headers(tools) == tools[:1]
    assert "'bad' is skipped" in caplog.text
