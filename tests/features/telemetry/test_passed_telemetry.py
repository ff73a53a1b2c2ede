"""Telemetry that a collector receives about requests to upstream servers, by real cores and programs."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mcpdesk.client.targets import CommandTarget, RemoteTarget, UrlTarget
from mcpdesk.features.telemetry.otlp_values import error_type
from mcpdesk.features.telemetry.passed_traffic import MAX_TRACED_REQUESTS, PassedExchange, PassedTraffic
from mcpdesk.features.telemetry.span_records import CallRecord
from mcpdesk.protocol.revisions import V2026_07_28
from mcpdesk.protocol.stateless import request_meta
from mcpdesk.protocol.trace import NONE, CallSpan
from mcpdesk.recorder.record import ConnectionInfo
from mcpdesk.server.calls.call_figures import OutcomeKind
from mcpdesk.server.calls.call_watch import AskedQuestion
from mcpdesk.upstream.upstream import UpstreamPlan
from tests.features.telemetry.test_telemetry import CALLER, PARENT, SECRET, TRACE, Client, collector, folder
from tests.support import odd_server
from tests.support.desk import RunningDesk, running_desk
from tests.support.otlp_collector import Line, StandIn
from tests.support.patience import until
from tests.support.ports import free_port
from tests.upstream.test_pass_through import ANSWER, ASKED, JSON, OtherProcesses, through

__all__ = ["collector", "folder"]
ODD = CommandTarget((sys.executable, odd_server.PROGRAM, "plain"))


@asynccontextmanager
async def near(target: RemoteTarget, url: str, **flags: Any) -> AsyncIterator[tuple[Client, RunningDesk]]:
    """A core with an upstream server, and a client that reaches it through the core."""
    given: dict[str, Any] = {"otel_endpoint": url, "otel_metrics_ms": 200, "no_auth": True, **flags}
    plan = UpstreamPlan("near", target)
    async with running_desk(upstreams=[plan], http=True, **given) as desk, aiohttp.ClientSession() as http:
        await until(lambda: desk.host.upstreams["near"].status.state in ("ready", "failed"))
        yield Client(http, desk.host.url("near")), desk


@asynccontextmanager
async def there(folder: Path, url: str = "") -> AsyncIterator[tuple[UrlTarget, RunningDesk]]:
    """A folder served by another core, which sends to the collector as well if there is a URL."""
    async with running_desk(folder, http=True, no_auth=True, otel_endpoint=url) as far:
        yield UrlTarget(far.view().servers[0].url), far


def of(server: str, collector: StandIn, name: str, kind: str = "server") -> Line:
    """The first span of that server and name."""
    return collector.see(
        lambda line: (
            line.get("name") == name
            and line["kind"] == kind
            and line["attributes"]["mcpdesk.server"] == server
        )
    )


@pytest.mark.process
async def test_what_passes_stays_byte_for_byte_where_it_is_followed(collector: StandIn) -> None:
    async def use(session: Any, url: str, other_processes: OtherProcesses, desk: RunningDesk) -> None:
        async with session.post(url, data=ASKED, headers=JSON | {"traceparent": CALLER}) as answer:
            assert (answer.status, await answer.read()) == (418, ANSWER)
        headers, body = other_processes.asked[0]
        assert (body, headers["traceparent"]) == (ASKED, CALLER)
        call = await asyncio.to_thread(collector.span, "tools/call")
        assert (call["trace"], call["parent"], call["status"]) == (TRACE, PARENT, "UNSET")

    await through("418", use, otel_endpoint=collector.url)


@pytest.mark.process
async def test_request_that_passes_joins_its_callers_trace_beside_the_servers_own_span(
    folder: Path, collector: StandIn
) -> None:
    async with (
        there(folder, collector.url) as (target, _),
        near(target, collector.url) as (client, _),
    ):
        around = f"00-{TRACE}-1111111111111111-01"
        params = {"name": "echo", "arguments": {"text": SECRET}, "_meta": {"traceparent": CALLER}}
        assert (await client.ask("tools/call", params, traceparent=around))["result"]
        call = await asyncio.to_thread(of, "near", collector, "tools/call echo")
        theirs = await asyncio.to_thread(of, "told", collector, "tools/call echo")
        await asyncio.to_thread(
            collector.point,
            "mcp.server.operation.duration",
            **{"gen_ai.tool.name": "echo", "mcpdesk.server": "near"},
        )
    # The server received the trace of the caller, not ours: its span is beside ours.
    assert (call["trace"], call["parent"], call["links"]) == (TRACE, PARENT, ["1" * 16])
    assert (theirs["trace"], theirs["parent"], theirs["links"]) == (TRACE, PARENT, ["1" * 16])
    assert call["started"] <= theirs["started"] <= theirs["ended"] <= call["ended"]
    assert (call["status"], call["attributes"]["mcpdesk.outcome"]) == ("UNSET", "ok")
    assert call["attributes"]["network.protocol.name"] == "http"
    assert not [each for each in collector.lines if each.get("parent") == call["id"]]
    assert SECRET not in json.dumps(collector.lines)


@pytest.mark.process
async def test_failures_elsewhere_are_errors_and_strange_names_are_told_to_nobody(
    folder: Path, collector: StandIn
) -> None:
    async with there(folder) as (target, _), near(target, collector.url) as (client, _):
        await client.call("boom", text=SECRET)
        await client.call(SECRET)
        await client.ask(f"{SECRET}/method", {})
        await client.ask("initialize", {"protocolVersion": SECRET})
        failed = await asyncio.to_thread(of, "near", collector, "tools/call boom")
        unknown = await asyncio.to_thread(of, "near", collector, "tools/call")
        other = await asyncio.to_thread(of, "near", collector, "_OTHER")
        await asyncio.to_thread(of, "near", collector, "initialize")
    assert (failed["status"], failed["attributes"]["error.type"]) == ("ERROR", "tool_error")
    assert (unknown["status"], other["status"]) == ("UNSET", "UNSET")
    assert unknown["attributes"]["rpc.response.status_code"] == "-32602"
    assert other["attributes"]["rpc.response.status_code"] == "-32601"
    assert SECRET not in json.dumps(collector.lines)


@pytest.mark.process
async def test_server_that_cannot_be_reached_is_an_error_of_the_call(collector: StandIn) -> None:
    target = UrlTarget(f"http://127.0.0.1:{free_port()}/mcp")
    async with near(target, collector.url) as (client, _):
        await client.call("echo", text="x")
        call = await asyncio.to_thread(of, "near", collector, "tools/call")
    assert (call["status"], call["attributes"]["error.type"]) == ("ERROR", "-32603")


async def send(client: Client, headers: Mapping[str, str], **message: Any) -> aiohttp.ClientResponse:
    """Post a message of the handshake era."""
    return await client.http.post(client.url, json={"jsonrpc": "2.0", **message}, headers=headers)


async def opened_session(client: Client, capabilities: dict[str, Any]) -> dict[str, str]:
    """Open a session; the headers that its requests carry."""
    me = {"name": "t", "version": "1"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": me}
    opened = await send(client, JSON, id=1, method="initialize", params=hello)
    return JSON | {
        "Mcp-Session-Id": opened.headers["Mcp-Session-Id"],
        "MCP-Protocol-Version": "2025-06-18",
    }


@pytest.mark.process
async def test_question_of_a_program_is_a_span_below_the_call_that_passes(collector: StandIn) -> None:
    async with near(ODD, collector.url) as (client, _):
        headers = await opened_session(client, {"elicitation": {}})
        await send(client, headers, method="notifications/initialized")
        params = {"name": "ask", "arguments": {}, "_meta": {"traceparent": CALLER}}
        calling = await send(client, headers, id=2, method="tools/call", params=params)
        asked = json.loads((await calling.content.readuntil(b"\n\n")).partition(b"data: ")[2])
        assert asked["method"] == "elicitation/create"
        result = {"action": "accept", "content": {"name": SECRET}}
        await send(client, headers, id=asked["id"], result=result)
        assert SECRET.encode() in await calling.read()
        call = await asyncio.to_thread(of, "near", collector, "tools/call ask")
        question = await asyncio.to_thread(of, "near", collector, "elicitation/create", "client")
    assert (call["trace"], call["parent"]) == (TRACE, PARENT)
    assert call["attributes"]["mcp.protocol.version"] == "2025-06-18"
    assert (question["trace"], question["parent"]) == (TRACE, call["id"])
    said = question["attributes"]
    assert (said["mcpdesk.question.outcome"], said["gen_ai.tool.name"]) == ("accept", "ask")
    assert call["started"] <= question["started"] <= question["ended"] <= call["ended"]
    assert SECRET not in json.dumps(collector.lines)


@pytest.mark.process
async def test_question_in_a_result_lasts_until_the_client_comes_back_with_the_answer(
    folder: Path, collector: StandIn
) -> None:
    meta = request_meta(V2026_07_28, {"name": "t", "version": "1"})
    meta["io.modelcontextprotocol/clientCapabilities"] = {"elicitation": {"form": {}}}
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "form"}
    params: dict[str, Any] = {"name": "form", "arguments": {}, "_meta": meta}
    async with there(folder) as (target, _), near(target, collector.url) as (client, _):
        first = (await client.ask("tools/call", params, **headers))["result"]
        answers = {name: {"action": "decline"} for name in first["inputRequests"]}
        more = {"inputResponses": answers, "requestState": first["requestState"]}
        await client.ask("tools/call", params | more, **headers)
        question = await asyncio.to_thread(of, "near", collector, "elicitation/create", "client")
        await until(lambda: sum(each.get("name") == "tools/call form" for each in collector.lines) == 2)
    calls = [each for each in collector.lines if each.get("name") == "tools/call form"]
    assert question["parent"] == calls[0]["id"]
    assert question["attributes"]["mcpdesk.question.outcome"] == "decline"
    assert calls[0]["ended"] <= question["ended"] and calls[1]["started"] - question["ended"] < 0.5


@pytest.mark.process
@pytest.mark.parametrize("way", ["cancelled", "left"])
async def test_call_that_nobody_waits_for_is_cut_off_and_no_error(
    folder: Path, collector: StandIn, way: str
) -> None:
    async with there(folder) as (target, _), near(target, collector.url) as (client, _):
        headers = await opened_session(client, {})
        call = send(client, headers, id=2, method="tools/call", params={"name": "linger", "arguments": {}})
        running = asyncio.create_task(call)
        await until(lambda: (folder / "lingers").exists())
        if way == "cancelled":
            stop = {"requestId": 2}
            await send(client, headers, method="notifications/cancelled", params=stop)
        else:
            # In a session its client could come back for the answer, until that is over.
            running.cancel()
            await client.http.delete(client.url, headers=headers)
        span = await asyncio.to_thread(of, "near", collector, "tools/call linger")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert (span["attributes"]["mcpdesk.outcome"], span["status"]) == ("cancelled", "UNSET")
    assert headers["Mcp-Session-Id"] not in json.dumps(collector.lines)


@pytest.mark.process
async def test_desks_own_call_is_a_client_span_and_the_servers_stands_below_it(
    folder: Path, collector: StandIn
) -> None:
    async with (
        there(folder, collector.url) as (target, _),
        near(target, collector.url) as (_, desk),
    ):
        call = desk.request("near", "tools/call", {"name": "boom", "arguments": {"text": SECRET}})
        assert (await asyncio.wrap_future(call.outcome)).result is not None
        ours = await asyncio.to_thread(of, "near", collector, "tools/call boom", "client")
        theirs = await asyncio.to_thread(collector.span, "tools/call boom", parent=ours["id"])
        await asyncio.to_thread(
            collector.point, "mcp.client.operation.duration", **{"gen_ai.tool.name": "boom"}
        )
    assert (theirs["trace"], theirs["kind"]) == (ours["trace"], "server")
    assert (ours["parent"], ours["status"]) == ("", "ERROR")
    assert theirs["attributes"]["mcpdesk.server"] == "told"
    assert SECRET not in json.dumps(collector.lines)


class Followed:
    """Open and finished calls and questions."""

    def __init__(self) -> None:
        self.calls: list[CallRecord] = []
        self.questions: list[AskedQuestion] = []
        self.traffic = PassedTraffic(
            lambda meta, headers: CallSpan(NONE, 1, 2, 3), self.calls.append, self.questions.append, target
        )
        self.client = ConnectionInfo(5, "near", "http", "t", "2025-11-25", 0.0)

    def ask(self, identifier: int, method: str = "tools/call") -> PassedExchange:
        return self.traffic.follow(self.client, {"id": identifier, "method": method, "params": {}})


def target(server: str, method: str, params: Mapping[str, object]) -> str:
    """Everything is about the same tool."""
    return "tool"


def test_answer_that_comes_on_a_later_stream_of_the_session_ends_the_call() -> None:
    followed = Followed()
    followed.ask(1).end(200, can_continue=True)
    assert followed.calls == []
    followed.traffic.follow(followed.client, None).handle_server_message({"id": 1, "result": {}})
    (call,) = followed.calls
    assert (call.id, call.is_cut_off, call.outcome) == (1, False, OutcomeKind.OK)


def test_each_request_of_a_batch_is_followed_by_itself() -> None:
    followed = Followed()
    batch = [{"id": 1, "method": "tools/call"}, {"method": "notifications/x"}, {"id": 2, "method": "ping"}]
    exchange = followed.traffic.follow(followed.client, batch)
    exchange.handle_server_message(
        [{"id": 2, "result": {}}, {"id": 1, "error": {"code": 12, "message": "own"}}]
    )
    exchange.end(200, can_continue=False)
    assert [(call.method, call.code, call.outcome) for call in followed.calls] == [
        ("ping", 0, OutcomeKind.OK),
        ("tools/call", 0, OutcomeKind.TOOL_ERROR),  # a server may use any code: all count alike
    ]


def test_question_belongs_to_the_one_call_that_runs_and_to_none_where_several_do() -> None:
    followed = Followed()
    question = {"method": "elicitation/create", "params": {}}
    first = followed.ask(1)
    followed.traffic.handle_server_message(followed.client, question | {"id": "a"})
    followed.ask(2)
    followed.traffic.handle_server_message(followed.client, question | {"id": "b"})
    withdrawn = {"method": "notifications/cancelled", "params": {"requestId": "b"}}
    followed.traffic.handle_server_message(followed.client, withdrawn)
    first.handle_server_message({"id": 1, "result": {}})
    assert [(each.outcome, each.tool, each.has_failed) for each in followed.questions] == [
        ("withdrawn", "", True),
        ("not answered", "tool", True),
    ]


def test_question_has_the_outcome_that_the_client_reports_and_fails_if_it_is_an_error() -> None:
    followed = Followed()
    error = {"error": {"code": -1, "message": "User rejected sampling request"}}
    answers: list[dict[str, Any]] = [error, {"result": {"action": "accept"}}, {"result": {"model": "m"}}]
    for identifier, answer in enumerate(answers):
        question = {"id": identifier, "method": "sampling/createMessage", "params": {}}
        followed.traffic.handle_server_message(followed.client, question)
        followed.traffic.follow(followed.client, {"id": identifier} | answer)
    assert [(each.outcome, each.has_failed) for each in followed.questions] == [
        ("refused", True),
        ("accept", False),
        ("answered", False),
    ]


def test_client_that_is_gone_leaves_nothing_behind_and_too_much_is_let_go_of() -> None:
    followed = Followed()
    for identifier in range(MAX_TRACED_REQUESTS + 1):
        followed.ask(identifier)
    assert [call.id for call in followed.calls] == [0]
    rounds = {"inputRequests": {"k": {"method": "roots/list"}}, "requestState": "s"}
    followed.traffic.handle_server_message(followed.client, {"id": 1, "result": rounds})
    followed.traffic.connection_lost(5)
    assert len(followed.calls) == MAX_TRACED_REQUESTS + 1
    assert [each.outcome for each in followed.questions] == ["not answered"]


def test_status_alone_says_what_became_of_a_request() -> None:
    followed = Followed()
    for status in (200, 401, 502):
        followed.ask(status).end(status, can_continue=False)
    assert [(call.status, error_type(call)) for call in followed.calls] == [
        (0, None),
        (401, None),
        (502, "502"),
    ]


ODD_VALUES: list[Any] = [None, True, 1.5, "x", [], {}, [[]], {"a": []}]


@pytest.mark.parametrize("odd", ODD_VALUES, ids=repr)
def test_messages_of_any_shape_are_followed_without_an_error(odd: Any) -> None:
    followed = Followed()
    traffic, client = followed.traffic, followed.client
    shapes: list[Any] = [odd, [odd]]
    shapes += [{"id": odd, "method": "tools/call"}, {"id": 1, "method": odd}, {"id": 1, "params": odd}]
    shapes += [{"id": 1, "method": "tools/call", "params": odd}]
    shapes += [{"id": 1, "method": "tools/call", "params": {name: odd}} for name in ("_meta", "requestState")]
    shapes += [{"method": "notifications/cancelled", "params": {"requestId": odd}}]
    shapes += [{"id": 1, "result": odd}, {"id": 1, "error": odd}, {"id": 1, "error": {"code": odd}}]
    shapes += [{"id": 1, "result": {"action": odd}}, {"id": 1, "result": {"isError": odd}}]
    for requests in (odd, {"k": odd}, {"k": {"method": odd}}):
        shapes += [{"id": 1, "result": {"inputRequests": requests, "requestState": "s"}}]
    for shape in shapes:
        asked = followed.ask(1)
        traffic.handle_server_message(client, {"id": "q", "method": "roots/list"})
        exchange = traffic.follow(client, shape)
        asked.handle_server_message(shape)
        exchange.handle_server_message(shape)
        exchange.end(200, can_continue=False)
    sent, _ = traffic.ask(client, {"id": 1, "method": "ping", "params": {"_meta": odd}})
    if not isinstance(odd, dict):
        assert sent["params"]["_meta"] == odd  # what a person wrote by hand goes out as it is
    traffic.connection_lost(5)
    assert len(followed.calls) >= len(shapes)
