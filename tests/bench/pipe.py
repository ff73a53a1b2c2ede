"""A server on its standard input and output."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.bench.line import Line
from tests.bench.messages import HANDSHAKE, INITIALIZED, initialize
from tests.bench.process import environment

_READ = 1 << 18
_FITS = 1 << 15
"""Bytes that a pipe always accepts."""


class Pipe(Line):
    """A started stdio server."""

    def __init__(self, command: Sequence[str], state: Path) -> None:
        super().__init__()
        self._child = subprocess.Popen(
            command,
            env=environment(state),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._child.stdin and self._child.stdout
        self.pid = self._child.pid
        self._in, self._out = self._child.stdin.fileno(), self._child.stdout.fileno()
        self._early = b""

    def shake_hands(self) -> None:
        """Open the session of the handshake era."""
        self.send(initialize() + b"\n")
        answer = self.take()
        while not answer.endswith(b"\n"):
            answer += self.take()
        if HANDSHAKE.encode() not in answer:
            raise RuntimeError(f"refused: {answer[:300]!r}")
        self.send(INITIALIZED + b"\n")

    def send(self, data: bytes) -> None:
        """Write all of it; keep answers that arrive in between, because an unread server stops reading."""
        if len(data) <= _FITS:
            os.write(self._in, data)
            return
        os.set_blocking(self._in, False)
        left = memoryview(data)
        while left:
            readable, writable, _ = select.select([self._out], [self._in], [])
            if readable:
                self._early += self._read()
            if writable:
                left = left[os.write(self._in, left) :]
        os.set_blocking(self._in, True)

    def take(self) -> bytes:
        """Return the bytes received. Raises: RuntimeError at the end."""
        if self._early:
            early, self._early = self._early, b""
            return early
        return self._read()

    def messages(self, data: bytes) -> int:
        """Return the number of lines that end in `data`."""
        return data.count(b"\n")

    def framed(self, before: bytes, after: bytes) -> tuple[bytes, bytes]:
        """A line."""
        return before, after + b"\n"

    def break_off(self) -> None:
        """Kill the server."""
        self._child.kill()

    def close(self) -> None:
        """End it."""
        self.break_off()
        self._child.communicate()

    def _read(self) -> bytes:
        data = os.read(self._out, _READ)
        if not data:
            raise RuntimeError(f"{self._child.args!r} ended")
        return data
