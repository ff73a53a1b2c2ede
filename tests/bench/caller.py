"""Connections of an HTTP load: one that repeats a request, and one that repeats a whole session."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from typing import Protocol, cast

from tests.bench.answer import AnswerReader, session_of
from tests.bench.messages import FIRST_ID, INITIALIZED, Address, Ask, echo, in_session, initialize

LARGE = 1 << 16
"""Size of a call in bytes above which its parts are sent separately."""


class Counter(Protocol):
    """Load that the callers belong to."""

    sent: int

    def count(self, answer: bytes, began: float) -> bool:
        """Count the answer to a request sent at `began`; True if the connection must send another at once."""

    def fail(self, why: str) -> None:
        """End the load."""


class Caller(asyncio.Protocol):
    """One connection. Sends the next call as soon as the last is answered, unless the load is paced."""

    transport: asyncio.Transport

    def __init__(self, load: Counter, address: Address, era: str, ask: Ask) -> None:
        self._load = load
        self._address, self._era, self._ask = address, era, ask
        self._reader = AnswerReader()
        self._waiting: asyncio.Future[bytes] | None = None
        self.session = ""
        """Id of the session of this connection; "" if it has none."""
        self._before = self._after = b""
        self._is_over = False
        self.began = 0.0
        """Time at which the current call was sent."""
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_busy(self) -> bool:
        """True while a call is in flight."""
        return not self._idle.is_set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's transport does not inherit from it

    def data_received(self, data: bytes) -> None:
        """Pass a whole answer to the waiting caller, or count it."""
        whole = self._reader.feed(data)
        if whole is None:
            return
        if self._waiting is not None:
            self._waiting.set_result(whole)
            self._waiting = None
        else:
            self.answered(whole)

    def answered(self, answer: bytes) -> None:
        """Send the next call, or become idle."""
        if self._load.count(answer, self.began):
            self.call()
        else:
            self._idle.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Record a failure if the server closes the connection."""
        if not self._is_over:
            self._load.fail(f"connection lost: {exc}")

    def call(self) -> None:
        """Send one call."""
        self._idle.clear()
        self._load.sent += 1
        self.began = time.perf_counter()
        if len(self._after) > LARGE:
            self.transport.writelines((self._before, b"%d" % (FIRST_ID + self._load.sent), self._after))
        else:
            self.transport.write(b"%b%d%b" % (self._before, FIRST_ID + self._load.sent, self._after))

    async def prepare(self, session: str = "") -> None:
        """Use a session, or open one if the era has sessions, and build the bytes of the call."""
        self.session = session
        if self._era == "handshake" and not session:
            self.session = session_of(await self._exchange(post(self._address, initialize(), [])))
            await self._exchange(post(self._address, INITIALIZED, in_session(self.session)))
        self._before, self._after = self._ask.post(self._address, self._era, self.session)

    async def leave(self) -> None:
        """End the session after the current call."""
        await self._idle.wait()
        if self.session:
            await self._exchange(self._address.head("DELETE", 0, in_session(self.session)))

    def disconnect(self) -> None:
        """Close the connection."""
        self._is_over = True
        self.transport.abort()

    async def _exchange(self, data: bytes) -> bytes:
        self._waiting = asyncio.get_running_loop().create_future()
        self.transport.write(data)
        return await self._waiting


class Cycler(Caller):
    """One connection that opens a session, calls once, ends the session, and counts that as one call."""

    _steps: Generator[bytes, bytes, bytes]

    async def prepare(self, session: str = "") -> None:
        """Do nothing: each call has a new session."""

    def call(self) -> None:
        """Begin a session."""
        self._idle.clear()
        self._load.sent += 1
        self.began = time.perf_counter()
        self._steps = _session(self._address)
        self.transport.write(next(self._steps))

    def answered(self, answer: bytes) -> None:
        """Take the next step of the session; count it when it is over."""
        try:
            self.transport.write(self._steps.send(answer))
        except StopIteration as end:
            super().answered(end.value)


def _session(address: Address) -> Generator[bytes, bytes, bytes]:
    """The requests of a session, each sent when the last is answered; returns the call's answer."""
    session = session_of((yield post(address, initialize(), [])))
    headers = in_session(session)
    yield post(address, INITIALIZED, headers)
    before, after = echo().post(address, "handshake", session)
    answer = yield b"%b%d%b" % (before, FIRST_ID, after)
    yield address.head("DELETE", 0, headers)
    return answer


def post(address: Address, body: bytes, headers: list[str]) -> bytes:
    """Bytes of a POST request."""
    return address.head("POST", len(body), headers) + body
