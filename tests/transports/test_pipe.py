"""The end of a pipe after its peer's end of input, and the end of a listener."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import cast

import pytest

from mcpdesk.hosting.channel import Pipe
from mcpdesk.transports.pipe import finish_calls, stop_accepting
from tests.support.echo_pipe import EchoPipe


async def test_calls_under_way_finish_before_the_pipe_closes() -> None:
    written: list[bytes] = []
    pipe = EchoPipe(None, "unix", "")
    pipe.send_bytes = written.append
    pipe.feed(b"wait\n")
    finish_task = asyncio.create_task(finish_calls(cast(Pipe, pipe), 5.0))
    await pipe.ended.wait()
    assert not pipe.closed.is_set()
    pipe.release()
    await finish_task
    assert written == [b"waited\n"]
    assert pipe.closed.is_set()


async def test_calls_that_last_longer_are_given_up() -> None:
    pipe = EchoPipe(None, "unix", "")
    pipe.feed(b"wait\n")
    await finish_calls(cast(Pipe, pipe), 0.01)
    assert pipe.closed.is_set()


@pytest.mark.parametrize("turns", [2, 3])
async def test_a_connection_accepted_in_the_last_moment_is_served(tmp_path: Path, turns: int) -> None:
    made: list[asyncio.Transport] = []

    class Accepted(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            made.append(cast(asyncio.Transport, transport))

    server = await asyncio.get_running_loop().create_unix_server(Accepted, tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(tmp_path / "s"))
        for _ in range(turns):
            await asyncio.sleep(0)
        await stop_accepting(server)
        assert not server.is_serving()
        client.settimeout(5)
        made[0].write(b"served")
        assert client.recv(6) == b"served"
        made[0].close()
        await asyncio.sleep(0)
