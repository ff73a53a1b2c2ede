"""A core behind one client's pipes, spoken to by hand and by the official SDK."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcpdesk.transports import rendezvous
from tests.support.patience import WITHIN_S
from tests.support.stdio_server import PROGRAM, Server, noisy_folder

if TYPE_CHECKING:
    from tests.cli.conftest import Service


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A server folder whose tools write to stdout and stderr."""
    return noisy_folder(tmp_path / "served")


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    """Collect started servers; end them after the test."""
    started: list[Server] = []
    yield started
    for server in started:
        server.close()


@pytest.mark.process
def test_stray_output_becomes_log_lines_with_their_place(folder: Path, servers: list[Server]) -> None:
    server = Server(folder)
    servers.append(server)
    assert server.shake_hands()["serverInfo"]["name"] == "noisy"
    answer = server.ask("tools/call", {"name": "noisy", "arguments": {"text": "hello"}}, 2)
    assert answer["result"]["content"][0]["text"] == "hello"
    code, out, err = server.end()
    assert (code, out) == (0, b"")
    told = err.decode()
    assert "print: imported (tools/noisy.py:7)" in told
    assert "print: stray hello (tools/noisy.py:16)" in told
    assert "stdout: raw hello" in told
    assert "stdout: child hello" in told


@pytest.mark.process
def test_second_client_has_a_core_of_its_own(folder: Path, servers: list[Server]) -> None:
    for _ in range(2):
        servers.append(Server(folder))
        servers[-1].shake_hands()
        servers[-1].ask("ping", {}, 3)  # by the second answer the first one would be found
    first, second = (
        server.ask("tools/call", {"name": "who", "arguments": {}}, 2)["result"] for server in servers
    )
    assert first != second
    assert not os.path.exists(rendezvous.folder_socket(folder))
    assert [server.end()[0] for server in servers] == [0, 0]


@pytest.mark.process
def test_place_where_it_hears_of_desks_is_gone_after_the_end(folder: Path, servers: list[Server]) -> None:
    server = Server(folder)
    servers.append(server)
    server.shake_hands()
    start = os.path.basename(rendezvous.folder_socket(folder)).removesuffix("sock")

    def places() -> list[str]:
        return sorted(name for name in os.listdir(rendezvous.runtime_folder()) if name.startswith(start))

    number = 2
    while len(places()) < 2:  # they are opened after the first answer
        number += 1
        server.ask("ping", {}, number)
    assert places() == [f"{start}{server.process.pid}.{kind}" for kind in ("lone", "state")]
    assert server.end()[0] == 0
    assert places() == []


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signal_ends_it_with_zero(folder: Path, servers: list[Server], number: int) -> None:
    server = Server(folder)
    servers.append(server)
    server.shake_hands()
    server.process.send_signal(number)
    assert server.process.wait(WITHIN_S) == 0


@pytest.mark.process
def test_last_request_before_the_end_of_input_is_answered(folder: Path) -> None:
    request = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    answer = subprocess.run(
        [*PROGRAM, "stdio", str(folder)], input=request, capture_output=True, timeout=WITHIN_S
    )
    assert answer.returncode == 0
    assert json.loads(answer.stdout) == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.process
def test_no_input_at_all_ends_at_once(folder: Path) -> None:
    answer = subprocess.run(
        [*PROGRAM, "stdio", str(folder)], stdin=subprocess.DEVNULL, capture_output=True, timeout=WITHIN_S
    )
    assert (answer.returncode, answer.stdout) == (0, b"")


@pytest.mark.process
def test_nothing_heavy_is_imported_before_the_first_call(folder: Path) -> None:
    code = PROGRAM[2].replace("main()", "")  # the same start, with a look at the modules at the end
    code += (
        "import atexit, gc; atexit.register(lambda: print(*sys.modules, gc.isenabled(), file=sys.stderr)); "
    )
    code += "sys.exit(main())"
    answer = subprocess.run(
        [sys.executable, "-c", code, "stdio", str(folder), "--alone"],
        input=b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n', capture_output=True, timeout=WITHIN_S,
    )  # fmt: skip
    modules = set(answer.stderr.decode().split())
    assert "mcpdesk.hosting.host" in modules and "True" in modules
    assert not modules & {"textual", "aiohttp", "jsonschema_rs", "PIL", "jwt", "rich", "uvloop"}


LOOK_AT_FIRST_WRITE = """
write = os.write
def look(fd, data):
    os.write = write
    with open(os.environ["LOOKED"], "w") as file:
        print(*sys.modules, file=file)
    return write(fd, data)
os.write = look
"""
MAX_MODULES = 148
"""Modules of ours before the first answer. Each costs about 0.2 ms: import rarely used ones in functions."""


@pytest.mark.process
def test_the_first_answer_waits_for_few_modules(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    (folder / "tools").mkdir(parents=True)
    (folder / "tools" / "hello.py").write_text("async def hello(name: str) -> str:\n    return name\n")
    request = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/\
protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}\n'
    code = PROGRAM[2].replace("main()", "") + f"import os; exec({LOOK_AT_FIRST_WRITE!r}); sys.exit(main())"
    answer = subprocess.run(
        [sys.executable, "-c", code, "stdio", str(folder)],
        input=request,
        capture_output=True,
        timeout=WITHIN_S,
        env={**os.environ, "LOOKED": str(tmp_path / "modules")},
    )
    assert b'"tools":[' in answer.stdout
    modules = set((tmp_path / "modules").read_text().split())
    ours = {name for name in modules if name.startswith("mcpdesk.")}
    assert 60 < len(ours) <= MAX_MODULES, sorted(ours)
    assert modules & {"difflib", "secrets", "mimetypes", "sqlite3", "watchfiles", "click"} == set()
    assert not ours & {
        "mcpdesk.recorder.index",
        "mcpdesk.server.asks.question_wording",
        "mcpdesk.transports.unix",
    }


STUCK = """import os
import time


async def stuck() -> None:
    'Block the loop.'
    os.write(2, b"stuck\\n")
    time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.parametrize("by_signal", [True, False])
def test_tool_that_blocks_does_not_keep_it_from_ending(
    folder: Path, servers: list[Server], by_signal: bool
) -> None:
    (folder / "tools" / "stuck.py").write_text(STUCK)
    server = Server(folder)
    servers.append(server)
    server.shake_hands()
    call = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "stuck", "arguments": {}}}
    server.stdin.write(json.dumps(call).encode() + b"\n")
    server.stdin.flush()
    while server.stderr.readline() != b"stuck\n":
        pass
    if by_signal:
        server.process.terminate()
    else:
        server.stdin.close()
    assert server.process.wait(WITHIN_S) == 128 + (signal.SIGTERM if by_signal else signal.SIGHUP)


def refused(*arguments: str) -> str:
    """Return the stderr of a command that refuses to start."""
    answer = subprocess.run(
        [*PROGRAM, "stdio", *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=WITHIN_S
    )
    assert (answer.returncode, answer.stdout) == (2, b"")
    assert b"Traceback" not in answer.stderr
    return answer.stderr.decode()


@pytest.mark.process
def test_what_cannot_be_served_is_told(folder: Path) -> None:
    assert "missing" in refused(str(folder / "missing"))
    assert "no mode 'review'" in refused(str(folder), "--mode", "review")
    (folder / "mcp.json").write_text('{"name": "x",\n  oops}')
    assert "mcp.json:2:3" in refused(str(folder))


@pytest.mark.process
def test_unknown_mode_is_told_by_a_desk_too(folder: Path, serve: Callable[..., Service]) -> None:
    serve(str(folder), "--port", "0").says("serving noisy")
    assert "no mode 'review'" in refused(str(folder), "--mode", "review")
