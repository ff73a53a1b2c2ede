"""A server of this process behind a line: its calls end with it, and it ends with its caller."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mcpdesk.bridge.hosted import host_folder, line_to
from mcpdesk.errors import DeskError, RpcError
from tests.support.desk import until
from tests.support.folders import write
from tests.support.served import make_server


async def test_cancelled_request_ends_the_call_in_the_server(folder: Path) -> None:
    line = await host_folder(folder, "")
    work = asyncio.create_task(line.request("tools/call", {"name": "wait"}, {}))
    conversation = line._channel.dialogue.conversation
    await until(lambda: conversation.running)
    call = next(iter(conversation.running))
    work.cancel()
    await asyncio.wait([work])
    await until(lambda: not conversation.running)
    assert work.cancelled() and call.stop
    await line.close()


async def test_folder_without_the_mode_is_not_left_open(folder: Path) -> None:
    before = asyncio.all_tasks()
    with pytest.raises(DeskError, match="wild"):
        await host_folder(folder, "wild")
    assert asyncio.all_tasks() == before


async def test_folder_that_is_broken_in_part_serves_the_rest(folder: Path) -> None:
    write(folder, {"tools/broken.py": "this is no Python"})
    line = await host_folder(folder, "")
    answer = await line.request("tools/call", {"name": "greet", "arguments": {"name": "x"}}, {})
    assert answer["content"][0]["text"] == "Hello, x!"
    await line.close()


async def test_server_made_in_code_needs_no_folder_and_is_not_recorded() -> None:
    line = await line_to(make_server())
    assert line.server == {"name": "sample", "version": "1.0"}
    with pytest.raises(RpcError):
        await line.request("no/such", {}, {})
    await line.close()
