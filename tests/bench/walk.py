"""Our code that a call runs: `python -m tests.bench.walk` counts it, `--list` names functions and modules.

The walk is from the bytes of a `tools/call` to its handler and back, in a program that was called before.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import mcpdesk
from tests.bench.answer import AnswerReader, session_of
from tests.bench.caller import post
from tests.bench.folder import echo_folder
from tests.bench.messages import FIRST_ID, INITIALIZED, Address, echo, in_session, initialize
from tests.bench.pipe import Pipe
from tests.bench.process import START_S, running

PACKAGE = str(Path(mcpdesk.__file__).parent)
HANDLER = os.path.join("echo", "tools", "echo.py")
WARM = 20
"""Calls before the first that counts: they fill the caches."""
TURNS = 5
"""Number of watched calls. Code that only some of them execute, such as a due timer, does not count."""
LOOK_S = 0.01

Ask = Callable[[], None]
"""Makes one call and waits for its answer."""


class Step(NamedTuple):
    """A function of ours that a call runs."""

    module: str
    function: str


class _Watch:
    """Records the functions that the watched program calls; SIGUSR1 starts and stops it."""

    def __init__(self, told: Path) -> None:
        self._told = told
        self._is_on = False
        self._passed: list[tuple[int, CodeType]] = []

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if self._is_on and event == "call":
            self._passed.append((threading.get_ident(), frame.f_code))

    def turn(self, *_: Any) -> None:
        """Start, or stop and write the recorded functions."""
        self._is_on = not self._is_on
        passed, self._passed = self._passed, []
        self._told.with_suffix(".new").write_text(json.dumps(_of_handlers_thread(passed)))
        self._told.with_suffix(".new").replace(self._told)


def watched(told: str) -> None:
    """Run the mcpdesk of the command line; write the code its calls execute to the file `told`."""
    watch = _Watch(Path(told))
    signal.signal(signal.SIGUSR1, watch.turn)
    threading.setprofile(watch)
    sys.setprofile(watch)
    from mcpdesk.__main__ import main

    main()


def _of_handlers_thread(passed: Sequence[tuple[int, CodeType]]) -> list[Step]:
    """Our functions that the handler's thread called, without comprehensions."""
    thread = next((each for each, code in passed if code.co_filename.endswith(HANDLER)), None)
    return [
        Step(os.path.relpath(code.co_filename, PACKAGE), code.co_qualname)
        for each, code in passed
        if each == thread and code.co_filename.startswith(PACKAGE) and not code.co_name.startswith("<")
    ]


def walk(told: Path, pid: int, ask: Ask) -> list[Step]:
    """Functions that every call runs, in the order of their first call."""
    for _ in range(WARM):
        ask()
    turns = []
    for _ in range(TURNS):
        _turn(told, pid)
        ask()
        turns.append(_turn(told, pid))
    always = set(turns[0]).intersection(*turns[1:])
    return [step for step in dict.fromkeys(turns[0]) if step in always]


def _turn(told: Path, pid: int) -> list[Step]:
    """Have the program start or stop watching; return the steps of the time before."""
    told.unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR1)
    end = time.monotonic() + START_S
    while not told.exists():
        if time.monotonic() > end:
            raise RuntimeError("the watched program wrote no result")
        time.sleep(LOOK_S)
    return [Step(*each) for each in json.loads(told.read_text())]


def command(told: Path) -> tuple[str, ...]:
    """Command that starts a watched mcpdesk."""
    return sys.executable, "-c", f"from tests.bench.walk import watched; watched({str(told)!r})"


def over_stdio(folder: Path) -> list[Step]:
    """One call of the stateless era over stdio, by a program that hosts the folder itself."""
    told = folder.parent / "walk.json"
    with closing(Pipe([*command(told), "stdio", str(folder)], folder.parent)) as pipe:
        before, after = echo().frame("stateless")

        def ask() -> None:
            pipe.send(b"%b%d%b\n" % (before, FIRST_ID, after))
            answer = b""
            while not answer.endswith(b"\n"):
                answer += pipe.take()
            _check(answer)

        return walk(told, pipe.pid, ask)


def over_http(folder: Path, era: str) -> list[Step]:
    """One call over HTTP; in the handshake era it belongs to a session."""
    told = folder.parent / "walk.json"
    with (
        running([*command(told), "serve", str(folder), "--port"], folder.parent) as place,
        socket.create_connection(("127.0.0.1", place.port)) as client,
    ):
        address, session = Address(place.port, "/mcp/echo"), ""
        reader = AnswerReader()

        def exchange(data: bytes) -> bytes:
            client.sendall(data)
            while (whole := reader.feed(client.recv(1 << 16))) is None:
                pass
            return whole

        if era == "handshake":
            session = session_of(exchange(post(address, initialize(), [])))
            exchange(post(address, INITIALIZED, in_session(session)))
        before, after = echo().post(address, era, session)
        return walk(told, place.pid, lambda: _check(exchange(b"%b%d%b" % (before, FIRST_ID, after))))


def _check(answer: bytes) -> None:
    if b"x" * 64 not in answer:
        raise RuntimeError(f"refused: {answer[:300]!r}")


WALKS: dict[str, Callable[[Path], list[Step]]] = {
    "stdio stateless": over_stdio,
    "http stateless": lambda folder: over_http(folder, "stateless"),
    "http handshake": lambda folder: over_http(folder, "handshake"),
}


def main() -> None:
    """Print each walk in one line, or all of its steps."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.walk", description=__doc__)
    parser.add_argument("--list", action="store_true", help="name every function")
    is_whole = parser.parse_args().list
    for name, take in WALKS.items():
        with echo_folder() as folder:
            steps = take(folder)
        print(f"{name}: {len(steps)} functions, {len({step.module for step in steps})} modules", flush=True)
        for step in steps if is_whole else ():
            print(f"  {step.module}: {step.function}")


if __name__ == "__main__":
    main()
