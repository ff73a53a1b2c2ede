"""Claimed descriptors, in separate processes: no stray output reaches the wire or the screen."""

from __future__ import annotations

import fcntl
import json
import os
import struct
import subprocess
import sys
import termios
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.errors import TransportError
from mcpdesk.transports import descriptors
from mcpdesk.transports.descriptors import LINE_LIMIT, PrintStream, StrayLine, StrayOutputReader
from tests.support.patience import WITHIN_S as WAIT_S
from tests.support.tiers import open_terminal

ROOT = str(Path(__file__).parents[2])
PRELUDE = """
import json, os, subprocess, sys
from msgspec.structs import astuple
from mcpdesk.transports.descriptors import claim

lines = []
folder = os.getcwd()
def run(source):
    exec(compile(source, folder + "/tools/noisy.py", "exec"), globals())
def report():
    with open("lines.json", "w") as file:
        json.dump([astuple(line) for line in lines], file)
"""


def start(folder: Path, body: str, **streams: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(body)],
        cwd=folder, env={**os.environ, "PYTHONPATH": ROOT}, **streams,
    )  # fmt: skip


def play(folder: Path, body: str, stdin: bytes = b"") -> tuple[bytes, bytes, list[list[str]]]:
    """Run a program; returns its stdout, its stderr and the stray lines it saw."""
    with start(folder, body, stdin=-1, stdout=-1, stderr=-1) as process:
        out, err = process.communicate(stdin, WAIT_S)
    assert process.returncode == 0, err.decode()
    return out, err, json.loads((folder / "lines.json").read_text())


@pytest.mark.process
@pytest.mark.requirement("3.1")
def test_prints_never_reach_the_wire(tmp_path: Path) -> None:
    out, err, lines = play(
        tmp_path,
        """
        claimed = claim("wire", lines.append, lambda: [folder])
        run("print('from python')")
        run("\\nos.write(1, b'from the descriptor\\\\n')")
        run("sys.__stdout__.write('original stream\\\\n'); sys.__stdout__.flush()")
        run("sys.stdout.buffer.write(b'raw\\\\n')")
        run("subprocess.run(['echo', 'from a child'])")
        run("subprocess.run(['echo', 'given our stdout'], stdout=sys.stdout)")
        os.write(claimed.stdout_fd, b"wire\\n")
        claimed.release()
        print("after")
        report()
        """,
    )
    assert out == b"wire\nafter\n"
    assert err == b""
    assert lines == [
        ["print", "from python", "tools/noisy.py:1"],
        ["stdout", "from the descriptor", ""],
        ["stdout", "original stream", ""],
        ["stdout", "raw", ""],
        ["stdout", "from a child", ""],
        ["stdout", "given our stdout", ""],
    ]


@pytest.mark.process
def test_hosted_code_cannot_take_the_wires_input(tmp_path: Path) -> None:
    out, _, lines = play(
        tmp_path,
        """
        claimed = claim("wire", lines.append)
        try:
            input()
        except EOFError:
            print("nothing there")
        subprocess.run(["cat"])
        os.write(claimed.stdout_fd, os.read(claimed.stdin_fd, 100))
        claimed.release()
        report()
        """,
        stdin=b"request\n",
    )
    assert out == b"request\n"
    assert lines == [["print", "nothing there", ""]]


@pytest.mark.process
def test_children_do_not_inherit_the_wire(tmp_path: Path) -> None:
    _, _, lines = play(
        tmp_path,
        """
        claimed = claim("wire", lines.append)
        subprocess.run(["ls", "/proc/self/fd"], close_fds=False)
        wire = str(claimed.stdin_fd), str(claimed.stdout_fd)
        claimed.release()
        assert not {line.text for line in lines} & set(wire), lines
        report()
        """,
    )
    assert {"0", "1", "2"} <= {text for _, text, _ in lines}


@pytest.mark.process
def test_stderr_is_free_on_the_wire(tmp_path: Path) -> None:
    _, err, lines = play(
        tmp_path,
        """
        claimed = claim("wire", lines.append)
        print("to the client's log", file=sys.stderr)
        claimed.release()
        report()
        """,
    )
    assert err == b"to the client's log\n"
    assert lines == []


@pytest.mark.process
def test_unfinished_line_is_delivered_at_the_release(tmp_path: Path) -> None:
    _, _, lines = play(
        tmp_path,
        """
        claimed = claim("serve", lines.append)
        print("no newline", end="")
        os.write(1, b"nor here")
        claimed.release()
        claimed.release()
        report()
        """,
    )
    assert lines == [["print", "no newline", ""], ["stdout", "nor here", ""]]


@pytest.mark.process
def test_child_that_lives_on_does_not_hold_up_the_release(tmp_path: Path) -> None:
    _, _, lines = play(
        tmp_path,
        """
        claimed = claim("wire", lines.append)
        child = subprocess.Popen(["sh", "-c", "echo ready; exec sleep 60"])
        while not lines:
            pass
        claimed.release()
        child.kill()
        child.wait()
        report()
        """,
    )
    assert lines == [["stdout", "ready", ""]]


def test_closed_descriptor_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(9, "Bad file descriptor")

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    with pytest.raises(TransportError, match="stdin is not open"):
        descriptors.claim("wire", lambda line: None)


SCREEN = """
import threading
claimed = claim("screen", lines.append, lambda: [folder])
from textual.app import App
from textual.widgets import Static

class Desk(App):
    disturbed = threading.Event()
    def compose(self):
        yield Static("the screen is drawn")
    def on_ready(self):
        claimed.redirect_prints()
        work = threading.Thread(target=self.disturb)
        work.start()
    def disturb(self):
        run("print('stray print')")
        run("print('stray complaint', file=sys.stderr)")
        run("subprocess.run(['sh', '-c', 'echo child out; echo child err >&2; cat'])")
        self.disturbed.set()
    def on_resize(self, event):
        with open("size", "w") as file:
            file.write(f"{event.size.width}x{event.size.height}")
        if event.size.width == 99:
            work = threading.Thread(target=self.invite)
            work.start()
    def invite(self):
        self.disturbed.wait()
        self.call_from_thread(lambda: self.query_one(Static).update("press a key"))
    def on_key(self, event):
        self.exit()

Desk().run()
claimed.release()
print("back in the shell")
report()
"""


def read_until(terminal: int, text: bytes) -> bytes:
    seen = b""
    while text not in seen:
        seen += os.read(terminal, 65536)
    return seen


@pytest.mark.process
def test_screen_is_drawn_and_nothing_stray_garbles_it(tmp_path: Path) -> None:
    terminal, inner = open_terminal()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 99, 0, 0))
    before = termios.tcgetattr(inner)
    process = start(tmp_path, SCREEN, stdin=inner, stdout=inner, stderr=inner)
    seen = read_until(terminal, b"press a key")
    os.write(terminal, b"q")
    seen += read_until(terminal, b"back in the shell")
    process.wait(WAIT_S)
    assert process.returncode == 0, seen
    assert b"the screen is drawn" in seen
    assert b"stray" not in seen and b"child" not in seen
    assert (tmp_path / "size").read_text() == "99x33"
    assert json.loads((tmp_path / "lines.json").read_text()) == [
        ["print", "stray print", "tools/noisy.py:1"],
        ["stderr", "stray complaint", "tools/noisy.py:1"],
        ["stdout", "child out", ""],
        ["stderr", "child err", ""],
    ]
    assert termios.tcgetattr(inner) == before
    os.close(inner)
    os.close(terminal)


@pytest.fixture
def lines() -> list[StrayLine]:
    return []


@pytest.fixture
def prints(lines: list[StrayLine], tmp_path: Path) -> PrintStream:
    return PrintStream(1, "print", lines.append, lambda: [str(tmp_path)])


def hosted(tmp_path: Path, source: str, **names: object) -> None:
    """Run code as if it were in a tool of the hosted folder."""
    file = str(tmp_path / "tools" / "slow.py")
    exec(compile(source, file, "exec"), dict(names))


def test_print_is_one_line_with_its_place(
    prints: PrintStream, lines: list[StrayLine], tmp_path: Path
) -> None:
    hosted(tmp_path, "\nprint('a', 1, file=out)", out=prints)
    assert lines == [StrayLine("print", "a 1", "tools/slow.py:2")]


def test_place_is_the_nearest_line_of_the_folder(
    prints: PrintStream, lines: list[StrayLine], tmp_path: Path
) -> None:
    hosted(
        tmp_path,
        "\n\ncall(lambda: log('deep'))",
        call=lambda work: work(),
        log=lambda text: print(text, file=prints),
    )
    assert lines == [StrayLine("print", "deep", "tools/slow.py:3")]


def test_print_from_elsewhere_has_no_place(prints: PrintStream, lines: list[StrayLine]) -> None:
    print("hello", file=prints)
    assert lines == [StrayLine("print", "hello", "")]


def test_folder_whose_name_only_begins_alike_is_not_the_place(
    prints: PrintStream, lines: list[StrayLine], tmp_path: Path
) -> None:
    hosted(Path(f"{tmp_path}-other"), "print('x', file=out)", out=prints)
    assert lines == [StrayLine("print", "x", "")]


def test_line_is_delivered_when_it_ends(prints: PrintStream, lines: list[StrayLine]) -> None:
    prints.write("one")
    prints.flush()
    assert lines == []
    assert prints.write(" two\nthree\n\nfo") == 14
    assert [line.text for line in lines] == ["one two", "three", ""]
    prints.finish()
    assert lines[-1].text == "fo"


def test_endless_line_is_cut(prints: PrintStream, lines: list[StrayLine]) -> None:
    prints.write("x" * (LINE_LIMIT + 1))
    assert len(lines) == 1


def test_threads_do_not_mix_their_lines(prints: PrintStream, lines: list[StrayLine]) -> None:
    prints.write("main ")
    thread = threading.Thread(target=lambda: print("other", file=prints))
    thread.start()
    thread.join(WAIT_S)
    prints.write("line\n")
    assert [line.text for line in lines] == ["other", "main line"]


def test_it_passes_for_a_text_stream(prints: PrintStream) -> None:
    assert prints.fileno() == 1
    assert not prints.isatty()
    assert prints.writable() and not prints.readable()
    assert prints.encoding == "utf-8"
    prints.reconfigure(line_buffering=True)
    with pytest.raises(TypeError):
        prints.write(b"bytes")  # type: ignore[arg-type]


@pytest.fixture
def reader(lines: list[StrayLine]) -> Iterator[StrayOutputReader]:
    yield StrayOutputReader(lines.append)


def test_pipe_becomes_lines_until_the_reader_stops(reader: StrayOutputReader, lines: list[StrayLine]) -> None:
    out, err = reader.open("stdout"), reader.open("stderr")
    reader.start()
    os.write(out, b"one\r\ntwo \xff\nthr")
    os.write(err, b"bad\n")
    os.write(out, b"ee")
    reader.stop()
    os.close(out)
    os.close(err)
    assert [line for line in lines if line.source == "stdout"] == [
        StrayLine("stdout", "one"),
        StrayLine("stdout", "two \ufffd"),
        StrayLine("stdout", "three"),
    ]
    assert StrayLine("stderr", "bad") in lines


def test_pipe_whose_writers_are_gone_ends_by_itself(
    reader: StrayOutputReader, lines: list[StrayLine]
) -> None:
    out = reader.open("stdout")
    reader.start()
    os.write(out, b"one\nrest")
    os.close(out)
    reader.stop()
    assert [line.text for line in lines] == ["one", "rest"]


def test_much_at_once_arrives_whole(reader: StrayOutputReader, lines: list[StrayLine]) -> None:
    out = reader.open("stdout")
    reader.start()
    line = b"x" * 1023 + b"\n"
    for _ in range(4096):
        os.write(out, line)
    os.close(out)
    reader.stop()
    assert len(lines) == 4096
