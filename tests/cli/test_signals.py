"""Commands end when they are asked to, and are ended when they do not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.patience import WITHIN_S as WAIT_S

ROOT = str(Path(__file__).parents[2])
PRELUDE = """
import os, signal, sys, threading, time
from mcpdesk.cli.core_process import StopRequests
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
        assert process.wait(WAIT_S) == 0


STUCK = """
with StopRequests(stop, grace_s=GRACE, last=lambda: say("last")):
    say("ready")
    time.sleep(60)
"""


def test_command_that_does_not_end_is_ended_after_its_grace() -> None:
    with start(STUCK.replace("GRACE", "0.5")) as process:
        assert told(process) == "ready"
        process.terminate()
        assert told(process) == "asked to end (SIGTERM)"
        assert told(process) == "last"
        assert process.wait(WAIT_S) == 128 + signal.SIGTERM


def test_second_interrupt_ends_at_once() -> None:
    with start(STUCK.replace("GRACE", "60")) as process:
        assert told(process) == "ready"
        process.send_signal(signal.SIGINT)
        assert told(process) == "interrupted"
        process.send_signal(signal.SIGINT)
        assert told(process) == "last"
        assert process.wait(WAIT_S) == 128 + signal.SIGINT


def test_ignored_hangup_stays_ignored() -> None:
    body = "signal.signal(signal.SIGHUP, signal.SIG_IGN)" + POLITE
    with start(body) as process:
        assert told(process) == "ready"
        process.send_signal(signal.SIGHUP)
        process.terminate()
        assert told(process) == "asked to end (SIGTERM)"
        assert process.wait(WAIT_S) == 0


WITH_PARENT = """
if os.fork() == 0:
    with StopRequests(stop, grace_s=60, with_parent=True):
        say("ready")
        asked.wait()
    os._exit(0)
sys.stdin.readline()
"""


@pytest.mark.parametrize("pidfd", [True, False])
def test_killed_parent_ends_the_command(pidfd: bool) -> None:
    without = "" if pidfd else "\nos.__dict__.pop('pidfd_open', None)\n"
    with start(without + textwrap.dedent(WITH_PARENT)) as process:
        assert told(process) == "ready"
        process.kill()
        assert told(process) == "the program that started it has ended"


def test_client_that_leaves_ends_the_command() -> None:
    body = POLITE.replace("grace_s=60", "grace_s=60, client_fd=0")
    with start(body) as process:
        assert told(process) == "ready"
        assert process.stdin
        process.stdin.close()
        assert told(process) == "the client has left"
        assert process.wait(WAIT_S) == 0


def test_handlers_are_put_back() -> None:
    from mcpdesk.cli.core_process import StopRequests

    before = signal.getsignal(signal.SIGTERM)
    with StopRequests(lambda reason: None, grace_s=1, with_parent=True):
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before
