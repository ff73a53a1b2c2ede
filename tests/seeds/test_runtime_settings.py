"""Host, port, socket, limits and switches of the runtime, by every name they have, on real processes."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeAlias

import pytest

from tests.cli.conftest import ROOT, Service
from tests.seeds.test_runtime import address, calling, rpc
from tests.support.curl import JSON, fetch
from tests.support.features import having
from tests.support.folders import write
from tests.support.patience import WITHIN_S
from tests.support.ports import free_port
from tests.support.stdio_server import Server

BOTH = JSON | {"Accept": "application/json, text/event-stream"}
TOOLS = '''
    """Tools that take their time, report, and ask a model."""

    import asyncio

    from mcpdesk import Context


    async def slow() -> str:
        """Slower than it may be."""
        await asyncio.sleep(60)
        return "never"


    async def report(ctx: Context) -> str:
        """Report progress."""
        await ctx.progress(1, 2)
        return "done"


    async def think(ctx: Context) -> str:
        """Ask the client's model."""
        return (await ctx.sample("What is it?")).text
    '''
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
Start: TypeAlias = Callable[..., Service]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The server `small`."""
    return write(tmp_path / "small", {"mcp.json": '{"name": "small"}', "tools/tools.py": TOOLS})


@pytest.fixture
def start(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Serve the folder with variables of the environment; the command is mcpdesk's, or a wrapper of it."""
    started: list[Service] = []

    def begin(*arguments: str, **environment: str) -> Service:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        started.append(Service(str(folder), *arguments))
        return started[-1]

    yield begin
    for service in started:
        assert service.process.poll() is not None or service.end() == 0
        assert service.process.stderr is not None
        service.process.stderr.close()


@pytest.mark.process
@pytest.mark.parametrize(("host", "port"), [("DZX_HOST", "PORT"), ("MCPDESK_HOST", "MCPDESK_PORT")])
async def test_host_and_port_have_their_names(start: Start, host: str, port: str) -> None:
    number = free_port("127.0.0.2")
    service = start(**{host: "127.0.0.2", port: str(number)})
    assert address(service, "small") == f"http://127.0.0.2:{number}"
    assert (await fetch(f"http://127.0.0.2:{number}/health")).json == {"status": "ok"}


@pytest.mark.process
async def test_the_nearer_name_wins(start: Start) -> None:
    one, other, third = free_port(), free_port(), free_port()
    service = start(PORT=str(one), MCPDESK_PORT=str(other))
    assert address(service, "small").endswith(f":{other}")
    assert service.end() == 0
    service = start("--http", f"127.0.0.1:{third}")
    assert address(service, "small").endswith(f":{third}")


@pytest.mark.process
@pytest.mark.parametrize("name", ["DZX_TOOL_TIMEOUT_MS", "MCPDESK_TOOL_TIMEOUT_MS"])
async def test_tools_have_the_time_the_setting_gives(start: Start, name: str) -> None:
    url = address(start("--port", "0", **{name: "250"}), "small")
    late = (await fetch(f"{url}/mcp/small", calling("slow"))).json["result"]
    assert late["isError"] is True and "limit of 0.25 s" in late["content"][0]["text"]


@pytest.mark.process
@pytest.mark.parametrize("name", ["ZYRA_MCP_MAX_BODY_BYTES", "MCPDESK_MAX_BODY_BYTES"])
async def test_a_body_over_the_limit_is_refused_with_size_and_limit(start: Start, name: str) -> None:
    url = address(start("--port", "0", **{name: "1500"}), "small")
    body = rpc("ping")
    fits = await fetch(f"{url}/mcp/small", body + " " * (1500 - len(body)))
    assert (fits.status, fits.json["result"]) == (200, {})
    chunked = JSON | {"Transfer-Encoding": "chunked"}
    for path, headers in (
        ("/mcp/small", JSON),
        ("/mcp/small", chunked),
        *having("gateway", ("/v1/mcp", JSON)),
    ):
        refused = await fetch(url + path, body + " " * (1501 - len(body)), headers)
        assert refused.status == 413
        error = refused.json["error"]
        assert error["code"] == -32600 and "1500 bytes (max_body_bytes)" in error["message"]


@pytest.mark.process
@pytest.mark.parametrize("name", ["ZYRA_ENABLE_MCP", "MCPDESK_ENABLE_MCP"])
async def test_a_server_that_is_switched_off_answers_404_and_its_facts_stay(start: Start, name: str) -> None:
    url = address(start("--port", "0", **{name: "false"}), "small")
    for path, method in (
        ("/mcp", "POST"),
        ("/mcp/small", "POST"),
        ("/mcp/small", "GET"),
        ("/mcp/small", "DELETE"),
    ):
        answer = await fetch(url + path, rpc("ping") if method == "POST" else None, JSON, method)
        assert (answer.status, "enable_mcp" in answer.json["error"]) == (404, True)
    for path in ("/mcp/small/sse", "/mcp/small/ws", *having("gateway", "/v1/ws/mcp", "/v1/mcp")):
        assert (await fetch(url + path)).status == 404
    for path in ("/health", "/status", "/metrics"):
        assert (await fetch(url + path)).status == 200


@pytest.mark.process
async def test_without_tools_none_are_offered_counted_or_called(start: Start) -> None:
    url = address(start("--port", "0", TOOLS="false"), "small")
    opened = (await fetch(f"{url}/mcp/small", rpc("initialize", HELLO))).json["result"]
    assert "tools" not in opened["capabilities"] and "prompts" in opened["capabilities"]
    for request in (rpc("tools/list"), calling("report")):
        assert (await fetch(f"{url}/mcp/small", request)).json["error"]["code"] == -32601
    assert (await fetch(f"{url}/status")).json["tools"] == 0


@pytest.mark.process
async def test_without_streaming_answers_are_json(start: Start) -> None:
    url = address(start("--port", "0", STREAMING="false"), "small")
    params = {"name": "report", "arguments": {}, "_meta": {"progressToken": 1}}
    answer = await fetch(f"{url}/mcp/small", rpc("tools/call", params), BOTH)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json["result"]["content"][0]["text"] == "done"


@pytest.mark.process
def test_without_streaming_a_pipe_carries_answers_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the setting the first line would be the progress notification, which `ask` refuses."""
    monkeypatch.setenv("STREAMING", "false")
    server = Server(folder, "--alone")
    try:
        server.shake_hands()
        params = {"name": "report", "arguments": {}, "_meta": {"progressToken": 1}}
        assert server.ask("tools/call", params, 2)["result"]["content"][0]["text"] == "done"
    finally:
        server.close()


@pytest.mark.process
def test_the_model_is_a_hint_where_a_tool_asks_for_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL", "sonnet")
    server = Server(folder, "--alone")
    try:
        hello = HELLO | {"capabilities": {"sampling": {}}}
        server.ask("initialize", hello)
        server.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        call = {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "think", "arguments": {}},
        }
        server.stdin.write(json.dumps(call).encode() + b"\n")
        server.stdin.flush()
        asked = json.loads(server.stdout.readline())
    finally:
        server.close()
    assert asked["method"] == "sampling/createMessage"
    assert asked["params"]["modelPreferences"] == {"hints": [{"name": "sonnet"}]}


@pytest.mark.process
@pytest.mark.parametrize("name", ["ZYRA_API_KEY", "MCPDESK_API_KEY"])
async def test_the_key_and_its_header_have_their_names(start: Start, name: str) -> None:
    url = address(start("--port", "0", API_KEY_HEADER="X-Zyra", **{name: "open"}), "small")
    assert (await fetch(f"{url}/mcp/small", rpc("ping"))).status == 403
    assert (await fetch(f"{url}/mcp/small", rpc("ping"), JSON | {"X-Zyra": "open"})).status == 200
    assert (await fetch(f"{url}/status")).json["token_required"] is True


@pytest.mark.process
async def test_the_folder_has_a_file_for_them(start: Start, folder: Path) -> None:
    (folder / "mcpdesk-env.txt").write_text("# ours\nDZX_TOOL_TIMEOUT_MS=150\nTOOLS=true\n")
    url = address(start("--port", "0"), "small")
    late = (await fetch(f"{url}/mcp/small", calling("slow"))).json["result"]
    assert "limit of 0.15 s" in late["content"][0]["text"]


class Forbidden(Service):
    """A service whose process must not open TCP sockets."""

    def __init__(self, *arguments: str) -> None:
        self.lines = []
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("forbidding.py")), "serve", *arguments],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip


def ask_at(path: Path, request: str) -> tuple[int, Any]:
    """POST to a Unix socket; status and body."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(WITHIN_S)
        client.connect(str(path))
        head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        client.sendall(f"{head}Connection: close\r\nContent-Length: {len(request)}\r\n\r\n{request}".encode())
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    head_text, _, body = answer.partition(b"\r\n\r\n")
    return int(head_text.split()[1]), json.loads(body)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["DZX_SOCKET", "MCPDESK_SOCKET", ""])
def test_a_socket_serves_where_tcp_is_not_permitted(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    chosen = tmp_path / "chosen.sock"
    # The place is for all of this user's processes.
    server = f"small-{token_hex(4)}"
    (folder / "mcp.json").write_text(json.dumps({"name": server}))
    if name:
        monkeypatch.setenv(name, str(chosen))
    service = Forbidden(str(folder))
    try:
        told = service.says("serving HTTP on the Unix socket")
        assert "listening on 127.0.0.1:3333 is not permitted" in told
        where = Path(told.rpartition(" ")[2])
        assert where == chosen if name else where.name == f"http-{server}.sock"
        assert f"unix:{where}" in service.says(f"serving {server} at")
        assert stat.S_IMODE(where.stat().st_mode) == 0o600
        assert ask_at(where, rpc("ping"))[1]["result"] == {}
        assert service.end() == 0
        assert not where.exists()
    finally:
        service.process.kill()
        service.process.wait()
        assert service.process.stderr is not None
        service.process.stderr.close()


@pytest.mark.slow
async def test_a_socket_is_not_used_where_tcp_is_permitted(start: Start, tmp_path: Path) -> None:
    service = start("--port", "0", DZX_SOCKET=str(tmp_path / "unused.sock"))
    assert address(service, "small").startswith("http://127.0.0.1:")
    assert not (tmp_path / "unused.sock").exists()
