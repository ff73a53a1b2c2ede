"""Apps of upstream servers, and apps that an attached screen opens."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mcpdesk.client.targets import UrlTarget
from mcpdesk.features import VARIABLE
from mcpdesk.features.apps.open_apps import CloseApps, OpenApp, OpenApps
from mcpdesk.upstream.target_transport import Reach
from mcpdesk.upstream.upstream import UpstreamPlan, UpstreamState
from tests.features.apps.board_folder import URI, board_folder
from tests.features.apps.test_open_app import page_of
from tests.link.test_remote import attach as attach
from tests.link.test_remote import folder as folder
from tests.link.test_remote import serve as serve
from tests.support.desk import RunningDesk, running_desk
from tests.support.patience import in_time, result_of, until

if TYPE_CHECKING:
    from tests.link.test_remote import Attach, Start

BOARD = OpenApp("far", URI, "board", "{}", '{"content":[]}')


async def connected(desk: RunningDesk) -> None:
    """Wait until the upstream server is connected."""
    upstream = desk.host.upstreams["far"]
    await until(lambda: upstream.status.state is UpstreamState.READY)


def plan(desk: RunningDesk, revision: str = "") -> UpstreamPlan:
    """The server of a desk, as an upstream server of another one."""
    return UpstreamPlan("far", UrlTarget(desk.view().servers[0].url), Reach(revision=revision))


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
async def test_the_desk_declares_that_it_shows_apps(tmp_path: Path, revision: str) -> None:
    async with (
        running_desk(board_folder(tmp_path / "boards"), http=True) as far,
        running_desk(upstreams=[plan(far, revision)]) as desk,
    ):
        await connected(desk)
        result = await desk.call("far", "board")
        assert result["content"][0]["text"] == "board of red, with an app"


async def test_without_the_feature_nothing_is_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "apps")
    async with (
        running_desk(board_folder(tmp_path / "boards"), http=True) as far,
        running_desk(upstreams=[plan(far)]) as desk,
    ):
        await connected(desk)
        for server, where in (("far", desk), ("boards", far)):
            result = await where.call(server, "board")
            assert result["content"][0]["text"] == "board of red, without an app"


async def test_a_person_agrees_once_before_an_app_calls_an_upstream_tool(tmp_path: Path) -> None:
    async with (
        running_desk(board_folder(tmp_path / "boards"), http=True) as far,
        running_desk(upstreams=[plan(far)]) as desk,
    ):
        await connected(desk)
        url: str = await in_time(asyncio.wrap_future(desk.do(BOARD)))
        async with page_of(url) as page:
            await page.initialize()
            call: dict[str, Any] = {"name": "refresh", "arguments": {"step": 2}}
            request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
            for agreed in (False, True):
                await page.send(view=request)
                question = await page.next("ask")
                assert question["text"] == "The app wants to call the tool refresh of far."
                assert question["detail"] == '{"step":2}'
                await page.send(answer={"number": question["number"], "agreed": agreed})
                answer = await until(page.response)
                assert ("result" in answer) is agreed
            assert "result" in await page.ask("tools/call", call, 2)
            assert "visibility" in str(await page.ask("tools/call", {"name": "secret"}, 3))


async def test_an_app_of_a_removed_server_calls_nothing(tmp_path: Path) -> None:
    async with (
        running_desk(board_folder(tmp_path / "boards"), http=True) as far,
        running_desk(upstreams=[plan(far)]) as desk,
    ):
        await connected(desk)
        url: str = await in_time(asyncio.wrap_future(desk.do(BOARD)))
        async with page_of(url) as page:
            await page.initialize()
            desk.remove_server("far")
            await until(lambda: not desk.view().servers)
            answer = await page.ask("resources/read", {"uri": URI})
            assert "was removed" in answer["error"]["message"]


async def test_an_app_leaves_nothing_on_connections_that_it_no_longer_uses(tmp_path: Path) -> None:
    async with (
        running_desk(board_folder(tmp_path / "boards"), http=True) as far,
        running_desk(upstreams=[plan(far)]) as desk,
    ):
        await connected(desk)
        upstream = desk.host.upstreams["far"]
        first, before = upstream.connection, list(upstream.connection.listeners)
        url: str = await in_time(asyncio.wrap_future(desk.do(BOARD)))
        async with page_of(url) as page:
            await page.initialize()
            assert len(first.listeners) > len(before)
            desk.reconnect_with_revision("far", "")
            await until(lambda: upstream.connection is not first)
            await connected(desk)
            second, usual = upstream.connection, list(upstream.connection.listeners)
            assert "result" in await page.ask("resources/read", {"uri": URI})
            assert first.listeners == before
        await asyncio.wrap_future(desk.do(CloseApps()))
        await until(lambda: second.listeners == usual)


@pytest.mark.process
def test_an_attached_screen_opens_an_app(serve: Start, attach: Attach) -> None:
    serve()
    link = attach()
    (server,) = link.feature_part(OpenApps).servers
    url = result_of(link.do(OpenApp(server, "ui://missing")))
    assert url.startswith("http://127.0.0.1:") and len(url) > 50
    with pytest.raises(ValueError, match="no server other"):
        result_of(link.do(OpenApp("other", "ui://missing")))
