"""Settings the desk sends to servers: the log level, and its roots."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mcpdesk.client.targets import UrlTarget
from mcpdesk.upstream.target_transport import Reach
from mcpdesk.upstream.upstream import UpstreamPlan
from tests.support.desk import RunningDesk, running_desk
from tests.support.folders import write
from tests.support.patience import until
from tests.upstream.test_upstream import odd, upstream, view

FILES = {
    "mcp.json": '{"name": "far"}',
    "tools/tools.py": '''
        from mcpdesk import Context


        async def talk(ctx: Context) -> str:
            """Log twice."""
            await ctx.debug("a detail")
            await ctx.error("an error")
            return "done"


        async def places(ctx: Context) -> str:
            """Ask for the roots."""
            return " ".join(root.uri for root in await ctx.list_roots())
        ''',
}


async def said(desk: RunningDesk, server: str, tool: str) -> tuple[str, list[str]]:
    """Text of a call's result, and its log lines."""
    call = desk.request(server, "tools/call", {"name": tool, "arguments": {}})
    outcome = await asyncio.wrap_future(call.outcome)
    assert outcome.result is not None, outcome.error
    return outcome.result["content"][0]["text"], list(call.logs)


@pytest.mark.slow
@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
async def test_the_log_level_and_the_roots_of_a_server_elsewhere(tmp_path: Path, revision: str) -> None:
    folder = write(tmp_path / "far", FILES)
    async with (
        running_desk(folder, http=True) as serving,
        running_desk(
            folder,
            upstreams=[
                UpstreamPlan("odd", UrlTarget(serving.view().servers[0].url), Reach(revision=revision))
            ],
        ) as desk,
    ):
        await until(lambda: upstream(desk).state == "ready")
        for name in ("far", "odd"):
            assert await said(desk, name, "talk") == ("done", ["debug: a detail", "error: an error"])
            await asyncio.wrap_future(desk.set_log_level(name, "warning"))
            assert await said(desk, name, "talk") == ("done", ["error: an error"])
        assert [server.log_level for server in desk.view().servers] == ["warning", "warning"]
        logged = [(line.level, line.source, line.text) for line in desk.logs() if line.server == "odd"]
        assert ("error", "talk", "an error") in logged
        before = view(desk).catalogue_version
        desk.reload("odd")
        await until(lambda: upstream(desk).state == "ready" and view(desk).catalogue_version > before)
        assert await said(desk, "odd", "talk") == ("done", ["error: an error"]), "it outlives a connection"

        assert desk.view().roots == ()
        assert await said(desk, "odd", "places") == ("", [])
        assert await said(desk, "far", "places") == (folder.as_uri(), [])
        await asyncio.wrap_future(desk.choose_roots([str(tmp_path), "", folder.as_uri(), str(tmp_path)]))
        chosen = (tmp_path.as_uri(), folder.as_uri())
        assert desk.view().roots == chosen
        for name in ("far", "odd"):
            assert await said(desk, name, "places") == (" ".join(chosen), [])
        serving.traffic.catch_up()
        told = [each.method for each in serving.traffic.exchanges]
        assert ("notifications/roots/list_changed" in told) is (revision == "2025-06-18")


@pytest.mark.process
@pytest.mark.parametrize(
    ("root", "told"),
    [
        ("here", "write file:///FOLDER"),
        ("https://example.com/a", "write file:///FOLDER"),
        ("file://elsewhere/tmp", "write file:///FOLDER"),
        ("file:///tmp/../etc", "contains `..`"),
        ("/no/such/folder", "Folder '/no/such/folder' does not exist"),
    ],
)
async def test_what_is_no_root_is_told_and_changes_nothing(root: str, told: str) -> None:
    async with running_desk(upstreams=[odd()]) as desk:
        await asyncio.wrap_future(desk.choose_roots(["/tmp"]))
        before = desk.view().roots
        with pytest.raises(ValueError, match=told):
            await asyncio.wrap_future(desk.choose_roots(["/tmp", root]))
        assert desk.view().roots == before


@pytest.mark.process
async def test_a_server_that_logs_nothing_is_not_asked() -> None:
    async with running_desk(upstreams=[odd()]) as desk:
        await until(lambda: upstream(desk).state == "ready")
        assert desk.view().servers[0].log_level == ""
        with pytest.raises(ValueError, match="sends no log messages"):
            await asyncio.wrap_future(desk.set_log_level("odd", "error"))
