"""Telemetry sent by real cores to a process that decodes OTLP."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from mcpdesk.features.telemetry import FEATURE
from mcpdesk.features.telemetry.otlp_values import TIMEOUT_S
from mcpdesk.inbox.question import Answer
from mcpdesk.protocol.revisions import V2026_07_28
from mcpdesk.protocol.stateless import request_meta
from tests.cli.conftest import Service, started_services
from tests.support.desk import running_desk
from tests.support.folders import write
from tests.support.otlp_collector import Line, StandIn, stand_in
from tests.support.patience import WITHIN_S, until
from tests.support.person import Person
from tests.support.ports import free_port
from tests.support.stdio_server import Server

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CALLER = f"00-{TRACE}-{PARENT}-01"
SECRET = "hunter2-swordfish"
TOOLS = '''
    """Tools."""

    import asyncio
    from pathlib import Path

    from mcpdesk import Context, tool


    async def echo(text: str, ctx: Context) -> str:
        """Say what the handler passes on."""
        return ctx.trace.traceparent


    async def boom(text: str) -> str:
        """Break."""
        raise ValueError(f"cannot use {text}")


    @tool(timeout=0.1)
    async def slow() -> str:
        """Take too long."""
        await asyncio.sleep(60)
        return "never"


    async def linger() -> str:
        """Say that it has begun, and go on."""
        Path(__file__).parents[1].joinpath("lingers").touch()
        await asyncio.sleep(20)
        return "never"


    async def form(ctx: Context) -> str:
        """Ask the client."""
        answer = await ctx.elicit("Who?", {"type": "object", "properties": {"name": {"type": "string"}}})
        return answer.action


    @tool(task="optional")
    async def later() -> str:
        """Work that may go on as a task."""
        await asyncio.sleep(0.05)
        return "done"
    '''
FILES = {
    "mcp.json": '{"name": "told", "builtins": ["AskUserQuestion", "Bash", "BackgroundBash"]}',
    "tools/tools.py": TOOLS,
    "resources/note.md": "A note.",
    "prompts/hello.md": "Hello.",
}
numbers = count(1)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A server folder with tools worth following."""
    monkeypatch.setenv("MCPDESK_STATE_DIR", str(tmp_path / "state"))
    return write(tmp_path / "told", FILES)


@pytest.fixture
def collector() -> Iterator[StandIn]:
    """A collector that takes everything."""
    with stand_in() as running:
        yield running


class Client:
    """Posts requests to one core."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self.http, self.url = http, url

    async def ask(self, method: str, params: dict[str, Any], **headers: str) -> Any:
        message = {"jsonrpc": "2.0", "id": next(numbers), "method": method, "params": params}
        async with self.http.post(self.url, json=message, headers=headers) as answer:
            return await answer.json()

    async def call(self, tool: str, meta: dict[str, Any] | None = None, /, **arguments: Any) -> Any:
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        return await self.ask("tools/call", params if meta is None else params | {"_meta": meta})


@asynccontextmanager
async def told(folder: Path, url: str, **flags: object) -> AsyncIterator[tuple[Client, Any]]:
    """A core that sends to a collector, and its client."""
    given: dict[str, Any] = {"otel_endpoint": url, "otel_metrics_ms": 200, "no_auth": True, **flags}
    async with running_desk(folder, http=True, **given) as desk, aiohttp.ClientSession() as http:
        yield Client(http, desk.view().servers[0].url), desk


def children(lines: list[Line], parent: Line) -> list[str]:
    """Names of the spans right below another one."""
    return [each["name"] for each in lines if each["is"] == "span" and each["parent"] == parent["id"]]


@pytest.mark.process
async def test_call_joins_the_callers_trace_and_has_a_handler_below_it(
    folder: Path, collector: StandIn
) -> None:
    async with told(folder, collector.url) as (client, _):
        meta = {"traceparent": CALLER, "tracestate": "vendor=1"}
        passed_on = (await client.call("echo", meta, text="x"))["result"]["content"][0]["text"]
        call = await asyncio.to_thread(collector.span, "tools/call echo")
        handler = await asyncio.to_thread(collector.span, "handler echo")
    assert (call["trace"], call["parent"], call["kind"], call["state"]) == (
        TRACE,
        PARENT,
        "server",
        "vendor=1",
    )
    assert (handler["trace"], handler["parent"], handler["kind"]) == (TRACE, call["id"], "internal")
    assert passed_on == f"00-{TRACE}-{handler['id']}-01"  # the span of a started program is below it
    assert call["started"] <= handler["started"] <= handler["ended"] <= call["ended"]
    assert call["status"] == handler["status"] == "UNSET"
    said = call["attributes"]
    assert {
        "mcp.method.name": "tools/call",
        "gen_ai.tool.name": "echo",
        "gen_ai.operation.name": "execute_tool",
        "mcp.protocol.version": "2025-03-26",
        "network.transport": "tcp",
        "network.protocol.name": "http",
        "mcpdesk.server": "told",
        "mcpdesk.outcome": "ok",
    }.items() <= said.items()
    phases = [value for name, value in said.items() if name.startswith("mcpdesk.phase.")]
    assert len(phases) == 5 and sum(phases) == pytest.approx(call["ended"] - call["started"], abs=2e-3)
    assert call["resource"]["service.name"] == "mcpdesk"


@pytest.mark.process
async def test_header_is_joined_where_the_message_names_no_trace_and_linked_where_it_does(
    folder: Path, collector: StandIn
) -> None:
    around = f"00-{TRACE}-1111111111111111-01"
    async with told(folder, collector.url) as (client, _):
        await client.ask("prompts/get", {"name": "hello"}, traceparent=around)
        await client.ask(
            "resources/read", {"uri": "resource://note", "_meta": {"traceparent": CALLER}}, traceparent=around
        )
        prompt = await asyncio.to_thread(collector.span, "prompts/get hello")
        read = await asyncio.to_thread(collector.span, "resources/read")
    assert (prompt["trace"], prompt["parent"], prompt["links"]) == (TRACE, "1" * 16, [])
    assert (read["parent"], read["links"]) == (PARENT, ["1" * 16])
    assert prompt["attributes"]["gen_ai.prompt.name"] == "hello"
    assert read["attributes"]["mcp.resource.uri"] == "resource://note"


@pytest.mark.process
async def test_failures_are_errors_and_say_nothing_of_what_was_sent(folder: Path, collector: StandIn) -> None:
    async with told(folder, collector.url) as (client, _):
        await client.call("boom", text=SECRET)
        await client.call("slow")
        await client.call("echo", wrong=SECRET)
        await client.call(SECRET)
        await client.ask(f"{SECRET}/method", {})
        await client.ask("resources/read", {"uri": f"resource://{SECRET}"})
        await client.ask("tools/list", {})
        await asyncio.to_thread(collector.span, "tools/list")
        await asyncio.to_thread(collector.point, "mcpdesk.tool_calls", tool="slow", outcome="timeout")
    spans = {
        each["attributes"].get("mcpdesk.outcome", each["name"]): each
        for each in collector.lines
        if each["is"] == "span" and each["kind"] == "server"
    }
    failed = {name: (each["status"], each["attributes"].get("error.type")) for name, each in spans.items()}
    assert failed["crash"] == failed["timeout"] == failed["invalid_arguments"] == ("ERROR", "tool_error")
    # The caller's fault is not an error of the server.
    assert failed["tools/call"] == failed["_OTHER"] == failed["tools/list"] == ("UNSET", None)
    assert spans["tools/call"]["attributes"]["rpc.response.status_code"] == "-32602"
    assert spans["_OTHER"]["attributes"]["rpc.response.status_code"] == "-32601"
    assert SECRET not in json.dumps(collector.lines)
    tools = {each["attributes"].get("tool") for each in collector.lines if each["is"] == "point"}
    assert tools == {None, "boom", "slow", "echo"}


@pytest.mark.process
async def test_metrics_have_the_labels_server_and_tool(folder: Path, collector: StandIn) -> None:
    async with told(folder, collector.url) as (client, _):
        for _ in range(3):
            await client.call("echo", text="x")
        await client.call("boom", text="x")

        def so_far() -> Line:
            return collector.point("mcpdesk.tool_call_duration", server="told", tool="echo")

        await until(lambda: so_far()["count"] == 3)
        duration, of_boom = so_far(), collector.point("mcpdesk.tool_calls", tool="boom", outcome="crash")
        operation = collector.point(
            "mcp.server.operation.duration", **{"gen_ai.tool.name": "echo", "mcpdesk.server": "told"}
        )
        async with client.http.get(client.url.replace("/mcp/told", "/metrics")) as answer:
            text = await answer.text()
    assert duration["kind"] == "histogram" and duration["unit"] == "s"
    assert sum(duration["counts"]) == 3 and len(duration["counts"]) == len(duration["bounds"]) + 1
    assert 0 < duration["sum"] < WITHIN_S
    assert (of_boom["kind"], of_boom["value"]) == ("sum", 1)
    assert operation["count"] == 3 and operation["bounds"][0] == 0.01
    assert 'mcpdesk_tool_call_duration_seconds_count{server="told",tool="echo"} 3.0' in text
    assert "mcpdesk_otel_spans_total" in text and "mcpdesk_otel_lost_total 0.0" in text


@pytest.mark.process
async def test_trace_that_its_caller_does_not_record_is_counted_only(
    folder: Path, collector: StandIn
) -> None:
    async with told(folder, collector.url) as (client, _):
        passed_on = await client.call("echo", {"traceparent": CALLER[:-2] + "00"}, text="x")
        await until(lambda: collector.point("mcp.server.operation.duration", **{"gen_ai.tool.name": "echo"}))
        await client.ask("tools/list", {})
        await asyncio.to_thread(collector.span, "tools/list")
    assert passed_on["result"]["content"][0]["text"].endswith("-00")
    assert not [each for each in collector.lines if each.get("trace") == TRACE]


@pytest.mark.process
async def test_share_of_the_traces_is_sent(folder: Path, collector: StandIn) -> None:
    async with told(folder, collector.url, otel_traces_percent=0) as (client, _):
        await client.call("echo", text="x")
        await client.call("echo", {"traceparent": CALLER}, text="x")  # the caller decides about its own trace
        await asyncio.to_thread(collector.span, "tools/call echo")
    assert {each["trace"] for each in collector.lines if each["is"] == "span"} == {TRACE}


@pytest.mark.process
async def test_question_of_a_person_is_a_span_below_the_handler(folder: Path, collector: StandIn) -> None:
    async with told(folder, collector.url) as (client, desk):
        person = Person(desk)
        asked = json.dumps([{"question": f"{SECRET}?", "options": ["yes", SECRET]}])
        params = {"name": "AskUserQuestion", "arguments": {"questions_json": asked}}
        call = asyncio.create_task(client.ask("tools/call", params, Accept="application/json"))
        question = await person.sees()

        def is_waiting() -> bool:
            dialogues = (each for one in desk.host.endpoints() for each in one.dialogues.copy().values())
            calls = (call for each in dialogues for call in each.conversation.running)
            return any(call.waits is not None and call.waits.persons for call in calls)

        await until(is_waiting)
        await asyncio.sleep(0.05)
        await asyncio.wrap_future(desk.answer(question.id, (Answer(("yes",)),)))
        await call
        span = await asyncio.to_thread(collector.span, "question")
        handler = await asyncio.to_thread(collector.span, "handler AskUserQuestion")
        whole = await asyncio.to_thread(collector.span, "tools/call AskUserQuestion")
    assert (span["parent"], span["kind"], span["status"]) == (handler["id"], "internal", "UNSET")
    assert span["attributes"]["mcpdesk.question.outcome"] == "answered"
    assert span["ended"] - span["started"] >= 0.05
    assert whole["attributes"]["mcpdesk.phase.person"] >= 0.05
    assert SECRET not in json.dumps(collector.lines)


@pytest.mark.process
async def test_question_for_the_client_and_a_task_are_spans_of_the_call(
    folder: Path, collector: StandIn
) -> None:
    async with told(folder, collector.url) as (client, _), client.http.ws_connect(f"{client.url}/ws") as ws:

        async def ask(method: str, params: dict[str, Any]) -> Any:
            number = next(numbers)
            await ws.send_json({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            while (message := await ws.receive_json()).get("id") != number:
                if message.get("method") == "elicitation/create":
                    result = {"action": "decline"}
                    await ws.send_json({"jsonrpc": "2.0", "id": message["id"], "result": result})
            return message["result"]

        me = {"name": "t", "version": "1"}
        capabilities: dict[str, Any] = {"elicitation": {"form": {}}}
        await ask(
            "initialize",
            {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": me},
        )
        await ws.send_json({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert (await ask("tools/call", {"name": "form"}))["content"][0]["text"] == "decline"
        question = await asyncio.to_thread(collector.span, "elicitation/create")
        handler = await asyncio.to_thread(collector.span, "handler form")
        whole = await asyncio.to_thread(collector.span, "tools/call form")
        opened = await asyncio.to_thread(collector.span, "initialize")
        await ask("tools/call", {"name": "later", "task": {}})
        task = await asyncio.to_thread(collector.span, "task later")
        begun = await asyncio.to_thread(collector.span, "tools/call later")
    assert (question["parent"], question["kind"]) == (handler["id"], "client")
    assert question["attributes"]["mcpdesk.question.outcome"] == "decline"
    assert whole["attributes"]["network.protocol.name"] == "websocket"
    assert opened["attributes"]["mcp.protocol.version"] == "2025-11-25"
    assert (task["parent"], task["trace"]) == (begun["id"], begun["trace"])
    assert task["ended"] > begun["ended"] and task["attributes"]["mcpdesk.job.outcome"] == "completed"


@pytest.mark.process
async def test_session_is_told_as_a_digest_and_a_cancelled_call_is_no_error(
    folder: Path, collector: StandIn
) -> None:
    me = {"name": "t", "version": "1"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": me}
    async with told(folder, collector.url) as (client, _):
        message = {"jsonrpc": "2.0", "id": next(numbers), "method": "initialize", "params": hello}
        async with client.http.post(client.url, json=message) as answer:
            session = answer.headers["Mcp-Session-Id"]
        headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-06-18"}
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await (await client.http.post(client.url, json=ready, headers=headers)).read()
        params = {"name": "linger", "arguments": {}}
        number = next(numbers)
        call = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        running = asyncio.create_task(client.http.post(client.url, json=call, headers=headers))
        await until(lambda: (folder / "lingers").exists())
        stop = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
        await (await client.http.post(client.url, json=stop, headers=headers)).read()
        span = await asyncio.to_thread(collector.span, "tools/call linger")
        (await running).close()
    assert span["attributes"]["mcp.session.id"] == hashlib.sha256(session.encode()).hexdigest()[:32]
    assert (span["attributes"]["mcpdesk.outcome"], span["status"]) == ("cancelled", "UNSET")
    assert "error.type" not in span["attributes"]
    assert session not in json.dumps(collector.lines)


@pytest.mark.process
async def test_stateless_rounds_have_a_call_span_each_and_one_question(
    folder: Path, collector: StandIn
) -> None:
    meta = request_meta(V2026_07_28, {"name": "t", "version": "1"})
    meta["io.modelcontextprotocol/clientCapabilities"] = {"elicitation": {"form": {}}}
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "form"}
    params: dict[str, Any] = {"name": "form", "arguments": {}, "_meta": meta}
    async with told(folder, collector.url) as (client, _):
        first = await client.ask("tools/call", params, **headers)
        answers = {name: {"action": "cancel"} for name in first["result"]["inputRequests"]}
        more = {"inputResponses": answers, "requestState": first["result"]["requestState"]}
        second = await client.ask("tools/call", params | more, **headers)
        assert second["result"]["content"][0]["text"] == "cancel"
        question = await asyncio.to_thread(collector.span, "elicitation/create")
        await until(lambda: sum(each.get("name") == "tools/call form" for each in collector.lines) == 2)
    calls = [each for each in collector.lines if each.get("name") == "tools/call form"]
    handlers = {each["parent"]: each["id"] for each in collector.lines if each.get("name") == "handler form"}
    assert question["parent"] == handlers[calls[0]["id"]]
    assert all(each["status"] == "UNSET" for each in calls)


@pytest.mark.process
async def test_job_and_a_program_in_the_background_are_spans_that_outlast_their_call(
    folder: Path, collector: StandIn
) -> None:
    async with told(folder, collector.url) as (client, _):
        gateway = Client(client.http, client.url.replace("/mcp/told", "/v1/mcp"))
        await gateway.ask("tools/call", {"name": "Bash", "arguments": {"command": "exit 3"}, "mode": "async"})
        await client.call("BackgroundBash", {"traceparent": CALLER}, command=f"echo {SECRET}; sleep 0.1")
        job = await asyncio.to_thread(collector.span, "job Bash")
        program = await asyncio.to_thread(collector.span, "program")
        begun = await asyncio.to_thread(collector.span, "tools/call Bash")
        handler = await asyncio.to_thread(collector.span, "handler BackgroundBash")
    assert (job["parent"], job["status"]) == (begun["id"], "ERROR")
    assert job["attributes"]["mcpdesk.job.outcome"] == job["attributes"]["error.type"] == "failed"
    assert (program["parent"], program["trace"]) == (handler["id"], TRACE)
    assert program["ended"] > handler["ended"] and program["attributes"]["mcpdesk.job.outcome"] == "succeeded"
    assert SECRET not in json.dumps(collector.lines)


def post(port: int, method: str, params: dict[str, Any]) -> Any:
    """One request to a core in another process."""
    body = json.dumps({"jsonrpc": "2.0", "id": next(numbers), "method": method, "params": params}).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/mcp/told", body, headers)
    with urllib.request.urlopen(request, timeout=WITHIN_S) as answer:
        return json.loads(answer.read())


def metric(port: int, name: str) -> float:
    """A value of `/metrics`."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=WITHIN_S) as answer:
        text = answer.read().decode()
    return float(next(line.split()[1] for line in text.splitlines() if line.startswith(f"{name} ")))


@pytest.fixture
def serve(folder: Path) -> Iterator[Callable[[str], tuple[Service, int]]]:
    """Starts `mcpdesk serve` with a collector to send to."""
    with started_services() as start:

        def begin(url: str, *flags: str) -> tuple[Service, int]:
            port = free_port()
            service = start(
                str(folder), "--http", f"127.0.0.1:{port}", "--no-auth", "--otel-endpoint", url, *flags
            )
            service.says("serving told")
            return service, port

        yield begin


Serve = Callable[..., tuple[Service, int]]


@pytest.mark.process
def test_what_is_left_is_sent_before_serve_ends(collector: StandIn, serve: Serve) -> None:
    service, port = serve(collector.url)
    for _ in range(20):
        post(port, "tools/call", {"name": "echo", "arguments": {"text": "x"}})
    assert service.end(signal.SIGTERM) == 0
    assert collector.point("mcpdesk.tool_calls", tool="echo", outcome="ok")["value"] == 20
    assert sum(each.get("name") == "tools/call echo" for each in collector.lines) == 20


def refused() -> str:
    return f"http://127.0.0.1:{free_port()}"


@pytest.mark.slow
@pytest.mark.parametrize("answers", [(), ("503",), ("404",), ("200", "60")])
def test_collector_that_fails_costs_a_counted_loss_and_one_line(
    answers: tuple[str, ...], serve: Serve
) -> None:
    with stand_in(*answers) as collector:
        service, port = serve(collector.url if answers else refused())
        took = []
        for _ in range(300):
            began = time.monotonic()
            answer = post(port, "tools/call", {"name": "echo", "arguments": {"text": "x"}})
            took.append(time.monotonic() - began)
            assert not answer["result"]["isError"]
        assert sorted(took)[280] < TIMEOUT_S / 2  # no call waits for the collector
        service.says("rejects traces (")
        assert metric(port, "mcpdesk_otel_lost_total") > 0
        assert service.end() == 0  # without waiting for the collector, which may take 60 s
        assert service.process.stderr is not None
        service.lines += service.process.stderr.read().splitlines()
    assert sum("rejects traces" in line for line in service.lines) == 1
    assert not [line for line in service.lines if "opentelemetry" in line or "Traceback" in line]


@pytest.mark.slow
def test_collector_that_comes_back_is_told_of_once(serve: Serve) -> None:
    port = free_port()
    service, own = serve(f"http://127.0.0.1:{port}")
    post(own, "tools/call", {"name": "echo", "arguments": {"text": "x"}})
    service.says("rejects traces (Connection refused)")
    with stand_in(port=port) as collector:
        while not any("accepts traces again" in line for line in service.lines):
            post(own, "tools/call", {"name": "echo", "arguments": {"text": "x"}})
            if any(each["is"] == "span" for each in collector.lines):
                service.says("accepts traces again")
        assert service.end() == 0


@pytest.mark.process
def test_lone_stdio_core_and_its_stdin_are_followed(
    folder: Path, collector: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"x-token=Bearer%20{SECRET}")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    server = Server(folder)
    try:
        server.shake_hands()
        meta = {"traceparent": CALLER}
        server.ask("tools/call", {"name": "echo", "arguments": {"text": "x"}, "_meta": meta}, 2)
        call = collector.span("tools/call echo", trace=TRACE)
        assert server.end()[0] == 0
    finally:
        server.close()
    assert call["attributes"]["network.transport"] == "pipe"
    assert call["resource"]["service.name"] == "mine"
    sent = collector.see(lambda line: line["is"] == "request")
    assert sent["headers"]["x-token"] == f"Bearer {SECRET}"


@pytest.mark.process
def test_log_lines_name_the_trace_and_one_call_by_hand_sends_nothing(
    folder: Path, collector: StandIn, serve: Serve
) -> None:
    write(
        folder,
        {
            "tools/logs.py": '''
                from mcpdesk import Context


                async def note(ctx: Context) -> str:
                    """Log something."""
                    await ctx.info("noted")
                    return "done"
                '''
        },
    )
    service, port = serve(collector.url, "--log-format", "json")
    post(port, "tools/call", {"name": "note"})
    line = json.loads(service.says('"noted"'))
    assert line["trace"] == collector.span("tools/call note")["trace"]
    assert service.end() == 0
    seen = len(collector.lines)
    environ = {**os.environ, "MCPDESK_OTEL_ENDPOINT": collector.url}
    command = [sys.executable, "-m", "mcpdesk", "call", str(folder), "note"]
    subprocess.run(command, env=environ, check=True, capture_output=True, timeout=60)
    assert len(collector.lines) == seen


def without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Programs started from now on find no such package."""
    hook = f"""
        import sys


        class Missing:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] == {package!r}:
                    raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


        sys.meta_path.insert(0, Missing())
        """
    write(tmp_path / "hook", {"sitecustomize.py": hook})
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'hook'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")


@pytest.mark.process
def test_without_the_extra_a_sentence_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, collector: StandIn, serve: Serve
) -> None:
    without(tmp_path, monkeypatch, "opentelemetry")
    service, port = serve(collector.url)
    assert post(port, "tools/call", {"name": "echo", "arguments": {"text": "x"}})["result"]
    assert service.end() == 0 and collector.lines == []
    assert service.process.stderr is not None
    (told,) = [line for line in [*service.lines, *service.process.stderr] if "otel_endpoint is set" in line]
    assert "opentelemetry is not installed. Install it: pip install 'mcpdesk[otel]'." in told


@pytest.mark.process
async def test_nothing_is_loaded_and_nobody_watches_without_an_endpoint(folder: Path) -> None:
    code = f"""
        import asyncio, sys
        from pathlib import Path
        from mcpdesk.hosting.host import Host
        from mcpdesk.hosting.host_plan import plan_for
        from mcpdesk.transports.pipe import PipeRequest


        async def run():
            host = Host(plan_for((Path({str(folder)!r}),), {{}}, {{}}, http=False))
            await host.start()
            answers = []
            pipe = host.open_pipe(PipeRequest("told", "stdio"), answers.append)
            pipe.feed(b'{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":'
                      b'"2025-06-18","capabilities":{{}},"clientInfo":{{"name":"t","version":"1"}}}}}}\\n')
            pipe.feed(b'{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"echo",'
                      b'"arguments":{{"text":"x"}}}}}}\\n')
            while b'"id":2' not in b"".join(answers):
                await asyncio.sleep(0.01)
            assert host.services.watch is None
            await host.stop()


        asyncio.run(run())
        print(*[name for name in sys.modules if "opentelemetry" in name or "features.telemetry." in name])
        """
    write(folder, {"run.py": code})
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(folder / "run.py"), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert (process.returncode, out.strip()) == (0, b"")


@pytest.mark.parametrize(("reports", "endpoint"), [(True, ""), (False, "http://127.0.0.1:4318")])
def test_a_core_without_an_endpoint_or_without_reports_has_no_sender(reports: bool, endpoint: str) -> None:
    core: Any = SimpleNamespace(sends_telemetry=reports, settings=SimpleNamespace(otel_endpoint=endpoint))
    assert not FEATURE.host_parts(core)
