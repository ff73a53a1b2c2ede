"""From process start to the first answered `tools/list`, over stdio and over HTTP."""

from __future__ import annotations

import resource
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.bench.answer import AnswerReader
from tests.bench.contender import Contender, contenders
from tests.bench.figure import FRAME, SDK, TYPESCRIPT, Effort, Figure, Goal, beside, values
from tests.bench.messages import FIRST_ID, LIST, Address
from tests.bench.pipe import Pipe
from tests.bench.process import await_listener, environment, free_port

OVER_STDIO = {
    FRAME: Goal(1 / 0.7, at_most=True),
    SDK: Goal(1 / 5.5, at_most=True),
    TYPESCRIPT: Goal(1 / 2, at_most=True),
}
OVER_HTTP = {
    FRAME: Goal(1 / 0.85, at_most=True),
    SDK: Goal(1 / 2.4, at_most=True),
    TYPESCRIPT: Goal(1 / 0.8, at_most=True),
}
STARTS = 5
"""Starts of every contender in a round, of which the median counts."""
LOOK_S = 0.001


class Start(NamedTuple):
    """One start."""

    took_ms: float
    cpu_ms: float


def figures(effort: Effort) -> Iterator[Figure]:
    """Milliseconds."""
    with contenders(effort) as known:
        for name, start, goals in (
            ("cold stdio", _over_stdio, OVER_STDIO),
            ("cold http", _over_http, OVER_HTTP),
        ):
            samples = effort.interleaved({one.name: partial(usual, partial(start, one)) for one in known})
            yield from starts(name, samples, goals)


def starts(name: str, samples: Mapping[str, Sequence[Start]], goals: Mapping[str, Goal]) -> Iterator[Figure]:
    """Time and CPU time beside every peer."""
    yield from beside(name, "ms", values("took_ms", samples), goals)
    yield from beside(f"{name}, CPU", "ms", values("cpu_ms", samples))


def usual(start: Callable[[], float]) -> Start:
    """Medians of some starts that return their milliseconds and leave no process behind."""
    each = []
    for _ in range(STARTS):
        used = _children_cpu_ms()
        each.append(Start(start(), _children_cpu_ms() - used))
    return Start(median(one.took_ms for one in each), median(one.cpu_ms for one in each))


def until_listed(command: Sequence[str], state: Path) -> float:
    """Milliseconds from the start of a stdio server to its answer."""
    began = time.perf_counter()
    with closing(Pipe(command, state)) as pipe:
        pipe.ask(LIST, "stateless")
        return 1000 * (time.perf_counter() - began)


def _children_cpu_ms() -> float:
    """CPU time of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (used.ru_utime + used.ru_stime)


def _over_stdio(one: Contender) -> float:
    return until_listed(one.stdio, one.state)


def _over_http(one: Contender) -> float:
    """Milliseconds from the start, for a client that retries every millisecond."""
    port = free_port()
    before, after = LIST.post(Address(port, one.path), "stateless")
    began = time.perf_counter()
    child = subprocess.Popen(
        [*one.http, str(port)],
        env=environment(one.state),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with await_listener(port, child, LOOK_S) as client:
            client.sendall(b"%b%d%b" % (before, FIRST_ID, after))
            answer = _read(client)
            took = 1000 * (time.perf_counter() - began)
    finally:
        child.kill()
        child.wait()
    if b'"tools":' not in answer:
        raise RuntimeError(f"{one.name} refused: {answer[:300]!r}")
    return took


def _read(client: socket.socket) -> bytes:
    reader = AnswerReader()
    while data := client.recv(1 << 16):
        if (whole := reader.feed(data)) is not None:
            return whole
    raise RuntimeError("the server hung up")
