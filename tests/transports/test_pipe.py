"""What happens to a pipe after its peer's end of input."""

from __future__ import annotations

import asyncio

from mcpdesk.transports.pipe import finish_calls
from tests.support.echo_pipe import EchoCore


async def test_calls_under_way_finish_before_the_pipe_closes() -> None:
    written: list[bytes] = []
    pipe = EchoCore().open_pipe(None, "unix", written.append)
    pipe.feed(b"wait\n")
    finishing_aio = asyncio.create_task(finish_calls(pipe, 5.0))
    await pipe.ended.wait()
    assert not pipe.closed.is_set()
    pipe.release()
    await finishing_aio
    assert written == [b"waited\n"]
    assert pipe.closed.is_set()


async def test_calls_that_last_longer_are_given_up() -> None:
    pipe = EchoCore().open_pipe(None, "unix", lambda data: None)
    pipe.feed(b"wait\n")
    await finish_calls(pipe, 0.01)
    assert pipe.closed.is_set()
