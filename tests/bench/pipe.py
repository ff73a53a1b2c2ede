"""A server on its standard input and output, spoken to with as little as a client can do."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench.messages import FIRST_ID, INITIALIZED, call, initialize, request
from tests.bench.process import environment

_READ = 1 << 18


class Pipe:
    """A started stdio server."""

    def __init__(self, command: Sequence[str], state: Path) -> None:
        self._child = subprocess.Popen(
            command,
            env=environment(state),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._child.stdin and self._child.stdout
        self._in, self._out = self._child.stdin.fileno(), self._child.stdout.fileno()
        self._sent = 0

    def list_tools(self) -> bytes:
        """One `tools/list` of the stateless era, answered."""
        before, after = request("tools/list", {}, "stateless")
        return self._ask(before + b"1" + after + b"\n")

    def shake_hands(self) -> None:
        """Open the session of the handshake era."""
        self._ask(initialize() + b"\n")
        os.write(self._in, INITIALIZED + b"\n")

    def round_trips(self, era: str, seconds: float, in_flight: int) -> float:
        """Calls answered a second, `in_flight` of them on the way at any time."""
        before, after = call(era)
        after += b"\n"
        self._send(before, after, in_flight)
        began = time.perf_counter()
        end, answered, waiting = began + seconds, 0, in_flight
        while waiting:
            came = self._take().count(b"\n")
            waiting -= came
            if time.perf_counter() < end:
                answered += came
                self._send(before, after, came)
                waiting += came
        return answered / seconds

    def close(self) -> None:
        """End it."""
        self._child.kill()
        self._child.communicate()

    def _send(self, before: bytes, after: bytes, count: int) -> None:
        numbers = range(FIRST_ID + self._sent, FIRST_ID + self._sent + count)
        self._sent += count
        data = memoryview(b"".join([b"%b%d%b" % (before, number, after) for number in numbers]))
        while data:
            data = data[os.write(self._in, data) :]

    def _ask(self, line: bytes) -> bytes:
        os.write(self._in, line)
        answer = self._take()
        while not answer.endswith(b"\n"):
            answer += self._take()
        if b'"result"' not in answer:
            raise RuntimeError(f"refused: {answer[:300]!r}")
        return answer

    def _take(self) -> bytes:
        data = os.read(self._out, _READ)
        if not data:
            raise RuntimeError(f"{self._child.args!r} ended")
        return data
