"""The pump as a client starts it: a separate process between real pipes and a real socket."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from mcpdesk.__main__ import simple_arguments
from mcpdesk.transports import pump, rendezvous
from mcpdesk.transports.replay import ClientState
from mcpdesk.transports.unix import parse_greeting, refusal_line
from tests.support.patience import WITHIN_S as WAIT_S

ROOT = str(Path(__file__).parents[2])
PROGRAM = [
    sys.executable,
    "-c",
    f"import sys; sys.path.insert(0, {ROOT!r}); from mcpdesk.__main__ import main; main()",
]
STRIPPED = {"HOME": "/", "PATH": os.environ.get("PATH", "")}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[rendezvous.ListeningSocket]:
    """Socket of the test's folder, occupied."""
    taken = rendezvous.listen_for_folder(tmp_path, "")
    assert taken is not None
    taken.listener.settimeout(WAIT_S)
    yield taken
    taken.leave()


def accept(place: rendezvous.ListeningSocket) -> tuple[socket.socket, BinaryIO, bytes]:
    """Next connection that sends something; cores that start elsewhere only probe for a listener."""
    while True:
        desk, _ = place.listener.accept()
        desk.settimeout(WAIT_S)
        stream = desk.makefile("rwb")
        if hello := stream.readline():
            return desk, cast(BinaryIO, stream), hello
        stream.close()
        desk.close()


class Pumping:
    """A running pump and the desk's end of its connection, past the hello."""

    def __init__(
        self, folder: Path, place: rendezvous.ListeningSocket, *options: str, answer: bytes = pump.ACCEPTED
    ) -> None:
        self.process = subprocess.Popen(
            [*PROGRAM, "stdio", str(folder), *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/", env=STRIPPED,
        )  # fmt: skip
        self.desk, self.stream, hello = accept(place)
        self.hello = parse_greeting(hello)
        if answer:
            self.stream.write(answer)
            self.stream.flush()
        assert self.process.stdin and self.process.stdout
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def say(self, data: bytes) -> None:
        self.stdin.write(data)
        self.stdin.flush()

    def disconnect(self) -> None:
        """Close the desk's connection abruptly."""
        self.desk.shutdown(socket.SHUT_RDWR)
        self.stream.close()
        self.desk.close()

    def end(self) -> tuple[int, bytes]:
        """Wait for its end; return the exit code and its stderr."""
        assert self.process.stderr
        self.process.wait(WAIT_S)
        return self.process.returncode, self.process.stderr.read()


@pytest.fixture
def pumping(tmp_path: Path, place: rendezvous.ListeningSocket) -> Iterator[Pumping]:
    running = Pumping(tmp_path, place, "--mode", "review")
    yield running
    running.stream.close()
    running.desk.close()
    running.process.kill()
    running.process.wait(WAIT_S)
    for stream in (running.process.stdin, running.process.stdout, running.process.stderr):
        assert stream
        stream.close()


@pytest.mark.process
def test_pump_says_who_its_client_is(pumping: Pumping, tmp_path: Path) -> None:
    assert (pumping.hello.folder, pumping.hello.mode) == (str(tmp_path), "review")
    assert pumping.hello.pid == os.getpid()
    assert pumping.hello.name == rendezvous.process_name(os.getpid())


@pytest.mark.process
def test_bytes_pass_both_ways_unchanged(pumping: Pumping) -> None:
    pumping.say(b"one\n\xff\x00ha")
    pumping.say(b"lf\nrest")
    assert pumping.stream.read(11) == b"one\n\xff\x00half\n"[:11]
    pumping.stream.write(b"two\r\n")
    pumping.stream.flush()
    assert pumping.stdout.read(5) == b"two\r\n"


@pytest.mark.process
def test_last_line_without_an_end_arrives_with_one(pumping: Pumping) -> None:
    pumping.say(b"one\ntwo")
    pumping.stdin.close()
    assert pumping.stream.read() == b"one\ntwo\n"


@pytest.mark.process
def test_end_of_input_is_passed_on_and_late_answers_still_arrive(pumping: Pumping) -> None:
    pumping.say(b"last\n")
    pumping.stdin.close()
    assert pumping.stream.read() == b"last\n"
    pumping.stream.write(b"answer\n")
    pumping.stream.flush()
    pumping.desk.shutdown(socket.SHUT_WR)
    assert pumping.stdout.read() == b"answer\n"
    assert pumping.end() == (0, b"")


@pytest.mark.process
def test_refusal_of_the_desk_is_said_on_stderr(pumping: Pumping) -> None:
    pumping.stream.write(refusal_line("no mode\n'review'"))
    pumping.stream.flush()
    pumping.disconnect()
    assert pumping.end() == (pump.EXIT_REFUSED, b"mcpdesk: no mode 'review'\n")


@pytest.mark.process
def test_client_that_reads_no_more_ends_the_pump_quietly(pumping: Pumping) -> None:
    pumping.stdout.close()
    pumping.stream.write(b"x" * 100_000 + b"\n")
    pumping.stream.flush()
    assert pumping.end() == (0, b"")


@pytest.mark.process
def test_large_messages_pass_both_ways_at_once(pumping: Pumping) -> None:
    size = 20 << 20
    talking = [
        threading.Thread(target=pumping.say, args=(b"i" * (size - 1) + b"\n",)),
        threading.Thread(target=pumping.desk.sendall, args=(b"o" * (size - 1) + b"\n",)),
    ]
    for thread in talking:
        thread.start()
    received: list[bytes] = []
    reading = threading.Thread(target=lambda: received.append(pumping.stdout.read(size)))
    reading.start()
    assert pumping.stream.read(size) == b"i" * (size - 1) + b"\n"
    for thread in (*talking, reading):
        thread.join(WAIT_S)
    assert received == [b"o" * (size - 1) + b"\n"]


@pytest.mark.process
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)])
def test_signal_ends_the_pump_and_the_desk_notices(pumping: Pumping, number: int, code: int) -> None:
    pumping.say(b"one\n")
    assert pumping.stream.readline() == b"one\n"
    pumping.process.send_signal(number)
    assert pumping.end() == (code, b"")
    assert pumping.stream.read() == b""


@pytest.mark.process
def test_pump_whose_client_is_killed_ends(tmp_path: Path, place: rendezvous.ListeningSocket) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", "import subprocess,sys; subprocess.run(sys.argv[1:], stdin=subprocess.PIPE)",
         *PROGRAM, "stdio", str(tmp_path)],
        env=STRIPPED,
    )  # fmt: skip
    desk, stream, _ = accept(place)
    with desk, stream:
        parent.kill()
        parent.wait(WAIT_S)
        assert stream.read() == b""


def test_no_pump_without_a_desk(tmp_path: Path) -> None:
    assert pump.run(str(tmp_path), "", ClientState()) is None
    assert pump.run(str(tmp_path / "missing"), "", ClientState()) is None


def test_no_pump_to_a_desk_that_ends_before_it_is_greeted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    monkeypatch.setattr(rendezvous, "find_desk", lambda *_: ours)
    assert pump.run(str(tmp_path), "", ClientState()) is None


def test_no_pump_through_a_place_that_is_not_private(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = tmp_path_factory.mktemp("open")
    foreign.chmod(0o777)
    monkeypatch.setattr(rendezvous, "runtime_folder", lambda: str(foreign))
    assert pump.run(str(tmp_path), "", ClientState()) is None


def test_only_the_plain_form_is_for_the_pump() -> None:
    assert simple_arguments(["folder"]) == ("folder", "")
    assert simple_arguments(["--mode", "review", "folder"]) == ("folder", "review")
    assert simple_arguments(["folder", "--mode=review"]) == ("folder", "review")
    for arguments in ([], ["a", "b"], ["--alone", "a"], ["a", "--help"], ["a", "--mode"]):
        assert simple_arguments(arguments) is None


@pytest.mark.process
def test_pump_imports_next_to_nothing() -> None:
    code = (
        f"import sys; sys.path.insert(0, {ROOT!r}); before = set(sys.modules);"
        "import mcpdesk.__main__, mcpdesk.transports.pump; print(*sorted(set(sys.modules) - before))"
    )
    answer = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    own = {name for name in answer.stdout.split() if name.startswith("mcpdesk")}
    assert own == {
        "mcpdesk",
        "mcpdesk.__main__",
        "mcpdesk.transports",
        "mcpdesk.transports.pump",
        "mcpdesk.transports.rendezvous",
        "mcpdesk.transports.replay",
    }
    assert not {"typing", "re", "json", "pathlib", "threading", "asyncio", "click", "dataclasses"} & set(
        answer.stdout.split()
    )
