"""A connection with any number of concurrent calls, used with as little code as possible."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from threading import Timer

from tests.bench.measured import Measured
from tests.bench.messages import FIRST_ID, Ask
from tests.bench.process import cpu_s

STUCK_S = 30.0


class Line(ABC):
    """Base of pipes and sockets: a plain loop that sends one call for each answer."""

    pid: int
    """Process id of the server."""

    def __init__(self) -> None:
        self._sent = 0

    @abstractmethod
    def send(self, data: bytes) -> None:
        """Write it all."""

    @abstractmethod
    def take(self) -> bytes:
        """Return the bytes received, at least one. Raises: RuntimeError at the end."""

    @abstractmethod
    def messages(self, data: bytes) -> int:
        """Return the number of messages that end in `data`."""

    @abstractmethod
    def framed(self, before: bytes, after: bytes) -> tuple[bytes, bytes]:
        """Return both parts of a message, with the framing of the transport."""

    @abstractmethod
    def break_off(self) -> None:
        """End the wait of `take`: it raises at the end of the stream."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection and end the server."""

    def ask(self, ask: Ask, era: str, events: int = 0) -> bytes:
        """Send one request; returns all that came until its answer. `events` come before that.

        Raises: RuntimeError when it was refused.
        """
        before, after = self.framed(*ask.frame(era))
        self._send_calls(before, after, 1)
        waiting, pieces = 1 + events, []
        while waiting > 0:
            pieces.append(self.take())
            waiting -= self.messages(pieces[-1])
        answer = b"".join(pieces)
        if b'"result":' not in answer:
            raise RuntimeError(f"refused: {answer[:300]!r}")
        return answer

    def load(self, ask: Ask, era: str, seconds: float, in_flight: int, events: int = 0) -> Measured:
        """Answers a second with `in_flight` concurrent calls; with `events`, events a second."""
        stuck = Timer(seconds + STUCK_S, self.break_off)
        stuck.daemon = True
        stuck.start()
        try:
            return self._load(ask, era, seconds, in_flight, events)
        finally:
            stuck.cancel()

    def _load(self, ask: Ask, era: str, seconds: float, in_flight: int, events: int) -> Measured:
        before, after = self.framed(*ask.frame(era))
        used, busy = cpu_s(self.pid), time.process_time()
        began = last = time.perf_counter()
        self._send_calls(before, after, in_flight)
        end, answered, late, waiting, pending = began + seconds, 0, 0, in_flight, 0
        while waiting:
            data = self.take()
            if b'"error":' in data or b'"isError":true' in data:
                raise RuntimeError(f"refused: {data[:300]!r}")
            came, pending = divmod(pending + self.messages(data), 1 + events)
            if not came:
                continue
            waiting -= came
            now = time.perf_counter()
            if now < end or not answered:
                answered, last = answered + came, now
            else:
                late += came
            if now < end:
                self._send_calls(before, after, came)
                waiting += came
        wall = time.perf_counter() - began
        used, busy = cpu_s(self.pid) - used, time.process_time() - busy
        each = events or 1
        return Measured(
            rate=each * answered / (last - began),
            cpu_us=1e6 * used / (each * (answered + late)),
            load_busy=busy / wall,
            server_busy=used / wall,
        )

    def _send_calls(self, before: bytes, after: bytes, count: int) -> None:
        numbers = range(FIRST_ID + self._sent, FIRST_ID + self._sent + count)
        self._sent += count
        self.send(b"".join([b"%b%d%b" % (before, number, after) for number in numbers]))
