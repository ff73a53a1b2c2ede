"""Servers that are added to a desk and removed from it while it runs."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mcpdesk.cli.desk_targets import typed_targets
from mcpdesk.client.connection import ServerConnection
from mcpdesk.client.http_transports import StreamableHttp
from mcpdesk.errors import CallError
from mcpdesk.inbox.question import QuestionState
from mcpdesk.link.values import JobState
from mcpdesk.paths import sample_servers
from mcpdesk.protocol.revisions import LATEST_HANDSHAKE
from tests.support import odd_server
from tests.support.desk import RunningDesk, running_desk
from tests.support.folders import write
from tests.support.patience import until, within

HELLO = sample_servers() / "hello"
ODD = f"-- {sys.executable} {odd_server.PROGRAM} -"


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[RunningDesk]:
    """A desk without servers."""
    async with running_desk(http=True, watch=True, accepts_pumps=True, state_dir=tmp_path / "state") as desk:
        desk.host.read_targets = typed_targets
        yield desk


async def add(desk: RunningDesk, text: object) -> tuple[str, ...]:
    return await asyncio.wrap_future(desk.add_server(str(text)))


def names(desk: RunningDesk) -> list[str]:
    return [server.name for server in desk.view().servers]


async def result(desk: RunningDesk, server: str, tool: str, **arguments: object) -> object:
    outcome = await desk.outcome(server, "tools/call", {"name": tool, "arguments": arguments})
    return outcome.result["content"][0]["text"] if outcome.result else outcome.error


@pytest.mark.process
async def test_folders_and_programs_are_added_removed_and_added_again(desk: RunningDesk) -> None:
    assert await add(desk, HELLO) == ("hello",)
    assert await add(desk, ODD) == ("odd_server",)
    assert await add(desk, ODD) == ("odd_server-2",)
    assert names(desk) == ["hello", "odd_server", "odd_server-2"]
    assert await result(desk, "hello", "greet", name="Ada") == "Hello, Ada!"
    assert await result(desk, "odd_server", "echo", text="hi") == "hi"
    for name in names(desk):
        desk.remove_server(name)
    await until(lambda: names(desk) == [])
    assert desk.catalogue("hello").items == desk.catalogue("odd_server").items == ()
    assert await result(desk, "hello", "greet") == {"code": 0, "message": "This desk has no server hello."}
    desk.watch("hello", "resource://about")
    assert desk.watched("hello") == {}
    desk.traffic.catch_up()
    seen = [(one.server, one.name) for one in desk.traffic.exchanges]
    assert ("hello", "greet") in seen and ("odd_server", "echo") in seen, "its traffic stays"
    assert await add(desk, HELLO) == ("hello",)
    assert await result(desk, "hello", "greet", name="Bob") == "Hello, Bob!"
    assert "greet" in {item.name for item in desk.catalogue("hello").items}


async def test_a_server_removed_while_it_is_added_leaves_nothing(desk: RunningDesk, tmp_path: Path) -> None:
    host = desk.host
    folder = write(tmp_path / "mine", {"mcp.json": '{"name": "mine"}', "tools/a.py": "async def a(): ..."})

    async def change() -> None:
        for _ in range(2):
            adding = asyncio.create_task(host.add(str(folder)))
            await until(lambda: "mine" in host.by_name)
            await asyncio.gather(host.remove("mine"), host.remove("mine"))
            assert await adding == ("mine",)
            assert "mine" not in host.by_name and "mine" not in host.folders
            assert not host._watches and not host._pumps._listeners
        await host.add(str(folder))
        _, added = await asyncio.gather(host.remove("mine"), host.add(str(other)))
        assert added == ("mine",) and host.folders["mine"].folder == other

    other = write(tmp_path / "other", {"mcp.json": '{"name": "mine"}'})
    assert host._loop is not None
    async with within():
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(change(), host._loop))


async def test_an_added_folder_is_watched(desk: RunningDesk, tmp_path: Path) -> None:
    folder = write(tmp_path / "mine", {"mcp.json": '{"name": "mine"}'})
    await add(desk, folder)
    tools = folder / "tools"
    tools.mkdir()
    (tools / "new.py").write_text("async def new() -> None: ...\n")
    await until(lambda: [item.name for item in desk.catalogue("mine").items] == ["new"])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nothing", "No folder or file 'nothing'. A server is a folder, a URL"),
        ("{broken}", "mcp.json:1:2: not JSON"),
        (str(HELLO), "is already added, as hello."),
        ("{twin}", "Two servers are called 'hello': "),
    ],
)
async def test_what_cannot_be_added_is_told(desk: RunningDesk, tmp_path: Path, text: str, told: str) -> None:
    broken = write(tmp_path / "broken", {"mcp.json": "{"})
    twin = write(tmp_path / "twin", {"mcp.json": '{"name": "hello"}'})
    await add(desk, HELLO)
    with pytest.raises(ValueError) as refused:
        await add(desk, text.format(broken=broken, twin=twin))
    assert told in str(refused.value)
    assert names(desk) == ["hello"]


async def test_clients_of_a_removed_server_are_told_and_sent_away(desk: RunningDesk) -> None:
    await add(desk, HELLO)
    identity = {"name": "somebody", "version": "1"}
    client = ServerConnection(
        StreamableHttp(desk.view().servers[0].url, {}), identity, revision=LATEST_HANDSHAKE
    )
    heard = list[str]()
    client.listeners.append(lambda method, params: heard.append(method))
    try:
        await client.open_listening_stream()
        assert await client.list_all("tools/list", "tools")
        desk.remove_server("hello")
        await until(lambda: "notifications/tools/list_changed" in heard)
        await until(lambda: names(desk) == [])
        with pytest.raises(CallError):
            await client.list_all("tools/list", "tools")
    finally:
        await client.close()


@pytest.mark.process
async def test_a_removed_program_is_not_reached_through_the_desk_any_more(tmp_path: Path) -> None:
    async with running_desk(http=True, no_auth=True, state_dir=tmp_path / "state") as desk:
        desk.host.read_targets = typed_targets
        await add(desk, ODD)
        transport = StreamableHttp(desk.view().servers[0].url, {})
        client = ServerConnection(transport, {"name": "x", "version": "1"}, revision=LATEST_HANDSHAKE)
        try:
            assert await client.list_all("tools/list", "tools", [])
            desk.remove_server("odd_server")
            await until(lambda: names(desk) == [])
            with pytest.raises(CallError, match="404"):
                await client.list_all("tools/list", "tools", [])
        finally:
            await client.close()


@pytest.mark.process
async def test_questions_and_jobs_end_with_their_server(desk: RunningDesk, tmp_path: Path) -> None:
    await add(desk, ODD)
    asking = asyncio.create_task(result(desk, "odd_server", "ask"))
    await until(desk.questions)
    await add(
        desk, write(tmp_path / "busy", {"mcp.json": '{"name": "busy", "builtins": ["BackgroundBash"]}'})
    )
    await result(desk, "busy", "BackgroundBash", command="sleep 600")
    await until(lambda: any(job.state is JobState.RUNNING for job in desk.jobs()))
    desk.remove_server("odd_server")
    desk.remove_server("busy")
    await until(lambda: names(desk) == [] and not desk.jobs())
    assert isinstance(await asking, dict)
    await until(lambda: desk.questions()[0].state is QuestionState.WITHDRAWN)


async def test_who_stops_waiting_for_a_server_leaves_nothing_behind(
    desk: RunningDesk, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    waiting = asyncio.ensure_future(add(desk, tmp_path / "nothing"))
    await asyncio.sleep(0)
    waiting.cancel()
    assert await add(desk, write(tmp_path / "more", {"mcp.json": '{"name": "more"}'})) == ("more",)
    gc.collect()
    assert not caplog.records
