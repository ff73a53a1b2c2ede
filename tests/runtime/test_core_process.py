"""Tests of the frame of long commands: the journal on stderr, and requests to end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from mcpdesk.hosting import log_limits
from mcpdesk.hosting.journal import Journal
from mcpdesk.runtime import core_process
from mcpdesk.runtime.core_process import MAX_LINES, JournalPrinter, StopRequests, loaded_host
from tests.support.folders import write
from tests.support.patience import WITHIN_S, within


def printer_of(journal: Journal, log_format: str = "text") -> JournalPrinter:
    settings = SimpleNamespace(log_format=log_format)
    host = SimpleNamespace(journal=journal, settings=settings, blocking_code=SimpleNamespace())
    return JournalPrinter(host)  # type: ignore[arg-type]


def test_journal_is_followed_line_by_line(capsys: pytest.CaptureFixture[str]) -> None:
    journal = Journal()
    with printer_of(journal) as printer:
        journal.log("warning", "print", "first", "tools/a.py:1")
        printer.follow()
        printer.follow()
        journal.log("info", "server", "second")
    told = [line.split(" ", 2)[2] for line in capsys.readouterr().err.splitlines()]
    assert told == ["warning print: first (tools/a.py:1)", "info server: second"]


async def test_the_number_of_equal_lines_is_printed_although_nothing_else_happens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_limits, "INTERVAL_S", 0.02)
    monkeypatch.setattr(core_process, "READ_PERIOD_S", 0.0)
    journal, printed, came = Journal(), list[str](), asyncio.Event()
    with printer_of(journal) as printer:
        loop = asyncio.get_running_loop()

        def write(line: str) -> None:
            printed.append(line)
            loop.call_soon_threadsafe(came.set)

        monkeypatch.setattr(printer, "print", lambda text, when: write(text))
        following = asyncio.create_task(printer.keep_following())
        for _ in range(3):
            journal.log("info", "server", "away", cause="away")
        async with within():
            while len(printed) < 2:
                came.clear()
                await came.wait()
        following.cancel()
        await asyncio.wait({following})
    assert printed == ["info server: away", "info server: away (2 times in 0.02 s)"]


def test_what_others_say_commands_no_terminal_and_makes_no_line_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with printer_of(Journal()) as printer:
        printer.print("from \x1b[31m\x9b31m\u202e\r\u2028\x85x\n2026-01-01 00:00:00 info server: all is well")
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("from ␛[31m‹9b›31m‹202e›␍‹2028›‹85›x")
    assert second == "    2026-01-01 00:00:00 info server: all is well"


def test_who_does_not_read_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_process, "JOIN_TIMEOUT_S", 0.01)
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as unread:
        monkeypatch.setattr(sys, "stderr", unread)
        with printer_of(Journal()) as printer:
            for number in range(5 * MAX_LINES):
                printer.print(f"{number} {'x' * 100}")
        read = b""
        while f"{5 * MAX_LINES - 1} x".encode() not in read:
            read += os.read(reader, 1 << 20)
        assert printer._thread is not None
        printer._thread.join(WITHIN_S)
        os.close(reader)
    lines = read.decode().splitlines()
    assert " 0 x" in lines[0] and len(lines) < 4 * MAX_LINES
    assert any("lines left out: stderr was not read in time" in line for line in lines)


def test_a_reader_that_has_gone_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    gone = os.fdopen(writer, "w")
    monkeypatch.setattr(sys, "stderr", gone)
    with printer_of(Journal()) as printer:
        printer.print("to nobody")
    with pytest.raises(BrokenPipeError):
        gone.close()


ROOT = str(Path(__file__).parents[2])
PRELUDE = """
import os, signal, sys, threading, time
from mcpdesk.runtime.core_process import StopRequests
asked = threading.Event()
def say(*words):
    # Past the buffers: a signal may come while they are written out.
    os.write(1, (" ".join(words) + "\\n").encode())
def stop(reason):
    say(reason)
    asked.set()
"""


@contextmanager
def start(body: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(body)],
        env={**os.environ, "PYTHONPATH": ROOT}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def told(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


POLITE = """
with StopRequests(stop, grace_s=60) as ending:
    say("ready")
    asked.wait()
say("ended:", ending.reason)
"""


@pytest.mark.process
@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (signal.SIGTERM, "asked to end (SIGTERM)"),
        (signal.SIGHUP, "the terminal was closed"),
        (signal.SIGINT, "interrupted"),
    ],
)
def test_signal_asks_to_stop_and_the_command_ends_by_itself(number: int, reason: str) -> None:
    with start(POLITE) as process:
        assert told(process) == "ready"
        process.send_signal(number)
        assert told(process) == reason
        assert told(process) == f"ended: {reason}"
        assert process.wait(WITHIN_S) == 0


STUCK = """
with StopRequests(stop, grace_s=GRACE, before_exit=lambda: say("last")):
    say("ready")
    time.sleep(60)
"""


@pytest.mark.process
def test_command_that_does_not_end_is_ended_after_its_grace() -> None:
    with start(STUCK.replace("GRACE", "0.5")) as process:
        assert told(process) == "ready"
        process.terminate()
        assert told(process) == "asked to end (SIGTERM)"
        assert told(process) == "last"
        assert process.wait(WITHIN_S) == 128 + signal.SIGTERM


@pytest.mark.process
def test_second_interrupt_ends_at_once() -> None:
    with start(STUCK.replace("GRACE", "60")) as process:
        assert told(process) == "ready"
        process.send_signal(signal.SIGINT)
        assert told(process) == "interrupted"
        process.send_signal(signal.SIGINT)
        assert told(process) == "last"
        assert process.wait(WITHIN_S) == 128 + signal.SIGINT


@pytest.mark.process
def test_ignored_hangup_stays_ignored() -> None:
    body = "signal.signal(signal.SIGHUP, signal.SIG_IGN)" + POLITE
    with start(body) as process:
        assert told(process) == "ready"
        process.send_signal(signal.SIGHUP)
        process.terminate()
        assert told(process) == "asked to end (SIGTERM)"
        assert process.wait(WITHIN_S) == 0


WITH_PARENT = """
if os.fork() == 0:
    with StopRequests(stop, grace_s=60, with_parent=True):
        say("ready")
        asked.wait()
    os._exit(0)
sys.stdin.readline()
"""


@pytest.mark.process
def test_killed_parent_ends_the_command() -> None:
    with start(WITH_PARENT) as process:
        assert told(process) == "ready"
        process.kill()
        assert told(process) == "the program that started it has ended"


@pytest.mark.process
def test_client_that_leaves_ends_the_command() -> None:
    body = POLITE.replace("grace_s=60", "grace_s=60, client_fd=0")
    with start(body) as process:
        assert told(process) == "ready"
        assert process.stdin
        process.stdin.close()
        assert told(process) == "the client has left"
        assert process.wait(WITHIN_S) == 0


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopRequests(lambda reason: None, grace_s=1, with_parent=True):
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("http", [False, True])
def test_only_a_folder_that_is_loaded_for_a_listener_has_an_api_key(
    http: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCPDESK_STATE_DIR", str(tmp_path / "state"))
    folder = write(tmp_path / "shell", {"mcp.json": '{"name": "shell", "builtins": ["Bash"]}'})
    with loaded_host(folder, **({"http": True} if http else {})) as host:
        assert bool(host.rules.api_key) is http
