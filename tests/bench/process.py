"""Starts mcpdesk and its peers, each in a process and with a state folder of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import psutil

ROOT = Path(__file__).parents[2]
PEERS = Path(__file__).parent / "peers"
MCPDESK = (sys.executable, "-c", "from mcpdesk.__main__ import main; main()")
"""What the installed `mcpdesk` does."""
SDK = (sys.executable, str(PEERS / "sdk.py"))
FRAME = (sys.executable, str(PEERS / "frame.py"))
WINDOW = (sys.executable, str(PEERS / "window.py"))
START_S = 20.0
_ECHO = '''
async def {name}(text: str) -> str:
    """Say it again."""
    return text
'''


class Serving(NamedTuple):
    """A process that serves HTTP."""

    port: int
    pid: int

    def cpu_s(self) -> float:
        """Seconds of CPU it has used."""
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)


def environment(state: Path) -> dict[str, str]:
    """For a child: our package can be imported, what it keeps goes to `state`, the terminal has colours.

    It may keep compiled modules: an installed program has them.
    """
    own = {
        "PYTHONPATH": str(ROOT),
        "MCPDESK_STATE_DIR": str(state),
        "MCPDESK_CONFIG_DIR": str(state),
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
    }
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, **own}


@contextmanager
def echo_folder(*names: str) -> Iterator[Path]:
    """A server folder `echo` with one echoing tool of each name, and room for state beside it."""
    with TemporaryDirectory(prefix="mcpdesk-bench-") as place:
        folder = Path(place) / "echo"
        (folder / "tools").mkdir(parents=True)
        for name in names or ("echo",):
            (folder / "tools" / f"{name}.py").write_text(_ECHO.format(name=name))
        yield folder


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port


@contextmanager
def running(command: Sequence[str], state: Path, port: int) -> Iterator[Serving]:
    """A process that listens on `port`, ready for the block.

    Raises: RuntimeError when it does not come up.
    """
    with ExitStack() as stack:
        log = stack.enter_context((state / f"{port}.log").open("wb"))
        child = subprocess.Popen(
            command, env=environment(state), stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        stack.callback(_end, child)
        _await_listener(port, child)
        yield Serving(port, child.pid)


@contextmanager
def serving(folder: Path) -> Iterator[Serving]:
    """`mcpdesk serve` on a folder."""
    port = free_port()
    with running([*MCPDESK, "serve", str(folder), "--port", str(port)], folder.parent, port) as place:
        yield place


def _await_listener(port: int, child: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end and child.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise RuntimeError(f"{child.args!r} did not listen on port {port}")


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(5)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
