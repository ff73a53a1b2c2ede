"""`mcpdesk stdio FOLDER` as clients start it: by themselves, and by the official SDK."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp
import pytest
from mcp.client.stdio import StdioServerParameters

from mcpdesk.transports import rendezvous

WAIT_S = 10.0
ROOT = str(Path(__file__).parents[2])
PROGRAM = [
    sys.executable,
    "-c",
    f"import sys; sys.path.insert(0, {ROOT!r}); from mcpdesk.__main__ import main; main()",
]

NOISY = '''"""A tool that talks too much."""

import os
import subprocess
import sys

print("imported")


async def noisy(text: str) -> str:
    """Say something everywhere.

    Args:
        text: What to say.
    """
    print("stray", text)
    os.write(1, b"raw " + text.encode() + b"\\n")
    subprocess.run(["echo", "child", text])
    sys.stdin.read()
    return text


async def who() -> int:
    """The process that answers."""
    return os.getpid()
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A server folder whose tools write where they should not."""
    (tmp_path / "served" / "tools").mkdir(parents=True)
    (tmp_path / "served" / "tools" / "noisy.py").write_text(NOISY)
    (tmp_path / "served" / "mcp.json").write_text('{"name": "noisy", "version": "1.2.3"}')
    return tmp_path / "served"


class Server:
    """A started `mcpdesk stdio`, spoken to by hand."""

    def __init__(self, folder: Path | str, *options: str) -> None:
        self.process = subprocess.Popen(
            [*PROGRAM, "stdio", str(folder), *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/",
        )  # fmt: skip
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self.stdin, self.stdout, self.stderr = self.process.stdin, self.process.stdout, self.process.stderr

    def ask(self, method: str, params: dict[str, Any], number: int = 1) -> dict[str, Any]:
        """One request and its answer."""
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self.stdin.write(json.dumps(request).encode() + b"\n")
        self.stdin.flush()
        answer: dict[str, Any] = json.loads(self.stdout.readline())
        assert answer["id"] == number
        return answer

    def shake_hands(self) -> dict[str, Any]:
        """The handshake; returns the result of `initialize`."""
        client = {"name": "tester", "version": "1"}
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        result: dict[str, Any] = self.ask("initialize", params)["result"]
        self.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        return result

    def end(self) -> tuple[int, bytes, bytes]:
        """Close its stdin and wait; returns exit code and the rest of stdout and stderr."""
        out, err = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, out, err


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    """Those started are ended."""
    started: list[Server] = []
    yield started
    for server in started:
        server.process.kill()
        server.process.communicate()


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


def test_second_client_is_served_by_the_core_of_the_first(folder: Path, servers: list[Server]) -> None:
    first = Server(folder)
    servers.append(first)
    first.shake_hands()
    second = Server(folder)
    servers.append(second)
    second.shake_hands()
    pids = [
        server.ask("tools/call", {"name": "who", "arguments": {}}, 2)["result"] for server in (first, second)
    ]
    assert pids[0] == pids[1]
    assert second.end()[0] == 0
    assert first.end()[0] == 0


def test_alone_means_a_core_of_its_own(folder: Path, servers: list[Server]) -> None:
    results = []
    for _ in range(2):
        server = Server(folder, "--alone")
        servers.append(server)
        server.shake_hands()
        results.append(server.ask("tools/call", {"name": "who", "arguments": {}}, 2)["result"])
    assert results[0] != results[1]


def test_meeting_point_is_gone_after_the_end(folder: Path, servers: list[Server]) -> None:
    server = Server(folder)
    servers.append(server)
    server.shake_hands()
    assert os.path.exists(rendezvous.meeting_point(folder))
    assert server.end()[0] == 0
    assert not os.path.exists(rendezvous.meeting_point(folder))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signal_ends_it_with_zero(folder: Path, servers: list[Server], number: int) -> None:
    server = Server(folder)
    servers.append(server)
    server.shake_hands()
    server.process.send_signal(number)
    assert server.process.wait(WAIT_S) == 0


def test_last_request_before_the_end_of_input_is_answered(folder: Path) -> None:
    request = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    answer = subprocess.run(
        [*PROGRAM, "stdio", str(folder)], input=request, capture_output=True, timeout=WAIT_S
    )
    assert answer.returncode == 0
    assert json.loads(answer.stdout) == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_no_input_at_all_ends_at_once(folder: Path) -> None:
    answer = subprocess.run(
        [*PROGRAM, "stdio", str(folder)], stdin=subprocess.DEVNULL, capture_output=True, timeout=WAIT_S
    )
    assert (answer.returncode, answer.stdout) == (0, b"")


def refused(*arguments: str) -> str:
    """What it says on stderr when it refuses to start."""
    answer = subprocess.run(
        [*PROGRAM, "stdio", *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=WAIT_S
    )
    assert (answer.returncode, answer.stdout) == (2, b"")
    assert b"Traceback" not in answer.stderr
    return answer.stderr.decode()


def test_missing_folder_is_told(tmp_path: Path) -> None:
    assert "missing" in refused(str(tmp_path / "missing"))


def test_bad_manifest_is_told_with_its_line(folder: Path) -> None:
    (folder / "mcp.json").write_text('{"name": "x",\n  oops}')
    assert "mcp.json:2:3" in refused(str(folder))


def test_unknown_mode_is_told(folder: Path) -> None:
    assert "no mode 'review'" in refused(str(folder), "--mode", "review")


def test_unknown_mode_is_told_by_a_desk_too(folder: Path, servers: list[Server]) -> None:
    server = Server(folder)
    servers.append(server)
    server.shake_hands()
    assert "no mode 'review'" in refused(str(folder), "--mode", "review")


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_official_client_is_served_in_both_eras(folder: Path, mode: str) -> None:
    parameters = StdioServerParameters(command=PROGRAM[0], args=[*PROGRAM[1:], "stdio", str(folder)], cwd="/")
    async with mcp.Client(parameters, mode=mode) as client:
        tools = await client.list_tools()
        assert {tool.name for tool in tools.tools} == {"noisy", "who"}
        result = await client.call_tool("noisy", {"text": "ada"})
        assert not result.is_error
        assert [block.text for block in result.content] == ["ada"]


def test_nothing_heavy_is_imported_before_the_first_call(folder: Path) -> None:
    code = PROGRAM[2].replace("main()", "")  # the same start, with a look at the modules at the end
    code += "import atexit; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); sys.exit(main())"
    answer = subprocess.run(
        [sys.executable, "-c", code, "stdio", str(folder), "--alone"],
        input=b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n', capture_output=True, timeout=WAIT_S,
    )  # fmt: skip
    modules = set(answer.stderr.decode().split())
    assert "mcpdesk.hosting.host" in modules
    assert not modules & {"textual", "aiohttp", "jsonschema_rs", "PIL", "jwt", "rich", "uvloop"}
