"""Callbacks on real processes: clients receive callbacks that fire after the server was restarted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from tests.cli.conftest import started_services
from tests.seeds.test_runtime import address
from tests.support.folders import write
from tests.support.patience import WITHIN_S, within
from tests.support.stdio_server import Server
from tests.support.toolbox import KEY, Toolbox

MESSAGE = "notifications/message"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MCPDESK_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("MCPDESK_API_KEY", KEY)
    return write(tmp_path / "shop", {"mcp.json": '{"name": "shop", "builtins": ["SetCallback"]}'})


@pytest.fixture
def stdio(folder: Path) -> Iterator[Any]:
    """Starts `mcpdesk stdio` on the folder, the handshake done."""
    started: list[Server] = []

    def start(name: str = "tester") -> Server:
        server = Server(folder, "--alone")
        started.append(server)
        hello = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": name, "version": ""},
        }
        server.ask("initialize", hello)
        server.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        server.stdin.flush()
        return server

    yield start
    for server in started:
        server.close()


def manage(server: Server, number: int = 2, **arguments: Any) -> dict[str, Any]:
    result: dict[str, Any] = server.ask(
        "tools/call", {"name": "SetCallback", "arguments": arguments}, number
    )["result"]
    return result


def heard(server: Server, method: str) -> dict[str, Any]:
    """The next message of that method."""
    while server.notices:
        if (notice := server.notices.popleft()).get("method") == method:
            return notice
    late = Timer(WITHIN_S, server.process.kill)
    late.start()
    try:
        for line in server.stdout:
            message: dict[str, Any] = json.loads(line)
            if message.get("method") == method:
                return message
    finally:
        late.cancel()
    raise AssertionError(f"{method} did not come")


@pytest.mark.slow
def test_what_fires_after_a_restart_reaches_whoever_is_there(stdio: Any) -> None:
    for number, delay_s in enumerate((3, 30), start=1):  # on a busy machine the next one may start too late
        first = stdio()
        manage(first, action="set", message="stretch", delay_seconds=delay_s)
        first.close()
        second = stdio("somebody")
        second.ask("resources/subscribe", {"uri": f"callback://{number}"}, 2)
        if not any(fired_by(each) == number for each in second.notices):
            break
        second.close()
    while fired_by(notice := heard(second, MESSAGE)) != number:
        pass
    params = notice["params"]
    assert (params["level"], params["logger"]) == ("notice", "callback")
    assert params["data"] == {"callback_id": number, "message": "stretch", "fired": 1, "left": 0}
    told = heard(second, "notifications/resources/updated")
    assert told["params"]["uri"] == f"callback://{number}"


def fired_by(notice: dict[str, Any]) -> object:
    """The callback that a log message is about, or None."""
    data = notice.get("params", {}).get("data") if notice.get("method") == MESSAGE else None
    return data.get("callback_id") if isinstance(data, dict) else None


@pytest.mark.slow
def test_what_fired_while_nobody_was_there_is_told_once_to_each_who_comes_later(stdio: Any) -> None:
    first = stdio()
    manage(first, action="set", message="stretch", delay_seconds=1)
    first.close()
    second = stdio()
    data = heard(second, MESSAGE)["params"]["data"]
    assert (data["callback_id"], data["message"], data["fired"]) == (1, "stretch", 1)
    second.end()  # not killed, because the delivery is recorded a moment later
    third = stdio()
    # The handshake's notifications come before the answer to this, if there are any.
    assert manage(third, action="list")["structuredContent"]["callbacks"][0]["state"] == "over"
    assert heard(stdio("another"), MESSAGE)["params"]["data"]["message"] == "stretch"


@pytest.mark.slow
def test_what_its_setter_heard_is_told_to_nobody_else(stdio: Any) -> None:
    first = stdio()
    manage(first, action="set", message="stretch", delay_seconds=1)
    assert heard(first, MESSAGE)["params"]["data"]["fired"] == 1
    first.end()
    assert manage(stdio("another"), action="list")["structuredContent"]["callbacks"][0]["fired"] == 1


@pytest.mark.slow
async def test_a_client_of_the_service_hears_it_after_the_service_was_killed(folder: Path) -> None:
    heard_by_client = asyncio.Queue[Any]()
    box = Toolbox(folder, "", {})
    with started_services() as start:
        service = start(str(folder), "--port", "0")
        url = f"{address(service, 'shop')}/mcp/shop"
        async with box.over_http(url, "2025-11-25") as client:
            arguments = {"action": "set", "message": "stretch", "delay_seconds": 1}
            assert not (await client.call_tool("SetCallback", arguments)).is_error
            service.process.kill()
            service.process.wait()
        service = start(str(folder), "--port", "0")
        url = f"{address(service, 'shop')}/mcp/shop"

        async def hear(params: Any) -> None:
            await heard_by_client.put(params)

        async with box.over_http(url, "2025-11-25", hear), within():
            assert (await heard_by_client.get()).data["message"] == "stretch"


@pytest.mark.process
@pytest.mark.parametrize(
    ("number", "told"),
    [(7, "is already waiting"), (0, "1 to 1000000"), (-1, "1 to 1000000"), (1 << 50, "1 to 1000000")],
)
def test_an_id_that_cannot_be_kept_is_refused(stdio: Any, number: int, told: str) -> None:
    server = stdio()
    kept = manage(server, action="set", message="a", delay_seconds=60, callback_id=7)
    assert kept["structuredContent"]["callbacks"][0]["callback_id"] == 7
    refused = manage(server, 3, action="set", message="b", delay_seconds=60, callback_id=number)
    assert refused["isError"] and told in refused["content"][0]["text"]
    (only,) = manage(server, 4, action="list")["structuredContent"]["callbacks"]
    assert only["message"] == "a"
    manage(server, 5, action="cancel", callback_id=7)
    again = manage(server, 6, action="set", message="b", delay_seconds=60, callback_id=7)
    assert again["structuredContent"]["callbacks"][0]["callback_id"] == 7, "it is free again"
    following = manage(server, 7, action="set", message="c", delay_seconds=60)
    assert following["structuredContent"]["callbacks"][0]["callback_id"] == 8
