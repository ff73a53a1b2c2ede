"""A connection to a server of each kind, which ends with its block."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

import pytest

from mcpdesk.client.targets import CommandTarget, FolderTarget
from mcpdesk.client.unix_pipe import HOST_ENDED, UnixPipe
from mcpdesk.connect import connect, connecting
from mcpdesk.connect.in_process import lone_host
from mcpdesk.errors import CallError, ConnectTimeout, DeskError, RpcError
from mcpdesk.upstream.target_transport import Reach
from tests.support.folders import write
from tests.support.patience import WITHIN_S, until
from tests.support.served import make_server

ME = {"name": "test", "version": "1"}
GREET = """
    async def greet(name: str) -> str:
        return f"Hello, {name}!"
    """
ENDLESS = """
    import asyncio
    from pathlib import Path

    async def endless() -> str:
        Path(__file__).with_name("began.txt").touch()
        try:
            await asyncio.Event().wait()
        finally:
            Path(__file__).with_name("ended.txt").touch()
        return ""
    """
LIFESPAN = """
    from pathlib import Path

    async def lifespan(server):
        yield "open"
        Path(__file__).with_name("closed.txt").touch()
    """


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "kinds", {"tools/greet.py": GREET})


async def test_a_cancelled_request_ends_the_call_in_a_folder(folder: Path) -> None:
    write(folder, {"tools/endless.py": ENDLESS})
    async with connect(FolderTarget(folder), ME) as server:
        work = asyncio.create_task(server.request("tools/call", {"name": "endless"}))
        await until((folder / "tools" / "began.txt").exists)
        work.cancel()
        await asyncio.wait([work])
        await until((folder / "tools" / "ended.txt").exists)
        assert work.cancelled()


@pytest.mark.parametrize("http", [False, True])
async def test_a_folder_is_hosted_until_the_block_ends(folder: Path, tmp_path: Path, http: bool) -> None:
    write(folder, {"context.py": LIFESPAN})
    flags = {"state_dir": str(tmp_path / "state"), "port": 0}
    async with connect(lone_host(folder, flags, http=http), ME) as server:
        answer = await server.result("tools/call", {"name": "greet", "arguments": {"name": "x"}})
        assert answer["content"][0]["text"] == "Hello, x!"
        assert not (folder / "closed.txt").exists()
    assert (folder / "closed.txt").exists()


async def test_a_folder_without_the_mode_is_not_left_open(folder: Path) -> None:
    before = asyncio.all_tasks()
    with pytest.raises(DeskError, match="wild"):
        async with connect(FolderTarget(folder), ME, reach=Reach("wild")):
            pytest.fail("it is connected")
    assert asyncio.all_tasks() == before


async def test_a_folder_that_is_broken_in_part_serves_the_rest(folder: Path) -> None:
    write(folder, {"tools/broken.py": "this is no Python"})
    async with connect(FolderTarget(folder), ME) as server:
        answer = await server.result("tools/call", {"name": "greet", "arguments": {"name": "x"}})
        assert answer["content"][0]["text"] == "Hello, x!"


async def test_a_server_made_in_code_needs_no_folder_and_is_not_recorded() -> None:
    async with connect(make_server(), ME) as server:
        assert (await server.open()).server == {"name": "sample", "version": "1.0"}
        with pytest.raises(RpcError):
            await server.result("no/such")


@pytest.mark.process
async def test_a_program_that_does_not_answer_is_ended_at_the_time_limit() -> None:
    silent = CommandTarget((sys.executable, "-c", "import sys; sys.stdin.read()"))
    with pytest.raises(ConnectTimeout, match=r"no answer to initialize within 0\.2 s"):
        async with connect(silent, ME, limit_s=0.2):
            pytest.fail("it is connected")


class SlowPipe(UnixPipe):
    """A connection whose close does not return."""

    async def close(self) -> None:
        await super().close()
        await asyncio.Event().wait()


async def test_a_close_that_takes_too_long_does_not_hide_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "CLOSE_TIMEOUT_S", 0.05)
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    theirs.close()
    with pytest.raises(CallError, match=HOST_ENDED):
        async with connect(SlowPipe(ours, "tea"), ME, limit_s=WITHIN_S):
            pytest.fail("it is connected")
