"""Starts mcpdesk and its peers, each in a separate process with a separate state folder."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

ROOT = Path(__file__).parents[2]
MCPDESK = (sys.executable, "-c", "from mcpdesk.__main__ import main; main()")
"""Command that does the same as the installed `mcpdesk`."""
START_S = 20.0
LOOK_S = 0.02


class Serving(NamedTuple):
    """A process that serves HTTP."""

    port: int
    pid: int


def cpu_s(pid: int) -> float:
    """Seconds of CPU a process and its children have used."""
    process = psutil.Process(pid)
    all_times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return float(sum(times.user + times.system for times in all_times))


def stolen_s() -> float:
    """Seconds of all processors that a hypervisor gave to others so far; 0 if the system reports none."""
    return float(getattr(psutil.cpu_times(), "steal", 0.0))


def main_thread_cpu_s(pid: int) -> float:
    """Seconds of CPU of the first thread of a process; in a desk it draws the screen."""
    times = next(thread for thread in psutil.Process(pid).threads() if thread.id == pid)
    return float(times.user_time + times.system_time)


def memory_mib(pid: int) -> float:
    """MiB of a process and its children; shared memory is divided (PSS, if the system reports it)."""
    process = psutil.Process(pid)
    infos = [one.memory_full_info() for one in (process, *process.children(recursive=True))]
    return float(sum(getattr(info, "pss", info.rss) for info in infos)) / (1 << 20)


OPERATOR_KEY = "of-the-bench"


def environment(state: Path) -> dict[str, str]:
    """Environment of a child: our package can be imported, state is in `state`, the terminal has colours.

    It may keep compiled modules: an installed program has them.
    """
    own = {
        "PYTHONPATH": str(ROOT),
        "MCPDESK_STATE_DIR": str(state),
        "MCPDESK_CONFIG_DIR": str(state),
        "MCPDESK_OPERATOR_KEY": OPERATOR_KEY,
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
    }
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, **own}


def free_port() -> int:
    """Return a port without a listener."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port


@contextmanager
def running(command: Sequence[str], state: Path) -> Iterator[Serving]:
    """Run a process that listens on the port appended to `command`.

    Raises: RuntimeError if it does not start to listen.
    """
    port = free_port()
    with ExitStack() as stack:
        log = stack.enter_context((state / f"{port}.log").open("wb"))
        child = subprocess.Popen(
            [*command, str(port)], env=environment(state), stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        stack.callback(_end, child)
        try:
            await_listener(port, child, LOOK_S).close()
        except RuntimeError as error:
            error.add_note(Path(log.name).read_text(errors="replace")[-3000:])
            raise
        yield Serving(port, child.pid)


def await_listener(port: int, child: subprocess.Popen[bytes], every_s: float) -> socket.socket:
    """Connect to a port as soon as it has a listener.

    Raises: RuntimeError if it gets none.
    """
    end = time.monotonic() + START_S
    while time.monotonic() < end and child.poll() is None:
        probe = socket.socket()
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            return probe
        probe.close()
        time.sleep(every_s)
    raise RuntimeError(f"{child.args!r} did not listen on port {port}")


@contextmanager
def serving(folder: Path) -> Iterator[Serving]:
    """`mcpdesk serve` on a folder."""
    with running([*MCPDESK, "serve", str(folder), "--port"], folder.parent) as place:
        yield place


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(5)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
