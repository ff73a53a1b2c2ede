"""A real Valkey or Redis server for tests, on a Unix socket or a port of this machine."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.patience import WITHIN_S
from tests.support.ports import free_port

PROGRAM = shutil.which("valkey-server") or shutil.which("redis-server") or ""
NONE_HERE = "neither valkey-server nor redis-server is installed: what is shared by replicas was not tested"
needs_engine = pytest.mark.skipif(not PROGRAM, reason=NONE_HERE)


class EngineServer:
    """A server without persistence."""

    def __init__(self, options: Sequence[str] = ()) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._place = TemporaryDirectory()
        self._options = options if "--dir" in options else (*options, "--dir", self._place.name)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it, for the first time or after `kill`."""
        line = [PROGRAM, *self._options, "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        self._process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + WITHIN_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, such as SIGSTOP."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill it; its data is lost."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """Stop it and remove its folder."""
        self.kill()
        self._place.cleanup()

    def ask(self, *words: str) -> str:
        """Answer to one command, as text."""
        with socket.create_connection(("127.0.0.1", self.port), WITHIN_S) as connection:
            parts = b"".join(b"$%d\r\n%b\r\n" % (len(word.encode()), word.encode()) for word in words)
            connection.sendall(b"*%d\r\n%b" % (len(words), parts))
            return connection.recv(1 << 16).decode("utf-8", "replace")


@contextmanager
def engine_server(options: Sequence[str] = ()) -> Iterator[EngineServer]:
    """Run a server during the block."""
    server = EngineServer(options)
    try:
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def shared_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    """One server for all tests of a process; each test uses a different deployment name."""
    del tmp_path_factory
    if not PROGRAM:
        pytest.skip(NONE_HERE)
    with engine_server() as server:
        yield server


def deployment(path: Path) -> str:
    """Deployment name of a test, from its folder."""
    return f"test-{path.parent.name}-{path.name}"
