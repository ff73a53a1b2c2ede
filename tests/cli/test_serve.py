"""`mcpdesk serve`: a core without a screen."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError

import aiohttp
import msgspec
import pytest

from mcpdesk.cli.serve import _drain
from mcpdesk.hosting.host import Host
from mcpdesk.hosting.host_plan import plan_for
from tests.support.folders import write
from tests.support.http_client import http_client
from tests.support.messages import call
from tests.support.patience import WITHIN_S, until, wait_until, within

if TYPE_CHECKING:
    from tests.cli.conftest import Run, Service

    Serve = Callable[..., Service]
    from tests.cli.conftest import Service

STUBBORN = '''
import asyncio
import time

from mcpdesk import tool

kept = []


async def go_on() -> None:
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass


@tool
async def leave() -> str:
    """Leave a task and a thread behind that do not end."""
    kept.append(asyncio.create_task(go_on()))
    kept.append(asyncio.create_task(asyncio.to_thread(time.sleep, 60)))
    return "left"
'''


BREW = '''
import asyncio
from pathlib import Path

from mcpdesk import tool


@tool(task="optional")
async def brew() -> str:
    """Brew tea when the water boils."""
    kitchen = Path(__file__).parents[1]
    print("waiting")
    while not (kitchen / "boils").exists():
        await asyncio.sleep(0.01)
    (kitchen / "tea").write_text("ready")
    return "brewed"
'''


def listening(url: str) -> urllib.request.Request:
    """A request of the stateless era whose answer is an endless stream."""
    method, version, prefix = "subscriptions/listen", "2026-07-28", "io.modelcontextprotocol/"
    meta = {f"{prefix}protocolVersion": version, f"{prefix}clientCapabilities": {}}
    params = {"notifications": {"toolsListChanged": True}, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": version,
        "Mcp-Method": method,
    }
    return urllib.request.Request(url, body, headers)


def address(service: Service) -> str:
    return service.says("serving small at").rpartition(" ")[2]


def exchange(url: str, method: str, params: dict[str, Any], session: str = "") -> tuple[dict[str, Any], str]:
    """The answer to a request, and the session it belongs to, if any."""
    number = {} if method.startswith("notifications/") else {"id": 1}
    body = json.dumps({"jsonrpc": "2.0", **number, "method": method, "params": params}).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if session:
        headers |= {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=WITHIN_S) as answer:
        result: dict[str, Any] = json.loads(answer.read() or b"{}")
        return result, answer.headers.get("Mcp-Session-Id", "")


def post(url: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
    return exchange(url, method, params)[0]


@pytest.mark.slow
def test_open_stream_and_what_tools_left_running_do_not_delay_the_end(serve: Serve, folder: Path) -> None:
    (folder / "tools" / "stubborn.py").write_text(STUBBORN)
    service = serve(str(folder), "--port", "0", "--drain-timeout-s", "60")
    url = address(service)
    answer = post(url, "tools/call", {"name": "leave"})
    assert answer.get("result") == {"content": [{"type": "text", "text": "left"}], "isError": False}, answer
    with urllib.request.urlopen(listening(url), timeout=WITHIN_S) as stream:
        assert service.end() == 0
        assert b'"resultType":"complete"' in stream.read()


@pytest.mark.process
def test_no_call_begins_once_the_end_was_asked_for_and_clients_are_heard(serve: Serve, folder: Path) -> None:
    (folder / "tools" / "brew.py").write_text(BREW)
    service = serve(str(folder), "--port", "0", "--drain-timeout-s", "60")
    url = address(service)
    answers: list[dict[str, Any]] = []
    call = {"name": "brew", "arguments": {}}
    caller = threading.Thread(target=lambda: answers.append(post(url, "tools/call", call)))
    caller.start()
    service.says("waiting")
    with urllib.request.urlopen(url.replace("/mcp/small", "/ready"), timeout=WITHIN_S) as answer:
        assert json.load(answer) == {"status": "ready"}
    service.process.send_signal(signal.SIGTERM)
    service.says("finishing running calls")
    greeted: list[dict[str, Any]] = []

    def is_refused() -> bool:
        greeted.append(post(url, "tools/call", {"name": "greet", "arguments": {"name": "Ada"}})["result"])
        return bool(greeted[-1]["isError"])

    wait_until(is_refused)  # pumps are sent to other processes before
    refused = greeted[-1]
    assert refused["content"][0]["text"].startswith("greet was not called: the server is stopping")
    assert len(post(url, "tools/list", {})["result"]["tools"]) == 2
    with pytest.raises(HTTPError) as unready:
        urllib.request.urlopen(url.replace("/mcp/small", "/ready"), timeout=WITHIN_S)
    with unready.value as answer:
        assert answer.code == 503 and json.load(answer)["reason"].startswith("it is ending")
    (folder / "boils").touch()
    caller.join(WITHIN_S)
    assert answers[0]["result"]["content"][0]["text"] == "brewed"
    assert service.process.wait(WITHIN_S) == 0


@pytest.mark.process
def test_job_that_runs_is_given_its_time(serve: Serve, folder: Path) -> None:
    (folder / "tools" / "brew.py").write_text(BREW)
    service = serve(str(folder), "--port", "0", "--drain-timeout-s", "60")
    url = address(service)
    client = {"name": "t", "version": "1"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    opened, session = exchange(url, "initialize", hello)
    assert "tasks" in opened["result"]["capabilities"]
    exchange(url, "notifications/initialized", {}, session)
    begun, _ = exchange(url, "tools/call", {"name": "brew", "arguments": {}, "task": {}}, session)
    task = {"taskId": begun["result"]["task"]["taskId"]}
    service.process.send_signal(signal.SIGTERM)
    service.says("finishing running calls")
    assert exchange(url, "tasks/get", task, session)[0]["result"]["status"] == "working"
    (folder / "boils").touch()
    assert service.process.wait(WITHIN_S) == 0
    assert (folder / "tea").read_text() == "ready"


@pytest.mark.process
async def test_streams_end_in_order_when_the_server_stops(serve: Serve, folder: Path) -> None:
    service = serve(str(folder), "--port", "0")
    url = await asyncio.to_thread(address, service)
    client = {"name": "t", "version": "1"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    _, session = await asyncio.to_thread(exchange, url, "initialize", hello)
    events = {"Accept": "text/event-stream"}
    async with (
        aiohttp.ClientSession() as web,
        web.get(url, headers={"Mcp-Session-Id": session, **events}) as standing,
        web.get(f"{url}/sse", headers=events) as old,
        web.ws_connect(f"{url}/ws") as socket,
    ):
        assert standing.status == old.status == 200
        assert await asyncio.to_thread(service.end) == 0
        async with within():
            await standing.read()
            assert b"event: endpoint" in await old.read()
            farewell = await socket.receive()
            assert (farewell.type, farewell.data) == (aiohttp.WSMsgType.CLOSE, aiohttp.WSCloseCode.GOING_AWAY)


@pytest.mark.process
def test_prints_and_broken_files_are_told_on_stderr(serve: Serve, folder: Path) -> None:
    (folder / "tools" / "broken.py").write_text("1 / 0\n")
    service = serve(str(folder), "--port", "0")
    url = address(service)
    post(url, "tools/call", {"name": "chatter", "arguments": {}})
    assert "tools/tools.py:" in service.says("a stray print")
    assert any("tools/broken.py:1" in line for line in service.lines)
    assert service.end() == 0


@pytest.mark.process
def test_token_that_callers_need_is_told(serve: Serve, tmp_path: Path) -> None:
    auth = {"requires_jwt": True, "jwt": {"algorithms": ["HS256"], "secret_env": "S", "audience": "safe"}}
    (tmp_path / "mcp.json").write_text(json.dumps({"name": "safe", "auth": auth}))
    service = serve(str(tmp_path), "--port", "0")
    assert service.says("callers of").endswith("callers of safe send a token, as Authorization: Bearer")


@pytest.mark.process
def test_socket_takes_the_place_of_tcp(serve: Serve, folder: Path, tmp_path: Path) -> None:
    service = serve(str(folder), "--socket", str(tmp_path / "http.sock"))
    assert address(service) == f"unix:{tmp_path / 'http.sock'}"
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(tmp_path / "http.sock"))
        client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200") and b'"ok"' in answer
    assert service.end() == 0
    assert not (tmp_path / "http.sock").exists()


@pytest.mark.process
def test_two_servers_of_one_name_are_refused(mcpdesk: Run, folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "mcp.json").write_text('{"name": "small"}')
    finished = mcpdesk("serve", str(folder), str(other), "--port", "0")
    assert finished.returncode == 2
    assert "Two servers are called 'small'" in finished.stderr


@pytest.mark.process
def test_one_of_several_folders_with_a_mistake_is_withheld_until_it_is_mended(
    serve: Serve, mcpdesk: Run, folder: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "mcp.json").write_text('{"name": "other",\n "tols": []}')
    service = serve(str(folder), str(other), "--port", "0")
    url = address(service)
    place = f"{other}/mcp.json:2:2: tols: unknown key"
    assert place in service.says("not serving other until it is fixed")
    assert post(url, "ping", {})["result"] == {}
    for command in (("stdio", str(other)), ("list", str(other))):
        finished = mcpdesk(*command)
        assert (finished.returncode, finished.stdout) == (2, "")
        assert place in finished.stderr
    with pytest.raises(HTTPError) as refused:
        post(url.replace("small", "other"), "ping", {})
    assert refused.value.code == 503
    refused.value.close()
    (other / "mcp.json").write_text('{"name": "other"}')
    service.says("mcp.json is fixed, other is served")
    assert post(url.replace("small", "other"), "ping", {})["result"] == {}
    assert service.end() == 0


@pytest.mark.process
def test_a_first_folder_with_a_mistake_holds_the_others_back_only_while_it_may_ask_for_a_key(
    serve: Serve, folder: Path, tmp_path: Path
) -> None:
    first = tmp_path / "first"
    first.mkdir()
    (first / "mcp.json").write_text('{"version": 1 2}')
    service = serve(str(first), str(folder), "--port", "0")
    url = address(service)
    service.says(f"not serving first until it is fixed: {first}/mcp.json:1:")
    assert post(url.replace("first", "small"), "ping", {})["result"] == {}
    (first / "mcp.json").write_text('{"version": "1"}')
    service.says("mcp.json is fixed, first is served")
    assert service.end() == 0

    (first / "mcp.json").write_text('{"settings": {"api_key": "k"}')
    service = serve(str(first), str(folder), "--port", "0")
    told = service.says("not serving small until it is fixed")
    assert f"its settings come from {first}/mcp.json, which has an error" in told
    (first / "mcp.json").write_text('{"settings": {"page_size": 1000}}')
    service.says("mcp.json is fixed, first is served")
    service.says("mcp.json is fixed, small is served")
    assert service.end() == 0


@pytest.mark.process
def test_serving_other_machines_without_a_key_is_warned_of(serve: Serve, folder: Path) -> None:
    service = serve(str(folder), "--http", "0.0.0.0:0")
    told = service.says("ANY CLIENT that reaches 0.0.0.0 from another machine can call the tools")
    assert "MCPDESK_API_KEY" in told
    assert service.end() == 0
    guarded = serve(str(folder), "--http", "127.0.0.1:0")
    guarded.says("a browser shows it at")
    guarded.says("sign in there with the operator's key in ")
    assert guarded.end() == 0 and not any("ANY CLIENT" in line for line in guarded.lines)


@pytest.mark.process
def test_who_may_call_and_where_the_key_is_are_said(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, state = write(tmp_path / "shell", {"mcp.json": '{"builtins": ["Bash"]}'}), tmp_path / "state"
    asked = (str(folder), "--port", "0", "--state-dir", str(state))
    serve(*asked).says(f"callers send the key as X-API-Key; it is in {state}/api-key")
    serve(*asked, "--no-auth").says("ANY CLIENT that reaches the port can run programs")
    monkeypatch.setenv("MCPDESK_API_KEY", "secret")
    serve(*asked).says("callers send the key as X-API-Key; it is the configured key")


@pytest.mark.process
def test_the_operators_key_is_in_a_file_while_it_serves_and_is_not_in_the_log(
    serve: Serve, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = (str(folder), "--port", "0", "--state-dir", str(tmp_path / "state"))
    service = serve(*asked)
    told = service.says("sign in there with the operator's key in ")
    file = tmp_path / "state" / "operator" / str(service.process.pid)
    assert str(file) in told and file.stat().st_mode & 0o777 == 0o600
    key = file.read_text().strip()
    other = serve(*asked)
    other.says("sign in there with")
    assert (file.parent / str(other.process.pid)).read_text().strip() != key
    assert service.end() == 0 and not file.exists()
    assert key not in "\n".join(service.lines)
    monkeypatch.setenv("MCPDESK_OPERATOR_KEY", "a-configured-one")
    chosen = serve(*asked)
    chosen.says("sign in there with the configured operator key")
    assert not (file.parent / str(chosen.process.pid)).exists()
    assert chosen.end() == 0 and "a-configured-one" not in "\n".join(chosen.lines)


WAIT = '''
import asyncio
from pathlib import Path

from mcpdesk import tool


@tool(timeout=300)
async def heed() -> None:
    """Wait for what never comes."""
    Path(BEGAN, "heed").touch()
    await asyncio.Event().wait()


@tool(timeout=300)
async def ignore() -> None:
    """Do not hear of the end at first."""
    Path(BEGAN, "ignore").touch()
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.Event().wait()
'''


async def test_who_waits_for_a_call_that_took_too_long_is_answered_or_disconnected(tmp_path: Path) -> None:
    began = tmp_path / "began"
    began.mkdir()
    folder = write(tmp_path / "waits", {"tools/wait.py": f"BEGAN = {str(began)!r}\n{WAIT}"})
    plan = plan_for((folder,), {"port": 0, "drain_timeout_s": 0}, os.environ, http=True)
    core = Host(msgspec.structs.replace(plan, watch=False, accepts_pumps=False))
    core.load()
    await core.start()
    try:
        assert core.http is not None
        url = core.http.address
        async with http_client() as client:
            heeding, ignoring = (
                asyncio.create_task(client.post(f"{url}/mcp", json=call(name))) for name in ("heed", "ignore")
            )
            await until(lambda: len(list(began.iterdir())) == 2)
            assert await _drain(core) == "2 calls"
            async with within():
                result = (await (await heeding).json())["result"]
                assert result["isError"] and "the server is stopping" in result["content"][0]["text"]
                told = [line.text for line in core.journal.lines() if "the server is stopping" in line.text]
                assert told and not any("File" in text for text in told), "a stop is not the handler's error"
                with pytest.raises(aiohttp.ServerDisconnectedError):
                    await ignoring
                # The core continues, because its stop must not disconnect any client.
                assert (await client.get(f"{url}/health")).status == 200
    finally:
        await core.stop()


FILES = {
    "mcp.json": '{"name": "slow", "version": "1", "settings": {"tool_timeout_ms": 500}}',
    "tools/work.py": """
        import time
        from helpers import pause

        async def first() -> str:
            \"\"\"Stand first in the file, and hold up nobody.\"\"\"
            return "first"

        async def direct() -> str:
            \"\"\"Hold up everything.\"\"\"
            time.sleep(3)
            return "finished"

        async def through_a_helper() -> str:
            \"\"\"Hold up everything in a function of another file.\"\"\"
            pause(3)
            return "finished"
        """,
    "helpers.py": """
        import time

        def pause(seconds: float) -> None:
            time.sleep(seconds)
        """,
}


def called(url: str, tool: str) -> str:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {}}}
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    request = urllib.request.Request(url, json.dumps(message).encode(), headers)
    with urllib.request.urlopen(request, timeout=120) as answer:
        return str(answer.read().decode())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "place"), [("direct", "tools/work.py:10"), ("through-a-helper", "helpers.py:4")]
)
def test_the_tool_and_the_line_are_logged_meanwhile_and_the_call_timed_out(
    serve: Callable[..., Service], tmp_path: Path, tool: str, place: str
) -> None:
    service = serve(str(write(tmp_path / "slow", FILES)), "--port", "0")
    found = re.search(r"http://[\d.]+:\d+/mcp/slow", service.says("/mcp/slow"))
    assert found is not None
    answers: list[str] = []
    caller = threading.Thread(target=lambda: answers.append(called(found.group(), tool)))
    caller.start()
    line = service.says("blocked the server")
    assert caller.is_alive()  # it is logged while the tool still holds up the server
    assert f"warning {tool}: " in line and line.endswith(f"({place})")
    caller.join()
    assert "not finished within its limit of 0.5 s" in answers[0]
    assert service.end() == 0
    assert not [each for each in service.lines if "blocked the" in each and each != line]


LOGS = '''
import logging

from mcpdesk import Context, tool


@tool
async def tell(ctx: Context) -> str:
    """Log in three ways, then fail."""
    await ctx.info("by the context")
    logging.getLogger("shop").warning("by a logger\\nin two lines")
    print("by a print")
    raise KeyError("tea")
'''


@pytest.mark.process
def test_logs_are_one_json_object_a_line(serve: Serve, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "tools" / "logs.py").write_text(LOGS)
    monkeypatch.setenv("MCPDESK_LOG_FORMAT", "json")
    service = serve(str(folder), "--port", "0")
    url = json.loads(service.says("serving small at"))["message"].rpartition(" ")[2]
    post(url, "tools/call", {"name": "tell"})
    service.says("KeyError")
    assert service.end() == 0
    assert service.process.stderr is not None
    lines = [json.loads(line) for line in (*service.lines, *service.process.stderr)]
    assert all(
        line["time"].endswith("+00:00") and {"level", "logger", "message"} <= set(line) for line in lines
    )
    told = {line["message"]: line for line in lines if line.get("tool") == "tell"}
    assert set(told) == {"by the context", "by a logger\nin two lines", "by a print", "KeyError: 'tea'"}
    assert all((line["server"], line["request"]) == ("small", 1) for line in told.values())
    assert (
        told["by a logger\nin two lines"] | {"level": "warning", "logger": "shop"}
        == told["by a logger\nin two lines"]
    )
    failed = told["KeyError: 'tea'"]
    assert failed["level"] == "error" and failed["where"] == "tools/logs.py:13"
    assert (
        failed["traceback"].startswith('  File "tools/logs.py"')
        and 'raise KeyError("tea")' in failed["traceback"]
    )


@pytest.mark.process
@pytest.mark.parametrize("taken", ["port", "socket"])
def test_a_taken_address_is_told_before_any_code_of_a_folder_runs(
    mcpdesk: Run, folder: Path, tmp_path: Path, taken: str
) -> None:
    (folder / "tools" / "loud.py").write_text(
        "from pathlib import Path\nPath(__file__).with_name('ran').touch()\nasync def loud(): ...\n"
    )
    family = socket.AF_UNIX if taken == "socket" else socket.AF_INET
    with socket.socket(family) as other:
        other.bind(str(tmp_path / "s") if taken == "socket" else ("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        options = {
            "port": ("--port", str(port)),
            "socket": ("--socket", str(tmp_path / "s")),
        }[taken]
        done = mcpdesk("serve", str(folder), *options)
    told = {"port": f"port {port} on 127.0.0.1 is taken", "socket": "is served by another process"}
    assert told[taken] in done.stderr
    assert done.returncode != 0 and not (folder / "tools" / "ran").exists()
