"""Cost of the desk in between: calls through the tap and `/mcp/<name>`, beside direct calls.

Both kinds alternate over open connections, so other load on the machine affects both.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from mcpdesk.paths import sample_servers
from tests.bench.answer import AnswerReader
from tests.bench.cold import starts, usual
from tests.bench.figure import OURS, Effort, Figure, Goal
from tests.bench.messages import FIRST_ID, Address, call
from tests.bench.pipe import Pipe
from tests.bench.process import MCPDESK, environment, memory_mib, running

PYTHON = "python -c pass"
ADDED_MS = Goal(1.0, at_most=True)
START = Goal(3.0, at_most=True)
TURNS = 2_000
WARM = 100
SERVERS = 10
SETTLE_S = 2.0
LINE = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
GREET = call("greet", {"name": "Ada"})


def figures(effort: Effort) -> Iterator[Figure]:
    """Milliseconds added at the median and the 99th percentile; MiB."""
    with TemporaryDirectory() as place:
        state = Path(place)
        yield from _told("tap", [_through_the_tap(state) for _ in range(effort.rounds)])
        commands = {OURS: partial(_first_line, state), PYTHON: partial(_bare_python, state)}
        samples = effort.interleaved({name: partial(usual, start) for name, start in commands.items()})
        yield from starts("start tap", samples, {PYTHON: START})
        serve = [*MCPDESK, "serve", "--no-auth", "--trust"]
        with running([*serve, str(sample_servers() / "hello"), "--port"], state) as there:
            names = [f"far{number}" for number in range(SERVERS)]
            url = f"http://127.0.0.1:{there.port}/mcp/hello"
            file = state / "servers.json"
            file.write_text(json.dumps({"mcpServers": {name: {"url": url} for name in names}}))
            with running([*serve, str(file), "--port"], state) as here:
                places = (Address(there.port, "/mcp/hello"), Address(here.port, "/mcp/far0"))
                yield from _told("through /mcp/<name>", [_over_http(*places) for _ in range(effort.rounds)])
                time.sleep(SETTLE_S)
                yield Figure(f"memory with {SERVERS} servers elsewhere", "MiB", [memory_mib(here.pid)])


def _told(name: str, rounds: Sequence[tuple[list[float], list[float]]]) -> Iterator[Figure]:
    """Difference of both ways at the median and at the slow end."""
    for share in (50, 99):
        added = [_at(share, through) - _at(share, direct) for direct, through in rounds]
        yield Figure(f"{name}, added p{share}", "ms", added, goal=ADDED_MS)


def _at(share: int, samples: list[float]) -> float:
    return sorted(samples)[len(samples) * share // 100]


def _by_turns(ask: Callable[[], None], ask_through: Callable[[], None]) -> tuple[list[float], list[float]]:
    """Milliseconds of every request on each way."""
    both: tuple[list[float], list[float]] = ([], [])
    for turn in range(WARM + TURNS):
        for samples, one in zip(both, (ask, ask_through), strict=True):
            began = time.perf_counter()
            one()
            if turn >= WARM:
                samples.append(1000 * (time.perf_counter() - began))
    return both


def _through_the_tap(state: Path) -> tuple[list[float], list[float]]:
    with closing(Pipe(["cat"], state)) as direct, closing(Pipe(_tap(), state)) as through:
        return _by_turns(partial(_echo, direct), partial(_echo, through))


def _tap() -> list[str]:
    return [*MCPDESK, "stdio", "--", "cat"]


def _echo(pipe: Pipe) -> None:
    pipe.send(LINE)
    while not pipe.take().endswith(b"\n"):
        pass


def _first_line(state: Path) -> float:
    """Milliseconds from the start to the first line back; then the tap and its capture writer end."""
    began = time.perf_counter()
    ends = subprocess.PIPE
    with subprocess.Popen(_tap(), stdin=ends, stdout=ends, env=environment(state), bufsize=0) as tap:
        assert tap.stdin is not None and tap.stdout is not None
        tap.stdin.write(LINE)
        tap.stdout.read(len(LINE))
        took = 1000 * (time.perf_counter() - began)
        tap.communicate()
    return took


def _bare_python(state: Path) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], env=environment(state), check=True)
    return 1000 * (time.perf_counter() - began)


def _over_http(direct: Address, through: Address) -> tuple[list[float], list[float]]:
    with (
        socket.create_connection(("127.0.0.1", direct.port)) as one,
        socket.create_connection(("127.0.0.1", through.port)) as other,
    ):
        return _by_turns(partial(_greet, one, direct), partial(_greet, other, through))


def _greet(connection: socket.socket, place: Address) -> None:
    before, after = GREET.post(place, "stateless")
    connection.sendall(b"%b%d%b" % (before, FIRST_ID, after))
    reader, answer = AnswerReader(), None
    while answer is None:
        answer = reader.feed(connection.recv(1 << 16))
    if b"Ada" not in answer:
        raise RuntimeError(f"refused: {answer[:300]!r}")
