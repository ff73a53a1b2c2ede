"""The Unix-socket listener serves pumps and plain clients, many at once, and cleans up after itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mcpdesk.transports import pipe as pipes
from mcpdesk.transports import pump, rendezvous
from mcpdesk.transports import unix as module
from mcpdesk.transports.unix import MAX_GREETING_BYTES, GreetingReader, PumpGreeting, UnixListener
from tests.support.echo_pipe import EchoCore, EchoPipe
from tests.support.patience import in_time, until, within


@asynccontextmanager
async def listening(core: EchoCore, path: Path, server: str | None = None) -> AsyncIterator[UnixListener]:
    place = rendezvous.listen(str(path))
    assert place is not None
    listener = UnixListener(place, core.open_pipe, server)
    await listener.start()
    try:
        yield listener
    finally:
        await in_time(listener.close())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s"


@asynccontextmanager
async def connected(path: Path) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_unix_connection(str(path), limit=64 << 20)
    try:
        async with within():
            yield reader, writer
    finally:
        writer.close()


async def everything(reader: asyncio.StreamReader) -> bytes:
    """Read all bytes up to the end, clean or not."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


async def test_plain_client_is_answered_as_a_unix_peer(path: Path) -> None:
    core = EchoCore()
    async with listening(core, path, "hello"), connected(path) as (reader, writer):
        writer.write(b'{"id":1}\n')
        assert await reader.readline() == b'{"id":1}\n'
        pipe = core.pipes.get_nowait()
        assert (pipe.server, pipe.transport) == ("hello", "unix")
        assert pipe.peer == rendezvous.process_name(os.getpid())


async def test_pump_is_a_stdio_peer_and_its_hello_is_no_frame(path: Path) -> None:
    core = EchoCore()
    async with listening(core, path), connected(path) as (reader, writer):
        writer.write(pump.greeting_line("/srv", "") + b"one\ntw")
        assert await reader.readline() == pump.ACCEPTED
        assert await reader.readline() == b"one\n"
        writer.write(b"o\n")
        assert await reader.readline() == b"two\n"
        pipe = core.pipes.get_nowait()
        assert (pipe.transport, pipe.lines) == ("stdio", [b"one", b"two"])
        assert pipe.peer == rendezvous.process_name(os.getppid())


async def test_many_clients_are_served_at_once(path: Path) -> None:
    async def talk(number: int) -> bytes:
        async with connected(path) as (reader, writer):
            writer.write(b"%d\n" % number)
            return await reader.readline()

    async with listening(EchoCore(), path):
        answers = await asyncio.gather(*(talk(number) for number in range(50)))
    assert answers == [b"%d\n" % number for number in range(50)]


async def test_end_of_input_lets_running_calls_finish(path: Path) -> None:
    core = EchoCore()
    async with listening(core, path), connected(path) as (reader, writer):
        writer.write(b"wait\n")
        writer.write_eof()
        pipe = await core.pipes.get()
        await pipe.ended.wait()
        pipe.release()
        assert await reader.read() == b"waited\n"
        assert pipe.closed.is_set()


async def test_calls_that_outlast_the_grace_are_given_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRACE_S", 0.01)
    core = EchoCore()
    async with listening(core, path), connected(path) as (reader, writer):
        writer.write(b"wait\n")
        writer.write_eof()
        assert await reader.read() == b""
        assert core.pipes.get_nowait().closed.is_set()


async def test_client_that_vanishes_closes_its_pipe(path: Path) -> None:
    core = EchoCore()
    async with listening(core, path):
        async with connected(path) as (_, writer):
            writer.write(b"wait\n")
            pipe = await core.pipes.get()
            writer.transport.abort()
        pipe.send(b"x" * 100_000)
        async with within():
            await pipe.closed.wait()


async def test_client_that_leaves_without_a_word_opens_nothing(path: Path) -> None:
    core = EchoCore()
    async with listening(core, path):
        async with connected(path) as (reader, writer):
            writer.write_eof()
            assert await reader.read() == b""
        assert core.pipes.empty()


async def test_pump_that_cannot_be_served_is_told_why(path: Path) -> None:
    async with listening(EchoCore(), path), connected(path) as (reader, writer):
        writer.write(pump.greeting_line("/srv", "review") + b"one\n")
        assert await everything(reader) == b"mcpdesk: there is no mode 'review'\n"


async def test_broken_hello_ends_the_connection(path: Path) -> None:
    async with listening(EchoCore(), path), connected(path) as (reader, writer):
        writer.write(b'{"mcpdesk":7}\n')
        assert await everything(reader) == b""


async def test_large_message_comes_back_whole(path: Path) -> None:
    line = b"x" * (20 << 20) + b"\n"
    async with listening(EchoCore(), path), connected(path) as (reader, writer):
        writer.write(line)
        assert await reader.readline() == line


async def test_peer_that_does_not_read_makes_the_core_wait(path: Path) -> None:
    core = EchoCore()
    async with listening(core, path), connected(path) as (reader, writer):
        writer.write(b"one\n")
        pipe = await core.pipes.get()
        pipe.send(b"y" * (pipes.HIGH_WATER + (4 << 20)) + b"\n")
        await pipe.paused.wait()
        await reader.readuntil(b"y\n")
        writer.write(b"two\n")
        await reader.readuntil(b"two\n")
        assert not pipe.paused.is_set()


class UnidentifiedPipe(EchoPipe):
    """Knows its peer only after `identify`, and answers each piece with more than may wait."""

    def __init__(self, server: str | None, transport: str, peer: str) -> None:
        super().__init__(server, transport, peer)
        self.doubt()

    async def identify(self) -> None:
        await asyncio.sleep(0)
        self.trust()

    def feed(self, data: bytes) -> bool:
        is_taken = super().feed(data)
        if is_taken:
            self.send(b"y" * (pipes.HIGH_WATER + (4 << 20)) + b"\n")
        return is_taken


async def test_peer_that_does_not_read_its_first_answers_makes_the_core_wait(path: Path) -> None:
    core = EchoCore(UnidentifiedPipe)
    async with listening(core, path) as listener, connected(path) as (reader, writer):
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(pump.greeting_line("/srv", "") + b"one\n")
        pipe = await core.pipes.get()
        (connection,) = listener._connections
        assert connection._identify_task is not None
        await connection._identify_task
        assert pipe.paused.is_set() and not connection._transport.is_reading()
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        await reader.readuntil(b"y\n")
        writer.write(b"two\n")
        await reader.readuntil(b"two\n")


async def test_no_frame_is_lost_if_the_peer_must_be_identified_twice(path: Path) -> None:
    core = EchoCore()
    async with listening(core, path) as listener, connected(path) as (reader, writer):
        writer.write(b"one\n")
        assert await reader.readline() == b"one\n"
        pipe = core.pipes.get_nowait()
        pipe.doubt()
        writer.write(b"two\n")
        (connection,) = listener._connections
        await until(lambda: connection._identify_task is not None)
        pipe.doubt_again()
        writer.write(b"three\n")
        assert await reader.readuntil(b"three\n") == b"two\nthree\n"


async def test_frames_wait_while_the_peer_is_identified_again(path: Path) -> None:
    core = EchoCore()
    async with listening(core, path) as listener, connected(path) as (reader, writer):
        writer.write(b"one\n")
        assert await reader.readline() == b"one\n"
        pipe = core.pipes.get_nowait()
        pipe.doubt()
        writer.write(b"two\n")
        (connection,) = listener._connections
        await until(lambda: connection._identify_task is not None)
        pipe.send(b"y" * (pipes.HIGH_WATER + (4 << 20)) + b"\n")
        writer.write(b"three\n")
        await reader.readuntil(b"y\n")
        assert pipe.lines == [b"one"]
        pipe.trust()
        assert await reader.readuntil(b"three\n") == b"two\nthree\n"


async def test_a_cancelled_start_leaves_no_socket(path: Path) -> None:
    place = rendezvous.listen(str(path))
    assert place is not None
    starting = asyncio.create_task(UnixListener(place, EchoCore().open_pipe).start())
    await asyncio.sleep(0)  # it listens now
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert place.listener.fileno() == -1
    with pytest.raises((ConnectionRefusedError, FileNotFoundError)):  # asyncio removes it from Python 3.13 on
        await asyncio.open_unix_connection(str(path))


async def test_peer_that_never_reads_is_cut_off(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WRITE_LIMIT", 1 << 20)
    core = EchoCore()
    async with listening(core, path), connected(path) as (_, writer):
        writer.write(b"one\n")
        pipe = await core.pipes.get()
        pipe.send(b"y" * (4 << 20))
        await pipe.closed.wait()


@pytest.mark.parametrize("how", ["disconnected", "left by the listener"])
async def test_peer_that_does_not_read_when_it_is(
    how: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CLOSE_S", 0.01)
    core = EchoCore()
    async with listening(core, path) as listener, connected(path) as (_, writer):
        writer.write(b"one\n")
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        pipe = await core.pipes.get()
        pipe.send(b"y" * (4 << 20))
        (connection,) = listener._connections
        if how == "disconnected":
            assert listener.disconnect(pipe.connection)
        else:
            await listener.close()
        await connection.closed_future


async def test_peer_reads_what_was_answered_before_the_listener_closed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CLOSE_S", 60.0)
    core, answer = EchoCore(), b"y" * (4 << 20)
    async with listening(core, path) as listener, connected(path) as (reader, writer):
        writer.write(b"one\n")
        pipe = await core.pipes.get()
        pipe.send(answer)
        await listener.close()
        assert await reader.read() == b"one\n" + answer


async def test_other_users_are_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "peer_credentials", lambda connection: (1, os.getuid() + 1))
    core = EchoCore()
    async with listening(core, path), connected(path) as (reader, writer):
        writer.write(b"one\n")
        assert await everything(reader) == b""
    assert core.pipes.empty()


async def test_close_ends_connections_and_removes_the_entry(path: Path) -> None:
    core = EchoCore()
    async with listening(core, path) as listener, connected(path) as (reader, writer):
        writer.write(b"one\n")
        assert await reader.readline() == b"one\n"
        await listener.close()
        assert await reader.read() == b""
        assert not path.exists()
        assert core.pipes.get_nowait().closed.is_set()


FRAME = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'


def start(pieces: list[bytes]) -> tuple[PumpGreeting | None, bytes]:
    """Feed until the greeting knows; returns its verdict and all that follows."""
    greeting = GreetingReader()
    for number, piece in enumerate(pieces):
        if (verdict := greeting.feed(piece)) is not None:
            return verdict[0], verdict[1] + b"".join(pieces[number + 1 :])
    raise AssertionError("never told")


def test_hello_of_the_pump_is_understood_in_every_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"TENANT": 'a"c\nm\u00e9'})
    line = pump.greeting_line('/srv/my "tools"\\ä\n\U0001f40d', "review")
    stream = line + FRAME
    for at in range(len(stream) + 1):
        hello, rest = start([stream[:at], stream[at:]])
        assert hello is not None
        assert (hello.folder, hello.mode) == ('/srv/my "tools"\\ä\n\U0001f40d', "review")
        assert hello.environment == {"TENANT": 'a"c\nm\u00e9'} and hello.session == pump.SESSION
        assert rest == FRAME


def test_hello_makes_a_relative_folder_absolute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    hello, _ = start([pump.greeting_line("etc", "")])
    assert hello is not None
    assert hello.folder == "/etc"


def test_client_without_a_pump_is_served_from_its_first_byte() -> None:
    assert start([bytes([byte]) for byte in FRAME]) == (None, FRAME)
    assert start([b"\n"]) == (None, b"\n")


@pytest.mark.parametrize(
    "line", [b'{"mcpdesk":2}\n', b'{"mcpdesk":1}\n', b'{"mcpdesk":\n', b'{"mcpdesk":"\xff"}\n']
)
def test_broken_hello_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        GreetingReader().feed(line)


def test_endless_hello_is_refused() -> None:
    with pytest.raises(ValueError, match="more than"):
        GreetingReader().feed(b'{"mcpdesk":"' + b"x" * MAX_GREETING_BYTES)
