"""The stdio transport over everything a client may use: pipes, sockets, plain files, closed descriptors."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from mcpdesk.transports import pipe as pipes
from mcpdesk.transports import stdio as module
from mcpdesk.transports.replay import ClientState
from mcpdesk.transports.stdio import StdioTransport
from mcpdesk.transports.unread_answers import UNREAD
from tests.support.echo_pipe import EchoCore, EchoPipe
from tests.support.patience import in_time, until, within


class Client:
    """The client's ends of two pipes, and the transport on the others."""

    def __init__(self) -> None:
        self.source, self.writes = os.pipe()
        self.reads, self.sink = os.pipe()
        self.core = EchoCore()
        self.transport = StdioTransport(self.source, self.sink, self.core.open_pipe, "hello", "tester")

    def close(self) -> None:
        for fd in (self.source, self.writes, self.reads, self.sink):
            with suppress(OSError):
                os.close(fd)

    async def read(self, size: int = 1 << 16) -> bytes:
        """Return the next bytes, once there are any."""
        readable, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.add_reader(self.reads, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(self.reads)
        return os.read(self.reads, size)

    async def read_exactly(self, size: int) -> bytes:
        pieces = b""
        while len(pieces) < size:
            piece = await self.read(size - len(pieces))
            assert piece, f"the end after {len(pieces)} bytes"
            pieces += piece
        return pieces


@pytest.fixture
def client() -> Iterator[Client]:
    client = Client()
    yield client
    client.close()


@asynccontextmanager
async def serving(client: Client) -> AsyncIterator[EchoPipe]:
    """Serve in the background; the transport must end by itself, or is stopped."""
    serve_task = asyncio.create_task(client.transport.serve())
    try:
        async with within():
            yield await client.core.pipes.get()
            client.transport.stop()
            await serve_task
    finally:
        serve_task.cancel()


async def test_client_is_a_stdio_peer_of_the_named_server(client: Client) -> None:
    async with serving(client) as pipe:
        os.write(client.writes, b"one\n")
        assert await client.read() == b"one\n"
        assert (pipe.server, pipe.transport, pipe.peer) == ("hello", "stdio", "tester")


async def test_answers_of_one_chunk_leave_in_one_write(client: Client) -> None:
    os.write(client.writes, b"one\ntwo\nthree\n")
    async with serving(client):
        assert await client.read() == b"one\ntwo\nthree\n"


@pytest.mark.requirement("3.3")
async def test_end_of_input_lets_running_calls_finish_and_ends(client: Client) -> None:
    serve_task = asyncio.create_task(client.transport.serve())
    pipe = await client.core.pipes.get()
    os.write(client.writes, b"wait\n")
    os.close(client.writes)
    async with within():
        await pipe.ended.wait()
        pipe.release()
        await serve_task
    assert await client.read() == b"waited\n"
    assert pipe.closed.is_set()


async def test_stop_ends_like_the_end_of_input(client: Client) -> None:
    async with serving(client) as pipe:
        client.transport.stop()
        await pipe.closed.wait()


async def test_client_that_reads_no_more_ends_it_at_once(
    client: Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its running call is not waited for.
    monkeypatch.setattr(module, "finish_calls", partial(pipes.finish_calls, grace_s=3600.0))
    serve_task = asyncio.create_task(client.transport.serve())
    pipe = await client.core.pipes.get()
    os.close(client.reads)
    os.write(client.writes, b"wait\none\n")
    await in_time(serve_task)
    assert pipe.closed.is_set() and caplog.text == ""


@pytest.mark.parametrize("reads", [False, True])
async def test_client_that_ends_while_answers_wait_is_not_waited_for(
    reads: bool, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "GRACE_S", 3600.0)
    caplog.set_level("INFO", module.__name__)
    serve_task = asyncio.create_task(client.transport.serve())
    pipe = await client.core.pipes.get()
    pipe.send(b"y" * (1 << 20))
    os.close(client.writes)
    await in_time(pipe.ended.wait())
    if reads:
        client.transport.give_up()
    else:
        os.close(client.reads)
    await in_time(serve_task)
    assert ("the client reads too slowly" if reads else "the client stopped reading") in caplog.text


async def test_large_message_passes_both_ways(client: Client) -> None:
    line = b"x" * (8 << 20) + b"\n"
    async with serving(client):
        write_task = asyncio.create_task(asyncio.to_thread(os.write, client.writes, line))
        assert await client.read_exactly(len(line)) == line
        assert await write_task == len(line)


async def test_client_that_does_not_read_makes_the_core_wait(client: Client) -> None:
    async with serving(client) as pipe:
        pipe.send(b"y" * (pipes.HIGH_WATER + (1 << 20)) + b"\n")
        await pipe.paused.wait()
        os.write(client.writes, b"two\n")
        # A callback that stays registered would run on every turn of the loop.
        assert not asyncio.get_running_loop().remove_reader(client.source)
        await client.read_exactly(4 << 20)
        await until(lambda: client.transport.unread < pipes.HIGH_WATER)
        assert pipe.paused.is_set() and client.transport.unread > pipes.LOW_WATER
        await client.read_exactly(pipes.HIGH_WATER + (1 << 20) + 1 - (4 << 20))
        assert await client.read() == b"two\n"
        assert not pipe.paused.is_set()
        assert not asyncio.get_running_loop().remove_writer(client.sink)


class LeavingPipe(EchoPipe):
    """Another server may continue at any time."""

    def leave(self) -> ClientState:
        return ClientState()


async def test_only_a_wanted_client_leaves_and_reads_its_answers_before(client: Client) -> None:
    client.core = EchoCore(LeavingPipe)
    client.transport = StdioTransport(client.source, client.sink, client.core.open_pipe)
    serve_task = asyncio.create_task(client.transport.serve())
    pipe = await client.core.pipes.get()
    large = b"y" * (1 << 20) + b"\n"
    async with within():
        pipe.send(large)
        assert await client.read_exactly(len(large)) == large
        os.write(client.writes, b"one\n")
        assert await client.read() == b"one\n"
        pipe.send(large)
        client.transport.hand_over()
        assert await client.read_exactly(len(large)) == large
        await serve_task
    assert client.transport.next_client_state is not None


async def test_frames_wait_while_the_client_is_identified_again(client: Client) -> None:
    async with serving(client) as pipe:
        os.write(client.writes, b"one\n")
        assert await client.read() == b"one\n"
        pipe.doubt()
        os.write(client.writes, b"two\n")
        await until(lambda: client.transport._identify_task is not None)
        os.write(client.writes, b"three\n")
        pipe.send(b"y" * (pipes.HIGH_WATER + (1 << 20)) + b"\n")
        await client.read_exactly(pipes.HIGH_WATER + (1 << 20) + 1)
        assert pipe.lines == [b"one"]
        pipe.trust()
        assert await client.read_exactly(10) == b"two\nthree\n"


async def test_no_frame_is_lost_if_the_client_must_be_identified_twice(client: Client) -> None:
    async with serving(client) as pipe:
        pipe.doubt()
        os.write(client.writes, b"one\n")
        await until(lambda: client.transport._identify_task is not None)
        pipe.doubt_again()
        os.write(client.writes, b"two\n")
        assert await client.read_exactly(8) == b"one\ntwo\n"


class DoubtingPipe(EchoPipe):
    """Identifies its client again before each piece."""

    async def identify(self) -> None:
        await asyncio.sleep(0)
        self.trust()

    def feed(self, data: bytes) -> bool:
        is_taken = super().feed(data)
        self.doubt()
        return is_taken


async def test_the_replayed_state_waits_while_the_client_is_identified_again(client: Client) -> None:
    state = ClientState()
    state.unsent, state.rest = b"one\ntwo\n", b"thr"
    client.core = EchoCore(DoubtingPipe)
    client.transport = StdioTransport(client.source, client.sink, client.core.open_pipe, client_state=state)
    async with serving(client) as pipe:
        os.write(client.writes, b"ee\n")
        assert await client.read_exactly(14) == b"one\ntwo\nthree\n"
        assert pipe.lines == [b"one", b"two", b"three"]


@pytest.mark.parametrize("is_own_limit", [True, False])
async def test_client_that_never_reads_is_given_up(
    is_own_limit: bool, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", module.__name__)
    if is_own_limit:
        monkeypatch.setattr(module, "WRITE_LIMIT", 1 << 20)
    else:  # the limit of all clients together
        monkeypatch.setattr(module, "HIGH_WATER", 1 << 20)
        monkeypatch.setattr(UNREAD, "limit", 1 << 20)
    serve_task = asyncio.create_task(client.transport.serve())
    pipe = await client.core.pipes.get()
    pipe.send(b"y" * (2 << 20))
    await in_time(serve_task)
    assert pipe.closed.is_set() and client.transport.unread == 0
    assert ("bytes of answers unread" if is_own_limit else "reads too slowly") in caplog.text


async def test_unread_answers_do_not_keep_the_process_alive(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GRACE_S", 0.01)
    async with serving(client) as pipe:
        pipe.send(b"y" * (1 << 20))
    assert not asyncio.get_running_loop().remove_writer(client.sink)


async def test_plain_file_as_stdin_is_answered_and_ends(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"one\ntwo\n")
    core = EchoCore()
    with open(tmp_path / "in", "rb") as source, open(tmp_path / "out", "wb") as sink:
        transport = StdioTransport(source.fileno(), sink.fileno(), core.open_pipe)
        await in_time(transport.serve())
    assert (tmp_path / "out").read_bytes() == b"one\ntwo\n"


@pytest.mark.slow
async def test_large_plain_file_to_a_slow_reader_arrives_whole(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GRACE_S", 3600.0)  # the reader is as slow as the machine
    lines = b"z" * 65_535 + b"\n"
    (tmp_path / "in").write_bytes(lines * 300)
    with open(tmp_path / "in", "rb") as source:
        transport = StdioTransport(source.fileno(), client.sink, client.core.open_pipe)
        serve_task = asyncio.create_task(transport.serve())
        async with within():
            assert await client.read_exactly(len(lines) * 300) == lines * 300
            await serve_task


async def test_serving_a_plain_file_can_be_stopped_while_nobody_reads(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GRACE_S", 0.01)
    (tmp_path / "in").write_bytes((b"z" * 65_535 + b"\n") * (pipes.HIGH_WATER >> 15))
    with open(tmp_path / "in", "rb") as source:
        client.transport = StdioTransport(source.fileno(), client.sink, client.core.open_pipe)
        async with serving(client) as pipe:
            await pipe.paused.wait()


async def test_slow_reader_of_answers_to_a_plain_file_is_given_up(client: Client, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes((b"z" * 65_535 + b"\n") * (pipes.HIGH_WATER >> 15))
    with open(tmp_path / "in", "rb") as source:
        transport = StdioTransport(source.fileno(), client.sink, client.core.open_pipe)
        serve_task = asyncio.create_task(transport.serve())
        pipe = await client.core.pipes.get()
        await in_time(pipe.paused.wait())
        read = len(pipe.lines)
        for _ in range(20):
            await asyncio.sleep(0)  # a turn of the loop, on which the file could be read
        assert len(pipe.lines) == read
        transport.give_up()
        await in_time(serve_task)
    assert pipe.closed.is_set()


async def test_no_stdin_at_all_ends_at_once(client: Client) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        transport = StdioTransport(nothing, client.sink, client.core.open_pipe)
        await in_time(transport.serve())
    finally:
        os.close(nothing)


async def test_one_socket_for_both_directions_works() -> None:
    ours, theirs = socket.socketpair()
    core = EchoCore()
    with ours, theirs:
        ours.sendall(b"one\n")
        ours.shutdown(socket.SHUT_WR)
        transport = StdioTransport(theirs.fileno(), theirs.fileno(), core.open_pipe)
        await in_time(transport.serve())
        assert ours.recv(100) == b"one\n"


async def test_descriptors_are_left_as_they_were(client: Client) -> None:
    async with serving(client):
        assert not os.get_blocking(client.source)
    assert os.get_blocking(client.source)
    assert os.get_blocking(client.sink)
