"""A core: several folders, ports, keys, folder sockets, a stuck loop."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec import structs

from mcpdesk.client.targets import CommandTarget
from mcpdesk.errors import DeskUserError, TransportError
from mcpdesk.hosting.host import Host
from mcpdesk.hosting.host_part import HostPart
from mcpdesk.hosting.host_plan import plan_for
from mcpdesk.transports import pump, rendezvous
from mcpdesk.upstream.upstream import UpstreamPlan
from tests.support.desk import running_desk
from tests.support.features import having
from tests.support.folders import save, write
from tests.support.patience import until, within
from tests.support.stdio_server import PROGRAM
from tests.support.tokens import SECRET, token

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "one", "one")


def make_folder(path: Path, name: str, builtins: str = "[]") -> Path:
    (path / "tools").mkdir(parents=True)
    (path / "mcp.json").write_text(f'{{"name": "{name}", "builtins": {builtins}}}', encoding="utf-8")
    code = (
        "import os\nimport time\n\n"
        "async def hold(until: str) -> str:\n"
        '    """Block the loop."""\n'
        "    while not os.path.exists(until): time.sleep(0.01)\n"
        '    return "held"\n'
    )
    (path / "tools/hold.py").write_text(code, encoding="utf-8")
    return path


async def test_servers_are_reached_by_name_and_the_first_without(tmp_path: Path) -> None:
    folders = [make_folder(tmp_path / name, name) for name in ("one", "two")]
    async with running_desk(*folders, http=True) as desk, aiohttp.ClientSession() as client:
        base = desk.view().servers[0].url.rpartition("/mcp/")[0]
        for path, status in (("/mcp", 200), ("/mcp/one", 200), ("/mcp/two", 200), ("/mcp/three", 404)):
            async with client.post(base + path, json=CALL) as answer:
                assert answer.status == status


async def test_two_servers_of_one_name_are_refused(tmp_path: Path) -> None:
    folders = [make_folder(tmp_path / name, "same") for name in ("a", "b")]
    with pytest.raises(DeskUserError, match="same"):
        async with running_desk(*folders):
            pass


async def test_a_tool_that_runs_programs_makes_a_key_due(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "shell", "shell", '["Bash"]')
    async with running_desk(folder, http=True) as desk, aiohttp.ClientSession() as client:
        view = desk.view()
        assert view.protection == "key"
        async with client.post(view.servers[0].url, json=CALL) as answer:
            assert answer.status == 403
        async with client.post(view.servers[0].url, json=CALL, headers={"X-API-Key": view.api_key}) as answer:
            assert answer.status == 200
    async with running_desk(folder, http=True, no_auth=True) as desk:
        assert desk.view().protection == "open"


async def test_without_such_a_tool_loopback_needs_no_key(folder: Path) -> None:
    async with running_desk(folder, http=True) as desk:
        assert desk.view().protection == "loopback"
    async with running_desk(folder) as desk:
        assert desk.view().protection == "offline"


async def test_a_taken_port_is_an_error_unless_it_may_move(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(TransportError, match="taken"):
        async with running_desk(folder, http=True, port=taken.getsockname()[1]):
            pass


async def test_a_stuck_loop_is_noticed_with_tool_and_line(folder: Path, tmp_path: Path) -> None:
    async with running_desk(folder) as desk:
        let_go = tmp_path / "let go"
        call = desk.request("one", "tools/call", {"name": "hold", "arguments": {"until": str(let_go)}})
        try:
            await until(lambda: (stuck := desk.view().stuck) is not None and stuck.tool)
            stuck = desk.view().stuck
        finally:
            let_go.touch()
        assert stuck is not None
        assert (stuck.tool, stuck.where) == ("hold", "tools/hold.py:6")
        outcome = await asyncio.wrap_future(call.outcome)
        assert outcome.result is not None
        assert outcome.result["content"][0]["text"] == "held"


async def test_the_folder_socket_serves_the_folder(folder: Path) -> None:
    ping, pong = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n', b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
    async with running_desk(folder, accepts_pumps=True) as desk:
        reader, writer = await asyncio.open_unix_connection(rendezvous.folder_socket(folder))
        greeted, pumping = await asyncio.open_unix_connection(rendezvous.folder_socket(folder))
        writer.write(ping)
        pumping.write(pump.greeting_line(str(folder), "") + ping)
        async with within():
            assert await reader.readline() == pong
            assert [await greeted.readline() for _ in range(2)] == [pump.ACCEPTED, pong]
            # A server that is removed sends its pumps to another process before it closes them.
            desk.remove_server("one")
            assert (await reader.read(), await greeted.read()) == (b"", pump.LEAVE)
        writer.close()
        pumping.close()
    assert not Path(rendezvous.folder_socket(folder)).exists()


@pytest.mark.skipif(not rendezvous.HAS_SOCKETS, reason="this system has no Unix sockets")
async def test_another_process_on_the_same_state_files_is_announced(folder: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with running_desk(folder, state_dir=state) as desk:
        _, writer = await asyncio.open_unix_connection(rendezvous.state_point(folder, str(state)))
        writer.write(b"1\n")
        await until(lambda: any("process 1 also hosts the folder" in each.text for each in desk.notices()))
        assert desk.host.peers.pids("one") == {1}
        writer.close()
        text = f"process 1 no longer uses the state files of {folder}"
        await until(lambda: text in [each.text for each in desk.logs()])


async def test_a_saved_file_reaches_open_sessions(folder: Path) -> None:
    async with running_desk(folder, http=True, watch=True) as desk, aiohttp.ClientSession() as client:
        url = desk.view().servers[0].url
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        async with client.post(url, json=CALL | {"method": "initialize", "params": params}) as answer:
            headers = {"Mcp-Session-Id": answer.headers["Mcp-Session-Id"]}
        async with client.post(
            url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers
        ):
            pass
        async with client.get(url, headers=headers | {"Accept": "text/event-stream"}) as stream:
            file = folder / "tools/hold.py"
            save(file, file.read_text(encoding="utf-8").replace("Block", "Stop"))
            async with within():
                while b"tools/list_changed" not in await stream.content.readline():
                    pass
        assert desk.catalogue("one").items[0].description == "Stop the loop."
        assert desk.catalogue("one").items[0].changed


async def test_the_reason_why_a_saved_file_cannot_be_read_is_logged_once(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_desk(folder) as desk:
        save(folder / "tools/hold.py", "async def hold(: ...")
        desk.reload("one")
        await until(lambda: any(line.text.endswith("1 broken: hold") for line in desk.logs()))
        assert not [line for line in desk.logs() if "SyntaxError" in line.text]
        (record,) = (each for each in caplog.records if "SyntaxError" in each.getMessage())
        assert vars(record)["where"] == "tools/hold.py:1"
        notice = desk.notices()[-1].text
        assert "tools/hold.py:1: SyntaxError" in notice and notice.endswith("1 broken: hold")


async def test_where_tcp_is_forbidden_a_unix_socket_serves_the_same_http(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing(socket.socket):
        def __init__(self, family: int = -1, *rest: Any, **more: Any) -> None:
            if family in (socket.AF_INET, socket.AF_INET6):
                raise PermissionError(1, "Operation not permitted")
            super().__init__(family, *rest, **more)

    monkeypatch.setattr("mcpdesk.transports.http.http_service.socket.socket", Refusing)
    place = Path(rendezvous.private_folder()) / "http-one.sock"
    async with running_desk(folder, http=True) as desk:
        monkeypatch.undo()
        assert desk.view().servers[0].url == f"unix:{place}"
        assert desk.view().protection == "socket"
        assert "is not permitted: serving HTTP on the Unix socket" in desk.notices()[-1].text
        connector = aiohttp.UnixConnector(path=str(place))
        async with (
            aiohttp.ClientSession(connector=connector) as client,
            client.post("http://localhost/mcp/one", json=CALL) as answer,
        ):
            assert answer.status == 200
    assert not place.exists()


async def test_the_setting_may_name_tools_of_any_server(tmp_path: Path) -> None:
    folders = [make_folder(tmp_path / name, name) for name in ("one", "two")]
    (folders[1] / "tools/other.py").write_text("async def other() -> str:\n    return ''\n")
    async with running_desk(*folders, approvals="hold=ask,other=deny,thre=ask") as desk:
        warned = [line.text for line in desk.logs() if line.source == "settings"]
        assert warned == ["approvals: no tool 'thre'; did you mean other?"]
        home = desk.host.by_name["one"].server.hosted
        assert home is not None and home.approvals.effective_policy("hold").origin == "setting approvals"


@pytest.mark.process
async def test_what_tools_see_of_the_environment_holds_no_key_and_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATE_SECRET", SECRET)
    monkeypatch.setenv("MCPDESK_API_KEY", "the-key-of-the-desk")
    monkeypatch.setenv("HARMLESS", "seen")
    auth = {"jwt": {"algorithms": ["HS256"], "secret_env": "GATE_SECRET"}}
    folder = write(tmp_path, {"mcp.json": json.dumps({"name": "gate", "auth": auth, "builtins": ["Bash"]})})
    async with running_desk(folder) as desk:
        seen = desk.host.services.environment()
        assert seen["HARMLESS"] == "seen"
        assert not {"GATE_SECRET", "MCPDESK_API_KEY"} & seen.keys()
        call = desk.request("gate", "tools/call", {"name": "Bash", "arguments": {"command": "env"}})
        outcome = await asyncio.wrap_future(call.outcome)
        assert outcome.result is not None
        printed = outcome.result["structuredContent"]["stdout"]
        assert "HARMLESS=seen" in printed and SECRET not in printed and "the-key-of-the-desk" not in printed


async def test_a_server_that_asks_everybody_for_a_token_needs_no_key_besides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATE_SECRET", SECRET)
    auth = {"requires_jwt": True, "jwt": {"algorithms": ["HS256"], "secret_env": "GATE_SECRET"}}
    manifest = {"name": "gate", "builtins": ["Bash"]}
    folder = write(tmp_path, {"mcp.json": json.dumps(manifest | {"auth": auth})})
    async with running_desk(folder, http=True) as desk, aiohttp.ClientSession() as client:
        url = desk.view().servers[0].url
        for headers, status in (({}, 401), ({"Authorization": f"Bearer {token('HS256')}"}, 200)):
            async with client.post(url, json=CALL, headers=headers) as answer:
                assert answer.status == status
        assert not desk.host.rules.api_key
        write(tmp_path, {"mcp.json": json.dumps(manifest)})
        desk.host.call_soon(lambda: desk.host.reload("gate"))
        await until(lambda: bool(desk.host.rules.api_key))
        async with client.post(url, json=CALL) as answer:
            assert answer.status == 403 and "key" in (await answer.json())["error"]


async def test_a_server_with_a_mistake_in_its_manifest_refuses_everybody_until_it_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATE_SECRET", SECRET)
    jwt = {"algorithms": ["HS256"], "secret_env": "GATE_SECRET"}
    manifest = json.dumps({"name": "gate", "auth": {"requires_jwt": True, "jwt": jwt}})
    good, gate = make_folder(tmp_path / "one", "one"), make_folder(tmp_path / "gate", "gate")
    (gate / "mcp.json").write_text(manifest.replace("requires_jwt", "requires_jtw"))
    async with (
        running_desk(good, gate, http=True, watch=True, accepts_pumps=True, withholds_invalid=True) as desk,
        aiohttp.ClientSession() as client,
    ):
        other, url = (server.url for server in desk.view().servers)
        base = url.removesuffix("/mcp/gate")
        async with client.post(other, json=CALL) as answer:
            assert answer.status == 200
        why = "an mcp.json is invalid; the desk and the log show the error"
        said = f"gate is not served: {why}"
        for message in (CALL, CALL | {"method": "initialize"}):
            async with client.post(url, json=message, headers={"Authorization": "Bearer x"}) as answer:
                body = await answer.json()
                assert (answer.status, body["error"]["message"]) == (503, said)
        for path in (
            "/mcp/gate?mode=m",
            "/mcp/gate/sse",
            "/mcp/gate/ws",
            *having("gateway", "/v1/mcp?server=gate"),
        ):
            async with client.get(base + path) as answer:
                assert (answer.status, await answer.json()) == (503, {"error": said}), path
        async with client.get(f"{base}/status") as answer:
            (left_out,) = (await answer.json())["servers"][1]["unavailable"]
            assert left_out["name"] == "mcp.json" and "requires_jtw" not in left_out["reason"]
        (shown,) = desk.catalogue("gate").items
        assert shown.name == "mcp.json" and "requires_jtw: unknown key" in shown.problem
        reader, writer = await asyncio.open_unix_connection(rendezvous.folder_socket(gate))
        writer.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        async with within():
            assert (await reader.read()).startswith(f"mcpdesk: {gate}/mcp.json:1:".encode())
        writer.close()

        save(gate / "mcp.json", manifest)
        await until(lambda: [item.name for item in desk.catalogue("gate").items] == ["hold"])
        for headers, status in (({}, 401), ({"Authorization": f"Bearer {token('HS256')}"}, 200)):
            async with client.post(url, json=CALL, headers=headers) as answer:
                assert answer.status == status


@pytest.mark.slow
async def test_a_disk_that_refuses_the_capture_is_told_everywhere_until_it_takes_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(handle: int, pieces: list[bytes]) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with running_desk(folder, http=True, state_dir=tmp_path / "state") as desk:
        base = desk.view().servers[0].url.rpartition("/mcp/")[0]
        async with aiohttp.ClientSession() as client:

            async def facts() -> tuple[str, str]:
                async with client.get(f"{base}/status") as status, client.get(f"{base}/metrics") as metrics:
                    return (await status.json())["capture"]["state"], await metrics.text()

            works = os.writev
            monkeypatch.setattr(os, "writev", refuse)
            desk.request("one", "tools/list", {})
            await until(lambda: desk.view().capture_failing)
            state, metrics = await facts()
            assert state == "failing" and "\nmcpdesk_capture_failing 1.0\n" in metrics
            await until(lambda: any("No space left on device" in one.text for one in desk.logs()))
            await until(
                lambda: [one.severity for one in desk.notices() if "No space" in one.text] == ["error"]
            )
            monkeypatch.setattr(os, "writev", works)
            await until(lambda: not desk.view().capture_failing)
            state, metrics = await facts()
            assert state == "writing" and "\nmcpdesk_capture_failing 0.0\n" in metrics
            assert "\nmcpdesk_capture_missing_frames_total 0.0\n" in metrics
            await until(lambda: any("written again: nothing is missing" in one.text for one in desk.logs()))


async def test_old_captures_are_removed_logged_and_counted(folder: Path, tmp_path: Path) -> None:
    old = tmp_path / "state" / "captures" / "old.jsonl"
    old.parent.mkdir(parents=True)
    old.write_bytes(b'{"capture":3,"part":1,"first":0,"started":1.0}\n' + b"x" * 1_000)
    os.utime(old, (1, 1))
    size = old.stat().st_size
    async with running_desk(folder, http=True, state_dir=tmp_path / "state", capture_keep_age="1h") as desk:
        told = f"removed the capture file {old} (1.0 kB): it is older than capture_keep_age"
        await until(lambda: any(line.text == told for line in desk.logs()))
        assert not old.exists()
        base = desk.view().servers[0].url.rpartition("/mcp/")[0]
        async with aiohttp.ClientSession() as client, client.get(f"{base}/metrics") as answer:
            metrics = await answer.text()
    assert "\nmcpdesk_capture_removed_files_total 1.0\n" in metrics
    assert f"\nmcpdesk_capture_removed_bytes_total {size:.1f}\n" in metrics
    assert "\nmcpdesk_uncounted_frames_total 0.0\n" in metrics


async def test_without_a_capture_the_newest_frames_are_in_memory(folder: Path, tmp_path: Path) -> None:
    async with running_desk(folder, state_dir=tmp_path / "state", capture="off") as desk:
        desk.request("one", "tools/list", {})
        index = desk.traffic
        await until(lambda: index.catch_up() or len(index.exchanges))
        assert index.exchange(0).method == "tools/list" and index.frame(0) is not None
        assert desk.view().capture_path == "" and not desk.view().capture_failing
    assert not (tmp_path / "state" / "captures").exists()


async def test_a_damaged_state_file_is_told_of_where_a_person_looks(folder: Path, tmp_path: Path) -> None:
    async with running_desk(folder, state_dir=tmp_path / "state") as desk:
        home = desk.host.folders["one"].server.hosted
        assert home is not None
        path = home.state / "state.sqlite"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"no database" * 100)
    async with running_desk(folder, state_dir=tmp_path / "state") as desk:
        await until(lambda: any("is damaged" in one.text for one in desk.notices()))
        (aside,) = path.parent.glob("*.damaged-*")
        (notice,) = [one for one in desk.notices() if "is damaged" in one.text]
        assert str(aside) in notice.text and notice.severity == "error"
        assert any(str(aside) in line.text for line in desk.logs())


async def test_the_capture_is_written_although_a_part_of_a_feature_cannot_stop(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[str] = []

    class Part(HostPart):
        def __init__(self, name: str) -> None:
            self._name = name

        async def stop(self) -> None:
            stopped.append(self._name)
            if self._name == "broken":
                raise OSError("it cannot stop")

    host = Host(plan_for((folder,), {"port": 0}, os.environ, http=False))
    await host.start()
    host.parts._parts = [Part("first"), Part("broken")]
    close = host.recording.close

    def noted() -> None:
        close()
        stopped.append("recording")

    monkeypatch.setattr(host.recording, "close", noted)
    with pytest.raises(OSError, match="cannot stop"):
        await host.stop()
    assert stopped == ["broken", "first", "recording"]


@pytest.mark.process
async def test_a_desk_on_a_program_lists_its_tools_before_it_listens_for_clients(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpdesk.hosting.host.MAX_DRAWING_WAIT_S", 3600)
    target = CommandTarget((*PROGRAM, "stdio", str(folder), "--alone"))
    flags = {"port": 0, "state_dir": tmp_path / "state"}
    plan = plan_for((), flags, {}, upstreams=[UpstreamPlan("far", target)])
    host = Host(structs.replace(plan, draws_first=True))
    starting = asyncio.create_task(host.start())
    try:
        await until(lambda: "far" in host.upstreams and bool(host.upstreams["far"].status.offers))
        assert host.http is None, "the person sees the tools before the address"
        host.screen_drawn()
        await starting
        assert host.http is not None and host.http.address
    finally:
        await host.stop()
