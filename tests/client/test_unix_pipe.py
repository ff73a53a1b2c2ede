"""A server at the other end of a connected Unix socket."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator

import pytest

from mcpdesk.client.transport import Incoming
from mcpdesk.client.unix_pipe import HOST_ENDED, UnixPipe
from mcpdesk.errors import CallError, InvalidAnswer, Unreachable
from tests.support.patience import in_time, within


class Ends:
    """Both ends of a connection: the transport, and the server played by hand."""

    def __init__(self, pipe: UnixPipe, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.pipe, self.reader, self.writer = pipe, reader, writer
        self.received: asyncio.Queue[Incoming] = asyncio.Queue()

    async def asked(self) -> object:
        """The next message the server gets."""
        return json.loads(await in_time(self.reader.readline()))


@pytest.fixture
async def ends() -> AsyncIterator[Ends]:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    reader, writer = await asyncio.open_unix_connection(sock=theirs)
    both = Ends(UnixPipe(ours, "/srv/tea"), reader, writer)
    await both.pipe.open(both.received.put_nowait)
    yield both
    await both.pipe.close()
    writer.close()


async def test_answers_find_their_requests_and_the_rest_is_handed_on(ends: Ends) -> None:
    first, second = (
        asyncio.create_task(ends.pipe.exchange({"id": number, "method": "x"}, {}, ends.received.put_nowait))
        for number in (1, 2)
    )
    assert [await ends.asked(), await ends.asked()] == [{"id": 1, "method": "x"}, {"id": 2, "method": "x"}]
    ends.writer.write(b'{"jsonrpc":"2.0","id":2,"result":{"n":2}}\n{"jsonrpc":"2.0","method":"note"}\n{"json')
    ends.writer.write(b'rpc":"2.0","id":1,"result":{"n":1}}\n')
    replies = await in_time(asyncio.gather(first, second))
    assert [each.message["result"]["n"] for each in replies] == [1, 2]
    assert (await in_time(ends.received.get())).message == {
        "jsonrpc": "2.0",
        "method": "note",
    }
    assert ends.pipe.is_open


async def test_what_waits_fails_when_the_other_process_ends(ends: Ends) -> None:
    waiting = asyncio.create_task(ends.pipe.exchange({"id": 1, "method": "x"}, {}, ends.received.put_nowait))
    await ends.asked()
    ends.writer.close()
    with pytest.raises(Unreachable, match=HOST_ENDED):
        await in_time(waiting)
    assert not ends.pipe.is_open
    with pytest.raises(Unreachable, match=HOST_ENDED):
        await ends.pipe.send({"method": "later"})
    with pytest.raises(Unreachable, match=HOST_ENDED):
        await ends.pipe.open(ends.received.put_nowait)


async def test_closing_ends_what_waits_and_the_connection(ends: Ends) -> None:
    waiting = asyncio.create_task(ends.pipe.exchange({"id": 1, "method": "x"}, {}, ends.received.put_nowait))
    await ends.asked()
    await ends.pipe.close()
    with pytest.raises(CallError, match="closed while the call was running"):
        await in_time(waiting)
    assert await in_time(ends.reader.read()) == b""


async def test_closing_does_not_wait_for_a_process_that_does_not_read() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with theirs:
        pipe = UnixPipe(ours, "/srv/tea")
        await pipe.open(lambda incoming: None)
        sending = asyncio.create_task(pipe.send({"text": "x" * 4_000_000}))
        await asyncio.sleep(0)
        async with within():
            await pipe.close()
            await asyncio.wait({sending})


async def test_a_connection_that_was_never_opened_is_closed_as_well() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with theirs:
        await UnixPipe(ours, "/srv/tea").close()
        assert theirs.recv(1) == b""


async def test_a_message_that_its_receiver_fails_on_ends_nothing(ends: Ends) -> None:
    loop, reported = asyncio.get_running_loop(), list[str]()
    loop.set_exception_handler(lambda loop, context: reported.append(str(context["exception"])))

    def receive(incoming: Incoming) -> None:
        raise ValueError("a bug")

    waiting = asyncio.create_task(ends.pipe.exchange({"id": 1, "method": "x"}, {}, receive))
    await ends.asked()
    await ends.pipe.open(receive)
    ends.writer.write(b'{"jsonrpc":"2.0","method":"note"}\n{"jsonrpc":"2.0","id":1,"result":{}}\n')
    assert (await in_time(waiting)).message is not None
    assert reported == ["a bug"] and ends.pipe.is_open


async def test_a_receiver_that_refuses_a_message_ends_the_connection(ends: Ends) -> None:
    def receive(incoming: Incoming) -> None:
        raise InvalidAnswer("nonsense")

    await ends.pipe.open(receive)
    waiting = asyncio.create_task(ends.pipe.exchange({"id": 1, "method": "x"}, {}, receive))
    await ends.asked()
    ends.writer.write(b'{"jsonrpc":"2.0"}\n')
    with pytest.raises(InvalidAnswer, match="nonsense"):
        await in_time(waiting)
    assert not ends.pipe.is_open
    with pytest.raises(InvalidAnswer, match="nonsense"):
        await ends.pipe.send({"method": "later"})
