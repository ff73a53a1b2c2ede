"""Every call of a tool is counted once, by how it ended, on whatever way it came."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from mcpdesk.server import tool_figures
from mcpdesk.server.tool_figures import ToolFigures
from tests.support.desk import RunningDesk, running_desk, until
from tests.support.folders import write

TOOLS = '''
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
TASKS = {"tasks": {"requests": {"tools": {"call": {}}}}}
Counts = dict[tuple[str, str], float]


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[RunningDesk]:
    folder = write(tmp_path / "counted", {"mcp.json": '{"name": "counted"}', "tools/t.py": TOOLS})
    async with running_desk(folder, http=True, state_dir=tmp_path / "state") as desk:
        yield desk


class Client:
    """Calls over HTTP, and reads what is counted."""

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


async def test_each_way_to_end_is_told_apart(desk: RunningDesk) -> None:
    async with aiohttp.ClientSession() as session:
        client = Client(desk, session)
        for path in ("/mcp", "/v1/mcp"):
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


async def test_the_desk_jobs_and_tasks_are_counted_too(desk: RunningDesk) -> None:
    for name in ("fine", "crashes"):
        await asyncio.wrap_future(
            desk.request("counted", "tools/call", {"name": name, "arguments": {}}).outcome
        )
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
    await until(lambda: figures.of("hangs").outcomes[tool_figures.Outcome.CANCELLED])
    tool, home = endpoint.server.tools.get("fine"), endpoint.server.home
    assert tool is not None and home is not None
    for _ in range(2):  # allow, ask, deny
        await desk.host.folders["counted"].cycle_policy("fine")
    assert home.refusal(tool)
    await asyncio.wrap_future(
        desk.request("counted", "tools/call", {"name": "fine", "arguments": {}}).outcome
    )
    assert figures.of("fine").outcomes[tool_figures.Outcome.REFUSED] == 1


def test_names_without_end_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_figures, "MOST_TOOLS", 3)
    figures = ToolFigures()
    for number in range(10):
        figures.of(f"tool {number}").refuse(tool_figures.Outcome.REFUSED)
    counts = Counter({name: sum(figure.outcomes) for name, figure in figures})
    assert counts == {"tool 0": 1, "tool 1": 1, "tool 2": 1, "(other)": 7}
