"""The supervisor's thread: coroutines from anywhere, rests that grow with the work, an end without a word."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from queue import Queue

import pytest

from mcpdesk.jobs.process import FLOOD_RATE, MOST_REST_S, Supervisor
from tests.support.patience import WITHIN_S

BUSY_AT_THE_END = """
import os
from pathlib import Path
from mcpdesk.jobs.output import Output
from mcpdesk.jobs.process import Process
process = Process(["sleep", "100"], Path("/"), dict(os.environ), Output(), begun=lambda: os.write(1, b"!"))
process.start(print)
os.read(0, 1)
"""


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    made = Supervisor()
    yield made
    made.close()


def test_what_comes_of_a_coroutine_is_reported_on_its_thread(supervisor: Supervisor) -> None:
    reported: Queue[tuple[object, str]] = Queue()

    async def work(value: int) -> int:
        await asyncio.sleep(0)
        return 10 // value

    for value in (5, 0):
        supervisor.run(work(value), lambda outcome: reported.put((outcome, threading.current_thread().name)))
    assert reported.get(timeout=WITHIN_S) == (2, "programs")
    assert isinstance(reported.get(timeout=WITHIN_S)[0], ZeroDivisionError)


def test_what_was_read_is_paid_for_with_a_rest(supervisor: Supervisor) -> None:
    ticks: Queue[float] = Queue()

    async def work(owed: int) -> None:
        reader, writer = os.pipe()
        ready = asyncio.Event()
        supervisor.took(owed)
        asyncio.get_running_loop().add_reader(reader, ready.set)
        os.write(writer, b"!")
        began = time.perf_counter()
        await ready.wait()
        ticks.put(time.perf_counter() - began)
        asyncio.get_running_loop().remove_reader(reader)
        os.close(reader)
        os.close(writer)

    supervisor.run(work(int(FLOOD_RATE)), lambda outcome: None)
    assert ticks.get(timeout=WITHIN_S) >= MOST_REST_S


def test_nothing_is_said_when_a_process_ends_with_programs_running() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BUSY_AT_THE_END],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as child:  # fmt: skip
        assert child.stdout is not None and child.stdout.read(1) == b"!"
        out, err = child.communicate(b"!", timeout=WITHIN_S)
    assert (out, err.decode(), child.returncode) == (b"", "", 0)
