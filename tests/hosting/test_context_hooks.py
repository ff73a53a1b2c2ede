"""`lifespan` and `around_call` of a folder's `context.py`, in a host that runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mcpdesk.hosting.host import Host
from mcpdesk.testing.case_files import Case, Expectation
from mcpdesk.testing.case_run import CallAnswer, make_call
from mcpdesk.testing.connected_server import connected, isolated_host
from tests.support.folders import write

CONTEXT = """
    from pathlib import Path

    LOG = Path(__file__).with_name("log.txt")


    def note(text):
        with LOG.open("a") as file:
            file.write(text + "\\n")


    async def lifespan(server):
        note(f"begin {server.name}")
        yield {"opened": 1}
        note("end")


    async def around_call(call, call_next):
        note(f"call {call.tool} {call.arguments}")
        if call.arguments.get("word") == "no":
            return "refused"
        if call.arguments.get("word") == "twice":
            call.arguments["word"] = "changed"
            await call_next(call)
        return await call_next(call)
    """
TOOLS = """
    from mcpdesk import Context, SyncContext


    async def state(ctx: Context, word: str = "") -> str:
        \"""Tell the state.\"""
        ctx.state["opened"] += 1
        return f"{ctx.state['opened']} {word}"


    def plain(ctx: SyncContext) -> str:
        \"""Tell the state in a thread.\"""
        return f"{ctx.state['opened']} in a thread"
    """
RESOURCE = """
    from mcpdesk import Context, resource


    @resource("state://now")
    async def now(ctx: Context) -> str:
        \"""Tell the state.\"""
        return str(ctx.state["opened"])
    """

Call = Callable[..., "asyncio.Future[CallAnswer]"]


@asynccontextmanager
async def running(folder: Path, tmp_path: Path) -> AsyncIterator[tuple[Host, Call]]:
    """A host, and a function that calls a tool of the folder, or reads a resource of it."""
    host = isolated_host(folder, tmp_path / "state")
    async with connected(host) as subject:

        def call(target: str, kind: str = "tool", **arguments: str) -> asyncio.Future[CallAnswer]:
            case = Case(target, kind, target, arguments, (), Expectation(), 20.0, "")
            return asyncio.ensure_future(make_call(case, subject.connection, subject.answers))

        yield host, call


def folder_with(tmp_path: Path, **more: str) -> Path:
    files = {"mcp.json": '{"name": "living"}', "context.py": CONTEXT, "tools/state.py": TOOLS}
    return write(tmp_path / "living", {**files, "resources/now.py": RESOURCE, **more})


def noted(folder: Path) -> list[str]:
    return (folder / "log.txt").read_text().splitlines()


@pytest.mark.parametrize("above", ["", "@asynccontextmanager\n    "])
async def test_what_lifespan_yields_is_the_state_of_every_handler(tmp_path: Path, above: str) -> None:
    context = CONTEXT.replace("async def lifespan", f"{above}async def lifespan")
    context = context.replace(
        "    from pathlib", "    from contextlib import asynccontextmanager\n    from pathlib"
    )
    folder = folder_with(tmp_path, **{"context.py": context})
    async with running(folder, tmp_path) as (_, call):
        assert (await call("state", word="a")).text == "2 a"
        assert (await call("plain")).text == "2 in a thread"
        assert (await call("state://now", "resource")).text == "2"
        assert noted(folder)[0] == "begin living"
    assert noted(folder)[-1] == "end"
    assert noted(folder).count("begin living") == 1


async def test_around_call_sees_changes_and_refuses_calls(tmp_path: Path) -> None:
    async with running(folder_with(tmp_path), tmp_path) as (_, call):
        assert (await call("state", word="no")).text == "refused"
        assert (await call("state", word="twice")).text == "3 changed"


async def test_it_outlives_a_reload_of_other_files_and_begins_again_with_its_own(tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    async with running(folder, tmp_path) as (host, call):
        await call("state")
        (folder / "tools" / "state.py").write_text(
            (folder / "tools" / "state.py").read_text().replace("{word}", "{word}!")
        )
        await host.folders["living"].reload()
        assert (await call("state", word="a")).text == "3 a!"
        assert noted(folder).count("begin living") == 1
        (folder / "context.py").write_text(
            (folder / "context.py").read_text().replace('"opened": 1', '"opened": 9')
        )
        await host.folders["living"].reload()
        assert (await call("state", word="a")).text == "10 a!"
        (folder / "context.py").write_text("async def lifespan(server):\n    syntax error\n")
        await host.folders["living"].reload()
        assert (await call("state", word="a")).text == "11 a!"
    assert noted(folder).count("begin living") == noted(folder).count("end") == 2


async def test_a_failing_start_is_told_by_every_call_and_tried_again(tmp_path: Path) -> None:
    failing = """
        from pathlib import Path


        async def lifespan(server):
            if not Path(__file__).with_name("ready").exists():
                raise ConnectionError("no database")
            yield {"opened": 1}
        """
    folder = folder_with(tmp_path, **{"context.py": failing})
    async with running(folder, tmp_path) as (host, call):
        failed = await call("state")
        assert failed.error is not None
        assert "the server did not start: context.py:6: ConnectionError: no database" in failed.error
        assert any("no database" in notice.text for notice in host.journal.notices())
        (folder / "ready").touch()
        assert (await call("state", word="a")).text == "2 a"
