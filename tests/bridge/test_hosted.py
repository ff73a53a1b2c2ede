"""A server of this process behind a connection: its calls end with it, and it ends with its caller."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mcpdesk.bridge.client import connect_to_folder, connect_to_server
from mcpdesk.errors import DeskError, RpcError
from tests.support.desk import until
from tests.support.folders import write
from tests.support.served import make_server

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


async def test_cancelled_request_ends_the_call_in_the_server(folder: Path) -> None:
    write(folder, {"tools/endless.py": ENDLESS})
    connection = await connect_to_folder(folder, "")
    work = asyncio.create_task(connection.request("tools/call", {"name": "endless"}))
    await until((folder / "tools" / "began.txt").exists)
    work.cancel()
    await asyncio.wait([work])
    await until((folder / "tools" / "ended.txt").exists)
    assert work.cancelled()
    await connection.close()


async def test_folder_without_the_mode_is_not_left_open(folder: Path) -> None:
    before = asyncio.all_tasks()
    with pytest.raises(DeskError, match="wild"):
        await connect_to_folder(folder, "wild")
    assert asyncio.all_tasks() == before


async def test_folder_that_is_broken_in_part_serves_the_rest(folder: Path) -> None:
    write(folder, {"tools/broken.py": "this is no Python"})
    connection = await connect_to_folder(folder, "")
    answer = await connection.result("tools/call", {"name": "greet", "arguments": {"name": "x"}})
    assert answer["content"][0]["text"] == "Hello, x!"
    await connection.close()


async def test_server_made_in_code_needs_no_folder_and_is_not_recorded() -> None:
    connection = await connect_to_server(make_server())
    assert (await connection.open()).server == {"name": "sample", "version": "1.0"}
    with pytest.raises(RpcError):
        await connection.result("no/such")
    await connection.close()
