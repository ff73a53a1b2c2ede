"""Counters of a core in use."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from mcpdesk.client.targets import UrlTarget
from mcpdesk.hosting.host import Host
from mcpdesk.hosting.host_plan import HostPlan
from mcpdesk.protocol.phases import DURATION_BOUNDS
from mcpdesk.recorder.index.statistics import Subject
from mcpdesk.server.asks.approval_policies import Policy
from mcpdesk.server.calls import call_figures
from mcpdesk.server.calls.call_figures import ToolFigures
from mcpdesk.settings import resolve
from mcpdesk.transports.pipe import PipeRequest
from mcpdesk.upstream.upstream import UpstreamPlan
from tests.support.desk import RunningDesk, running_desk
from tests.support.features import has_feature, needs_feature
from tests.support.folders import write
from tests.support.metrics_page import metric_rows
from tests.support.patience import until, within

TOOLS = '''
    """Tools."""

    import asyncio

    from mcpdesk import refuse, tool


    @tool
    async def nap(seconds: float = 0.0) -> str:
        """Sleep."""
        await asyncio.sleep(seconds)
        return "awake"


    @tool
    async def no() -> str:
        """Refuse."""
        refuse("no")
    '''


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    folder = write(
        tmp_path / "counted",
        {"tools/t.py": TOOLS, "tools/broken.py": "1 / 0\n", "prompts/p.md": "Hello.", "resources/r.txt": "r"},
    )
    settings = resolve({"state_dir": str(tmp_path / "state")}, {}).settings
    host = Host(HostPlan((folder,), settings, http=False, accepts_pumps=False, watch=False))
    await host.start()
    yield host
    await host.stop()


def counted(host: Host) -> dict[str, float]:
    """Every value by its name and its labels but the server's."""
    return {
        " ".join([figure.name + each.suffix, *(v for name, v in each.labels.items() if name != "server")]): (
            each.value
        )
        for figure in host.figures()()
        for each in figure.samples
    }


class Caller:
    """Calls tools over a pipe, which stays open until it is closed."""

    def __init__(self, host: Host) -> None:
        self.answered = asyncio.Semaphore(0)
        self.pipe = host.open_pipe(PipeRequest(None, "stdio", "tester"), self._came)
        hello = '{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}'
        self.pipe.feed(f'{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{hello}}}\n'.encode())
        self.pipe.feed(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    def _came(self, lines: bytes) -> None:
        for _ in lines.splitlines():
            self.answered.release()

    async def call(self, *tools: str) -> None:
        """Call each, and wait for all answers."""
        for number, tool in enumerate(tools, 1):
            params = f'{{"name":"{tool}","arguments":{{}}}}'
            self.pipe.feed(
                f'{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{params}}}\n'.encode()
            )
        async with within():
            for _ in ("initialize", *tools):
                await self.answered.acquire()


async def test_a_core_at_rest_counts_what_it_offers(host: Host) -> None:
    found = counted(host)
    assert (found["items tool"], found["items resource"], found["items prompt"]) == (2, 1, 1)
    assert found["items_unavailable tool"] == 1
    assert found["call_duration_seconds_count"] == found["errors_total"] == found["questions_waiting"] == 0
    assert "call_duration_seconds 0.5" not in found
    assert found["jobs call working"] == found["jobs program running"] == 0
    assert len({figure.name for figure in host.figures()()}) == len(host.figures()())


async def test_calls_stay_counted_when_their_peer_has_left(host: Host) -> None:
    caller = Caller(host)
    await caller.call("nap", "nap", "no", "nobody")
    during = counted(host)
    caller.pipe.close()
    after = counted(host)
    assert (during["peers stdio"], after["peers stdio"]) == (1, 0)
    for found in (during, after):
        assert found["call_duration_seconds_count"] == 4
        assert 0 <= found["call_duration_seconds 0.5"] <= found["call_duration_seconds_sum"]
        assert found["errors_total"] == 2
        assert found["frames_total"] == 11


ENDING_TOOLS = '''
    """Tools that end in every way."""

    import asyncio

    from mcpdesk import Context, ToolResult, fail, tool


    @tool
    async def fine(text: str = "x") -> str:
        """All is well."""
        return text


    @tool
    async def row() -> dict[str, int]:
        """All is well, with structure."""
        return {"a": 1}


    @tool
    async def fails() -> str:
        """Say that it failed."""
        fail("no luck")


    @tool
    async def unlucky() -> ToolResult:
        """Return an error."""
        return ToolResult(content=[{"type": "text", "text": "no"}], is_error=True)


    @tool
    async def crashes(count: int = 0) -> int:
        """Divide by nothing."""
        return 1 // count


    @tool(timeout=0.1)
    async def never() -> str:
        """Wait for ever."""
        await asyncio.Event().wait()
        return ""


    @tool
    async def hangs() -> str:
        """Wait for ever."""
        await asyncio.Event().wait()
        return ""


    @tool(task="optional")
    async def work() -> str:
        """Be a task."""
        return "done"
    '''
TASKS: dict[str, Any] = {"tasks": {"requests": {"tools": {"call": {}}}}}
Counts = dict[tuple[str, str], float]


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[RunningDesk]:
    folder = write(tmp_path / "counted", {"mcp.json": '{"name": "counted"}', "tools/t.py": ENDING_TOOLS})
    async with running_desk(folder, http=True, state_dir=tmp_path / "state") as desk:
        yield desk


class Client:
    """Calls over HTTP, and reads the counters."""

    def __init__(self, desk: RunningDesk, session: aiohttp.ClientSession) -> None:
        self.base = desk.view().servers[0].url.rpartition("/mcp/")[0]
        self.session = session

    async def call(self, tool: str, arguments: Any = None, path: str = "/mcp", **params: Any) -> Any:
        asked = {"name": tool, "arguments": {} if arguments is None else arguments, **params}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": asked}
        async with self.session.post(self.base + path, json=message) as answer:
            return await answer.json()

    async def samples(self) -> dict[str, list[tuple[dict[str, str], float]]]:
        async with self.session.get(f"{self.base}/metrics") as answer:
            families = text_string_to_metric_families(await answer.text())
        found: dict[str, list[tuple[dict[str, str], float]]] = {}
        for family in families:
            for sample in family.samples:
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
        return found

    async def outcomes(self) -> Counts:
        samples = (await self.samples()).get("mcpdesk_tool_calls_total", [])
        return {(labels["tool"], labels["outcome"]): value for labels, value in samples if value}


async def test_every_metric_is_on_its_page(desk: RunningDesk) -> None:
    known = {row.name for row in metric_rows()}
    async with aiohttp.ClientSession() as session:
        client = Client(desk, session)
        await client.call("fine")
        async with session.get(f"{client.base}/metrics") as answer:
            families = re.findall(r"(?m)^# TYPE mcpdesk_(\w+)", await answer.text())
    assert len(families) > 20 and set(families) - known == set()


async def test_each_way_to_end_is_told_apart(desk: RunningDesk) -> None:
    async with aiohttp.ClientSession() as session:
        client = Client(desk, session)
        for path in ("/mcp", "/v1/mcp" if has_feature("gateway") else "/mcp"):
            await client.call("fine", path=path)
            await client.call("fine", {"text": 5}, path=path)
            await client.call("row", path=path)
            await client.call("fails", path=path)
            await client.call("unlucky", path=path)
            await client.call("crashes", path=path)
            await client.call("never", path=path)
            await client.call("there is no such tool", path=path)
        expected = {
            ("fine", "ok"): 2,
            ("fine", "invalid_arguments"): 2,
            ("row", "ok"): 2,
            ("fails", "tool_error"): 2,
            ("unlucky", "tool_error"): 2,
            ("crashes", "crash"): 2,
            ("never", "timeout"): 2,
        }
        assert await client.outcomes() == expected
        samples = await client.samples()
        ran = {labels["tool"]: value for labels, value in samples["mcpdesk_tool_call_duration_seconds_count"]}
        assert ran == {"fine": 2, "row": 2, "fails": 2, "unlucky": 2, "crashes": 2, "never": 2}
        buckets = samples["mcpdesk_tool_call_duration_seconds_bucket"]
        waited = {labels["le"]: value for labels, value in buckets if labels["tool"] == "never"}
        assert (waited["0.1"], waited["1.0"], waited["+Inf"]) == (0, 2, 2)
        sums = {labels["tool"]: value for labels, value in samples["mcpdesk_tool_call_duration_seconds_sum"]}
        assert 0.2 <= sums["never"] < 2 and 0 < sums["fine"] < 0.1
        assert all(labels["server"] == "counted" for labels, _ in buckets)
        assert "mcpdesk_call_duration_seconds_count" in samples and "mcpdesk_errors_total" in samples


@needs_feature("gateway")
async def test_the_desk_jobs_and_tasks_are_counted_too(desk: RunningDesk) -> None:
    for name in ("fine", "crashes"):
        await desk.outcome("counted", "tools/call", {"name": name, "arguments": {}})
    async with aiohttp.ClientSession() as session:
        client = Client(desk, session)
        for name in ("fine", "crashes"):
            await client.call(name, path="/v1/mcp", mode="async")
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": TASKS,
            "clientInfo": {"name": "t", "version": "1"},
        }
        message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
        async with session.post(f"{client.base}/mcp", json=message) as answer:
            session.headers["Mcp-Session-Id"] = answer.headers["Mcp-Session-Id"]
        session.headers["MCP-Protocol-Version"] = "2025-11-25"
        async with session.post(
            f"{client.base}/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}
        ) as answer:
            assert answer.status == 202
        assert "task" in (await client.call("work", task={}))["result"]
        figures = desk.host.by_name["counted"].server.tool_figures
        await until(lambda: sum(sum(figure.outcomes) for _, figure in figures) == 5)
        assert await client.outcomes() == {("fine", "ok"): 2, ("crashes", "crash"): 2, ("work", "ok"): 1}


async def test_a_call_that_is_cancelled_and_one_that_may_not_run_are_told_apart(desk: RunningDesk) -> None:
    endpoint = desk.host.by_name["counted"]
    figures = endpoint.server.tool_figures
    call = desk.request("counted", "tools/call", {"name": "hangs", "arguments": {}})
    await until(lambda: any(each.conversation.running for each in list(endpoint.dialogues.values())))
    call.cancel()
    await until(lambda: figures.of("hangs").outcomes[call_figures.OutcomeKind.CANCELLED])
    tool, home = endpoint.server.tools.get("fine"), endpoint.server.hosted
    assert tool is not None and home is not None
    await desk.host.folders["counted"].choose_policy("fine", Policy.DENY)
    assert home.refusal(tool)
    await desk.outcome("counted", "tools/call", {"name": "fine", "arguments": {}})
    assert figures.of("fine").outcomes[call_figures.OutcomeKind.REFUSED] == 1


async def test_calls_as_they_passed_have_the_numbers_of_the_desk(desk: RunningDesk) -> None:
    async with aiohttp.ClientSession() as session:
        client = Client(desk, session)
        async with session.post(
            f"{client.base}/mcp", json={"jsonrpc": "2.0", "id": 0, "method": "tools/list"}
        ):
            pass
        for tool in ("fine", "fine", "fails", "no such tool", "nor this"):
            await client.call(tool)
        samples = await client.samples()
        counted = desk.host.recording.index.statistics.sums(Subject.TOOL)
    told = {(each["tool"], each["status"]): value for each, value in samples["mcpdesk_tool_answers_total"]}
    assert {key: value for key, value in told.items() if value} == {
        ("fine", "ok"): 2,
        ("fails", "failed"): 1,
        ("(other)", "failed"): 2,
    }
    fine = counted["counted", "fine"]
    sizes = {each["direction"]: value for each, value in samples["mcpdesk_tool_message_bytes_total"]
             if each["tool"] == "fine"}  # fmt: skip
    assert sizes == {"in": fine.received, "out": fine.sent} and fine.sent > 0
    tokens = {each["tool"]: value for each, value in samples["mcpdesk_tool_result_tokens_total"]}
    assert tokens["fine"] == fine.tokens > 0
    halves = [value for each, value in samples["mcpdesk_tool_answer_seconds"]
              if each == {"server": "counted", "tool": "fine", "quantile": "0.5"}]  # fmt: skip
    assert halves == [fine.quantile(0.5)]
    assert {each["tool"] for each, _ in samples["mcpdesk_tool_definition_tokens"]} >= {"fine", "fails"}
    assert samples["mcpdesk_unread_frames"] == [({}, 0.0)]


@pytest.mark.slow
async def test_reads_and_prompts_are_counted_and_other_servers_have_the_names_of_folders(
    tmp_path: Path,
) -> None:
    files = {
        "mcp.json": '{"name": "far"}',
        "tools/t.py": ENDING_TOOLS,
        "resources/r.txt": "r",
        "prompts/p.md": "Hello.",
    }
    async with AsyncExitStack() as stack:
        far = await stack.enter_async_context(running_desk(write(tmp_path / "far", files), http=True))
        plans = [UpstreamPlan("far", UrlTarget(far.view().servers[0].url))]
        here = write(tmp_path / "near", files | {"mcp.json": '{"name": "near"}'})
        desk = await stack.enter_async_context(running_desk(here, upstreams=plans, http=True, no_auth=True))
        await until(lambda: desk.host.upstreams["far"].status.state == "ready")
        session = await stack.enter_async_context(aiohttp.ClientSession())
        client = Client(desk, session)
        for path in ("/mcp/near", "/mcp/far"):
            for tool in ("fine", "fine", "fails", "no such tool"):
                await client.call(tool, path=path)
            for number, (method, params) in enumerate(
                [
                    ("resources/read", {"uri": "resource://r"}),
                    ("resources/read", {"uri": "resource://none"}),
                    ("prompts/get", {"name": "p"}),
                ]
            ):
                message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                async with session.post(client.base + path, json=message) as answer:
                    assert answer.status == 200
        samples = await client.samples()
        async with session.get(f"{client.base}/status") as answer:
            status = await answer.json()
    for server in ("near", "far"):
        calls = {
            (each["method"], each["status"]): value
            for each, value in samples["mcpdesk_calls_total"]
            if each["server"] == server
        }
        assert calls == {
            ("tools/call", "ok"): 2, ("tools/call", "failed"): 2, ("resources/read", "ok"): 1,
            ("resources/read", "failed"): 1, ("prompts/get", "ok"): 1, ("prompts/get", "failed"): 0,
        }  # fmt: skip
        ended = {
            (each["tool"], each["outcome"]): value
            for each, value in samples["mcpdesk_tool_calls_total"]
            if each["server"] == server and value
        }
        unknown = {} if server == "near" else {("(other)", "protocol_error"): 1}
        assert ended == {("fine", "ok"): 2, ("fails", "tool_error"): 1} | unknown
        buckets = {
            each["le"]: value
            for each, value in samples["mcpdesk_tool_call_duration_seconds_bucket"]
            if (each["server"], each["tool"]) == (server, "fine")
        }
        assert buckets["+Inf"] == 2 and len(buckets) == len(DURATION_BOUNDS) + 1
        for name in ("call_duration_seconds_count", "errors_total", "calls_in_flight"):
            assert [each["server"] for each, _ in samples[f"mcpdesk_{name}"]].count(server) == 1
        assert ({"server": server, "kind": "tool"}, 8.0) in samples["mcpdesk_items"]
    assert (status["tools"], status["resources"], status["templates"], status["prompts"]) == (16, 2, 0, 2)
    assert status["passed_servers"] == [
        {"name": "far", "tools": 8, "resources": 1, "templates": 0, "prompts": 1}
    ]


def test_names_without_end_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_figures, "MAX_TOOLS", 3)
    figures = ToolFigures()
    for number in range(10):
        figures.of(f"tool {number}").count(call_figures.OutcomeKind.REFUSED, None)
    counts = Counter({name: sum(figure.outcomes) for name, figure in figures})
    assert counts == {"tool 0": 1, "tool 1": 1, "tool 2": 1, "(other)": 7}
