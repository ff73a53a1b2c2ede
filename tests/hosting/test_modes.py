"""A mode is the server with fewer tools, on every transport, as the manifest currently defines it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mcpdesk.errors import DeskUserError, UnknownMode
from mcpdesk.hosting.host import Host
from mcpdesk.hosting.host_plan import plan_for
from mcpdesk.protocol.revisions import V2026_07_28
from mcpdesk.protocol.stateless import request_meta
from mcpdesk.server.offer.server import Server
from tests.support.desk import RunningDesk, running_desk
from tests.support.features import having, needs_feature
from tests.support.folders import save
from tests.support.messages import call, request
from tests.support.patience import until, within

TOOLS = '''
async def look() -> str:
    """Look."""
    return "seen"


async def change(what: str = "it") -> str:
    """Change something."""
    return f"changed {what}"
'''
MODES = {"review": {"tools": ["look"], "description": "look only"}, "both": {"tools": ["change", "look"]}}
CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
JSON = {"Accept": "application/json, text/event-stream"}


def write(folder: Path, modes: Any = MODES, **more: Any) -> Path:
    (folder / "tools").mkdir(parents=True, exist_ok=True)
    (folder / "tools/work.py").write_text(TOOLS)
    (folder / "mcp.json").write_text(json.dumps({"name": "sorted", "modes": modes, **more}, indent=1))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "sorted")


class Http:
    """A client of one URL."""

    def __init__(self, desk: RunningDesk, client: aiohttp.ClientSession) -> None:
        self.url = desk.view().servers[0].url
        self.client = client

    async def post(self, query: str, body: dict[str, Any], **headers: str) -> tuple[int, Any]:
        named = JSON | {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.client.post(self.url + query, json=body, headers=named) as answer:
            text = await answer.text()
            return answer.status, json.loads(text) if text else dict(answer.headers)

    async def tools(self, query: str) -> list[str]:
        _, answer = await self.post(query, request("tools/list"))
        return [tool["name"] for tool in answer["result"]["tools"]]


@asynccontextmanager
async def http(*folders: Path, watch: bool = False) -> AsyncIterator[tuple[RunningDesk, Http]]:
    async with running_desk(*folders, http=True, watch=watch) as desk, aiohttp.ClientSession() as client:
        yield desk, Http(desk, client)


def names(server: Server) -> list[str]:
    return [tool.name for tool in server.tools]


async def test_tool_outside_of_the_mode_is_neither_listed_nor_callable(folder: Path) -> None:
    async with http(folder) as (_, client):
        assert await client.tools("?mode=review") == ["look"]
        assert (
            sorted(await client.tools("?mode=both")) == sorted(await client.tools("")) == ["change", "look"]
        )
        status, answer = await client.post("?mode=review", call("look"))
        assert (status, answer["result"]["content"][0]["text"]) == (200, "seen")
        _, answer = await client.post("?mode=review", call("change"))
        assert answer["error"]["code"] == -32602 and "Unknown tool: change" in answer["error"]["message"]
        _, answer = await client.post("", call("change"))
        assert answer["result"]["content"][0]["text"] == "changed it"


async def test_both_eras_are_served_in_a_mode(folder: Path) -> None:
    async with http(folder) as (_, client):
        params = {"_meta": request_meta(V2026_07_28, {"name": "t", "version": "1"})}
        headers = {"MCP_Protocol_Version": V2026_07_28.name, "Mcp_Method": "tools/list"}
        _, answer = await client.post("?mode=review", request("tools/list", params), **headers)
        assert [tool["name"] for tool in answer["result"]["tools"]] == ["look"]


async def test_unknown_mode_names_those_there_are(folder: Path) -> None:
    async with http(folder) as (_, client):
        status, answer = await client.post("?mode=nope", request("tools/list"))
        assert (status, answer["error"]["code"]) == (404, -32602)
        assert (
            answer["error"]["message"] == "The server 'sorted' has no mode 'nope'. Its modes: review, both."
        )
        assert answer["error"]["data"] == {"modes": ["review", "both"]}
        for way in ("", "/sse", "/ws"):
            async with client.client.get(f"{client.url}{way}?mode=nope") as refused:
                assert refused.status == 404
                assert "review, both" in (await refused.json())["error"]


async def test_session_belongs_to_its_mode(folder: Path) -> None:
    async with http(folder) as (_, client):
        ids = {}
        for query in ("", "?mode=review"):
            body = request("initialize", CLIENT)
            async with client.client.post(client.url + query, json=body, headers=JSON) as answer:
                ids[query] = answer.headers["Mcp-Session-Id"]
        for query, identifier in ids.items():
            other = next(each for each in ids if each != query)
            status, _ = await client.post(query, request("tools/list"), Mcp_Session_Id=identifier)
            assert status == 200
            status, answer = await client.post(other, call("change"), Mcp_Session_Id=identifier)
            assert (status, answer["error"]["message"]) == (404, "No such session: initialize again")


@needs_feature("gateway")
async def test_gateway_dialect_is_served_in_a_mode(folder: Path) -> None:
    async with http(folder) as (_, client):
        url = client.url.partition("/mcp/")[0] + "/v1/mcp?mode=review"
        for verb in ("GET", "OPTIONS"):
            async with client.client.request(verb, url) as answer:
                commands = (await answer.json())["capabilities"]["commands"]
                assert [each["name"] for each in commands] == ["look"]
        for method, params, expected in (
            ("listTools", {}, "look"),
            ("tools/call", {"name": "look"}, "seen"),
            ("tools/call", {"name": "change"}, "Unknown tool: change"),
            ("tools/call", {"name": "change", "mode": "async"}, "Unknown tool: change"),
        ):
            async with client.client.post(url, json=request(method, params)) as answer:
                text = await answer.text()
                assert expected in text and '"change"' not in text
        async with client.client.post(url.replace("review", "nope"), json=request("listTools")) as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (404, -32602)


async def test_web_socket_is_served_in_a_mode(folder: Path) -> None:
    async with http(folder) as (_, client):
        base = client.url.partition("/mcp/")[0]
        for url in (f"{client.url}/ws?mode=review", *having("gateway", f"{base}/v1/ws/mcp?mode=review")):
            async with client.client.ws_connect(url) as socket:
                await socket.send_json(request("initialize", CLIENT))
                await socket.send_json({"jsonrpc": "2.0", "method": "notifications/initialized"})
                await socket.send_json(request("tools/list", identifier=2))
                async with within():
                    while (answer := await socket.receive_json()).get("id") != 2:
                        pass
                assert [tool["name"] for tool in answer["result"]["tools"]] == ["look"]


async def test_event_stream_of_2024_tells_to_post_in_the_same_mode(folder: Path) -> None:
    async with http(folder) as (_, client):
        base = client.url.partition("/mcp/")[0]
        accept = {"Accept": "text/event-stream"}
        async with client.client.get(f"{client.url}/sse?mode=review", headers=accept) as stream:
            lines = stream.content

            async def data() -> str:
                while not (line := (await lines.readline()).decode()).startswith("data: "):
                    pass
                return line.removeprefix("data: ").strip()

            async with within():
                place = await data()
                for body in (
                    request("initialize", CLIENT),
                    {"jsonrpc": "2.0", "method": "notifications/initialized"},
                    request("tools/list", identifier=2),
                ):
                    async with client.client.post(base + place, json=body) as answer:
                        assert answer.status == 202
                while (answered := json.loads(await data())).get("id") != 2:
                    pass
        assert [tool["name"] for tool in answered["result"]["tools"]] == ["look"]


async def test_changed_list_is_told_to_the_modes_it_changed_for(folder: Path) -> None:
    async with http(folder, watch=True) as (desk, client):
        heard: dict[str, list[str]] = {}
        async with asyncio.TaskGroup() as group, within():
            ready = [asyncio.Event() for _ in range(3)]
            stop = asyncio.Event()
            for query, event in zip(("", "?mode=review", "?mode=both"), ready, strict=True):
                group.create_task(_listen(client, query, heard.setdefault(query, []), event, stop))
            for event in ready:
                await event.wait()
            before = desk.view().servers[0].catalogue_version
            save(folder / "tools/work.py", TOOLS.replace("Change something", "Change much"))
            await until(lambda: desk.view().servers[0].catalogue_version != before)
            await until(lambda: heard[""] and heard["?mode=both"])
            assert heard == {"": ["tools"], "?mode=review": [], "?mode=both": ["tools"]}
            # The mode alone changes: the server as a whole offers what it did.
            modes = {"review": {"tools": ["look", "change"]}, "both": MODES["both"]}
            save(folder / "mcp.json", json.dumps({"name": "sorted", "modes": modes}))
            await until(lambda: heard["?mode=review"])
            assert sorted(await client.tools("?mode=review")) == ["change", "look"]
            stop.set()
        assert heard == {"": ["tools"], "?mode=review": ["tools"], "?mode=both": ["tools"]}


async def _listen(
    client: Http, query: str, heard: list[str], ready: asyncio.Event, stop: asyncio.Event
) -> None:
    """Collect notifications of changed lists on a WebSocket until `stop` is set."""
    async with client.client.ws_connect(f"{client.url}/ws{query}") as socket:
        await socket.send_json(request("initialize", CLIENT))
        await socket.send_json({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await socket.send_json(request("ping", identifier=2))
        stopped = asyncio.create_task(stop.wait())
        while True:
            came = asyncio.create_task(socket.receive_json())
            await asyncio.wait({came, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not came.done():
                came.cancel()
                return
            got = came.result()
            if got.get("id") == 2:
                ready.set()
            if (method := got.get("method", "")).endswith("/list_changed"):
                heard.append(method.split("/")[1])


async def test_mode_that_is_lost_is_told_and_comes_back(folder: Path) -> None:
    async with running_desk(folder) as desk:
        view = desk.host.endpoint("sorted", "review")
        assert view is not None

        def shows(expected: list[str]) -> bool:
            return names(view.server) == expected

        for modes, expected in (({}, list[str]()), (MODES, ["look"])):
            write(folder, modes)
            desk.reload("sorted")
            await until(partial(shows, expected))
        assert desk.host.endpoint("sorted", "review") is view
        told = [notice.text for notice in desk.notices() if "mode" in notice.text]
        assert told == ["sorted: the mode review no longer exists; clients that use it now receive no tools"]


async def test_clients_of_all_modes_are_seen_and_end_with_the_core(folder: Path) -> None:
    async with (
        http(folder) as (desk, client),
        client.client.ws_connect(f"{client.url}/ws?mode=review") as socket,
    ):
        await socket.send_json(request("initialize", CLIENT))
        await socket.receive_json()
        (peer,) = desk.view().clients
        assert (peer.server, peer.transport, peer.mode) == ("sorted", "websocket", "review")
        assert desk.client(peer.connection) is not None


async def test_link_tells_the_modes_and_what_each_lacks(folder: Path) -> None:
    modes = {"review": {"tools": ["look", "lok"], "description": "look only"}}
    write(folder, modes)
    async with running_desk(folder) as desk:
        (mode,) = desk.view().servers[0].modes
        assert (mode.name, mode.description, mode.tools) == ("review", "look only", ("look",))
        assert mode.missing == (("lok", "no tool 'lok'; did you mean look?"),)
        (warned,) = [line for line in desk.logs() if line.level == "warning"]
        assert warned.where == "mcp.json:7"
        assert warned.text == "modes.review.tools: no tool 'lok'; did you mean look?"


def modes_of(folder: Path) -> Host:
    host = Host(plan_for([folder], {}, {}, http=False, mode="review"))
    host.load()
    return host


async def test_core_in_a_mode_serves_nothing_else(folder: Path) -> None:
    host = modes_of(folder)
    endpoint = host.endpoint("")
    assert endpoint is not None and names(endpoint.server) == ["look"]
    assert host.endpoint("sorted", "review") is endpoint
    with pytest.raises(UnknownMode) as caught:
        host.endpoint("sorted", "both")
    assert caught.value.message.endswith("It is only served in the mode 'review'.")
    assert endpoint.facts()["tools"] == 1


async def test_core_is_not_started_in_a_mode_a_folder_lacks(folder: Path) -> None:
    with pytest.raises(DeskUserError, match=r"'sorted' has no mode 'nope'. Its modes: review, both."):
        Host(plan_for([folder], {}, {}, http=False, mode="nope")).load()


async def test_key_is_due_for_the_tools_of_the_mode_alone(folder: Path) -> None:
    write(folder, {"review": {"tools": ["look"]}, "all": {"tools": ["Bash"]}}, builtins=["Bash"])
    assert not modes_of(folder).by_name["sorted"].server.runs_programs
    host = Host(plan_for([folder], {}, {}, http=False))
    host.load()
    assert host.by_name["sorted"].server.runs_programs


async def stdio(folder: Path, *arguments: str) -> tuple[list[str], str]:
    """Tools that `mcpdesk stdio` lists, and its stderr."""
    program = (sys.executable, "-m", "mcpdesk", "stdio", str(folder), *arguments)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*program, stdin=pipe, stdout=pipe, stderr=pipe)
    lines = [
        request("initialize", CLIENT),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        request("tools/list", identifier=2),
    ]
    async with within():
        out, err = await process.communicate("".join(f"{json.dumps(each)}\n" for each in lines).encode())
    answers: Iterable[dict[str, Any]] = map(json.loads, out.splitlines())
    listed = [each["result"]["tools"] for each in answers if each.get("id") == 2]
    return [tool["name"] for tools in listed for tool in tools], err.decode()


@pytest.mark.slow
async def test_stdio_serves_a_mode_alone_and_through_a_desk(folder: Path) -> None:
    tools, _ = await stdio(folder, "--mode", "review")
    assert tools == ["look"]
    async with running_desk(folder, accepts_pumps=True):
        tools, _ = await stdio(folder, "--mode", "review")
        assert tools == ["look"]
        _, told = await stdio(folder, "--mode", "nope")
        assert "no mode 'nope'" in told and "Its modes: review, both." in told
