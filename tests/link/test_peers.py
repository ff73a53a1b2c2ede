"""Every connected peer is shown, and can be disconnected, on every transport."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from mcpdesk.link.local import local_link as module
from mcpdesk.link.values import (
    QUIET_S,
    ClientDetail,
    ClientView,
    ParkedOperation,
    Presence,
    SessionView,
    ToolsSeen,
    connected,
)
from mcpdesk.protocol.revisions import LATEST
from mcpdesk.protocol.stateless import CAPABILITIES_KEY, request_meta
from mcpdesk.recorder.former_clients import MAX_FORMER_CLIENTS
from mcpdesk.recorder.index.statistics import CallTally, Subject
from mcpdesk.transports import rendezvous
from mcpdesk.tui.forms.question_text import absence_reason
from mcpdesk.tui.screens.clients import client_text, title_of
from tests.support.desk import RunningDesk, running_desk
from tests.support.messages import request
from tests.support.patience import WITHIN_S, until, within

CODE = '''
import asyncio

from mcpdesk import Context, Option, Page

NAME = {"type": "object", "properties": {"name": {"type": "string"}}}


async def hello(ctx: Context) -> str:
    """Ask for a name."""
    return (await ctx.elicit("Name?", NAME)).action


async def ask(ctx: Context) -> str:
    """Ask the person at the desk."""
    return (await ctx.ask([Page("Tea?", options=(Option("yes"), Option("no")))])).state


async def wait() -> str:
    """Take long, without a word."""
    await asyncio.sleep(600)
    return "late"


async def quick() -> str:
    """Answer."""
    return "ok"
'''
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
FORMS: dict[str, Any] = {"elicitation": {}}
OPENING: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": FORMS,
    "clientInfo": {"name": "tester", "version": "1"},
}


def stateless(method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    meta = request_meta(LATEST, OPENING["clientInfo"]) | {CAPABILITIES_KEY: FORMS}
    return request(method, (params or {}) | {"_meta": meta})


STRANGER = """
import asyncio, json, socket, sys, aiohttp

kind, url, place = sys.argv[1:]
OPENING = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
           "clientInfo": {"name": "tester", "version": "1"}}

def request(method, params):
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})

async def main():
    hello = request("initialize", OPENING)
    ready = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"})
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    async with aiohttp.ClientSession(headers=headers) as client:
        if kind == "pipe":
            reader, writer = await asyncio.open_unix_connection(sock=socket.socket(fileno=int(place)))
            writer.write(hello.encode() + b"\\n")
            await reader.readline()
        elif kind == "websocket":
            channel = await client.ws_connect(url + "/ws")
            await channel.send_str(hello)
            await channel.receive()
        else:
            answer = await client.post(url, data=hello)
            client.headers["Mcp-Session-Id"] = answer.headers["Mcp-Session-Id"]
            await (await client.post(url, data=ready)).read()
            if kind == "stream":
                await client.get(url, headers={"Accept": "text/event-stream"})
            elif kind in ("wait", "ask"):
                asyncio.ensure_future(client.post(url, data=request("tools/call", {"name": kind})))
        print("ready", flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@dataclass
class Met:
    """A desk that serves one folder over everything, and an HTTP client."""

    desk: RunningDesk
    client: aiohttp.ClientSession
    url: str
    folder: Path

    @property
    def others(self) -> list[ClientView]:
        return [one for one in self.desk.view().clients if one.transport != "memory" and one.left is None]

    @asynccontextmanager
    async def stranger(self, kind: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """A client in a separate process."""
        met_there = await asyncio.to_thread(rendezvous.find_desk, self.folder)
        assert met_there is not None
        with met_there:
            place = met_there.fileno()
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", STRANGER, kind, self.url, str(place)),
                pass_fds=[place],
                stdout=asyncio.subprocess.PIPE,
            )
        try:
            assert process.stdout is not None and await process.stdout.readline() == b"ready\n"
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def only(self) -> ClientView:
        """The one client that called itself something."""
        await until(lambda: len(self.others) == 1 and self.others[0].name == "tester 1")
        return self.others[0]

    def tools_used(self, client: ClientView) -> list[tuple[str, CallTally]]:
        while self.desk.traffic.catch_up():
            pass
        return self.desk.traffic.statistics.tools_of(client.server, client.name)

    def post(self, message: dict[str, Any], **headers: str) -> Any:
        named = HEADERS | {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.post(self.url, data=orjson.dumps(message), headers=named)

    def modern(self, message: dict[str, Any]) -> Any:
        named = {"MCP_Protocol_Version": LATEST.name, "Mcp_Method": message["method"]}
        if "name" in message["params"]:
            named["Mcp_Name"] = message["params"]["name"]
        return self.post(message, **named)

    async def shake_hands(self) -> dict[str, str]:
        """Open a session; returns the headers that belong to it."""
        async with self.post(request("initialize", OPENING)) as answer:
            session = {"Mcp_Session_Id": answer.headers["Mcp-Session-Id"]}
        async with self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, **session):
            return session


def detail_of(found: Met, client: ClientView) -> ClientDetail:
    detail = found.desk.client(client.connection)
    assert detail is not None
    return detail


def session_of(found: Met, client: ClientView) -> SessionView:
    session = detail_of(found, client).session
    assert session is not None
    return session


@asynccontextmanager
async def met(folder: Path) -> AsyncIterator[Met]:
    (folder / "tools").mkdir()
    (folder / "mcp.json").write_text('{"name": "own"}', encoding="utf-8")
    (folder / "tools/own.py").write_text(CODE, encoding="utf-8")
    (folder / "resources").mkdir()
    (folder / "resources/a.md").write_text("A", encoding="utf-8")
    async with running_desk(folder, http=True, accepts_pumps=True) as desk:
        await until(lambda: desk.view().servers[0].url)
        url = desk.view().servers[0].url
        timeout = aiohttp.ClientTimeout(total=WITHIN_S)
        async with aiohttp.ClientSession(timeout=timeout) as client:
            yield Met(desk, client, url, folder)


async def test_a_session_shows_its_age_streams_subscriptions_and_capabilities(tmp_path: Path) -> None:
    async with met(tmp_path) as found:
        session = await found.shake_hands()
        for method, params in (
            ("resources/subscribe", {"uri": "resource://a"}),
            ("tools/call", {"name": "quick"}),
        ):
            async with found.post(request(method, params), **session):
                pass
        seen = await found.only()
        assert (seen.server, seen.transport, seen.revision) == ("own", "http", "2025-11-25")
        await until(lambda: found.others[0].p95_s is not None)
        assert seen.tools is ToolsSeen.NEVER
        detail = found.desk.client(seen.connection)
        assert detail is not None and detail.session is not None
        assert detail.capabilities == FORMS and detail.receives_list_changes
        assert detail.subscribed == ("resource://a",) and detail.running == ()
        assert (
            detail.session.expires_in_s is not None
            and 0 < detail.session.expires_in_s <= detail.session_ttl_s
        )
        assert not detail.session.has_get_stream
        headers = {"Mcp-Session-Id": session["Mcp_Session_Id"], "Accept": "text/event-stream"}
        async with found.client.get(found.url, headers=headers):
            await until(lambda: session_of(found, seen).has_get_stream)
            assert session_of(found, seen).expires_in_s is None


async def test_listed_tools_are_fresh_until_they_change(tmp_path: Path) -> None:
    async with met(tmp_path) as found:
        session = await found.shake_hands()
        async with found.post(request("tools/list"), **session):
            pass
        await found.only()
        assert found.others[0].tools is ToolsSeen.FRESH
        before = found.desk.catalogue("own").version
        path = tmp_path / "tools/own.py"
        path.write_text(f"\n\n{path.read_text(encoding='utf-8')}\nOTHER_CODE = 1\n", encoding="utf-8")
        found.desk.reload("own")
        await until(lambda: found.desk.catalogue("own").version != before)
        assert found.others[0].tools is ToolsSeen.FRESH, "code is nothing that a client lists"
        (tmp_path / "tools/more.py").write_text("async def more() -> str:\n    return ''\n", encoding="utf-8")
        found.desk.reload("own")
        await until(lambda: [each.tools for each in found.others] == [ToolsSeen.STALE])
        found.desk.disconnect(found.others[0].connection)
        await until(lambda: not found.others)
        (left,) = [one for one in found.desk.view().clients if one.left is not None]
        assert left.tools is ToolsSeen.STALE


async def test_refused_requests_and_failed_tools_are_errors_of_a_client(tmp_path: Path) -> None:
    async with met(tmp_path) as found:
        session = await found.shake_hands()
        for tool, arguments in (("quick", {}), ("quick", {"no": "such"}), ("nothing", {})):
            params = {"name": tool, "arguments": arguments}
            async with found.post(request("tools/call", params), **session):
                pass
        client = await found.only()
        assert (client.calls, client.errors) == (3, 2)
        assert [(tool, used.calls, used.errors) for tool, used in found.tools_used(client)] == [
            ("quick", 2, 1),
            ("nothing", 1, 1),
        ]


async def test_clients_and_statistics_count_the_same_calls(tmp_path: Path) -> None:
    async with met(tmp_path) as found:
        session = await found.shake_hands()
        asked: tuple[tuple[str, dict[str, Any]], ...] = (
            ("tools/list", {}),
            ("tools/call", {"name": "quick"}),
            ("resources/read", {"uri": "file:///none"}),
            ("prompts/get", {"name": "none"}),
            ("no/such", {}),
        )
        for method, params in asked:
            async with found.post(request(method, params), **session):
                pass
        client = await found.only()
        traffic = found.desk.traffic
        await until(lambda: not traffic.catch_up() and not traffic.statistics.update())
        tally = traffic.statistics.sums(Subject.CLIENT)["own", client.name]
        assert (client.calls, client.errors) == (tally.calls, tally.errors) == (3, 2)


async def test_a_tool_that_could_have_asked_counts_as_failed(tmp_path: Path) -> None:
    async with met(tmp_path) as found:
        failing = stateless("tools/call", {"name": "quick", "arguments": {"no": "such"}})
        async with found.modern(failing) as answer:
            assert (await answer.json())["result"]["isError"]
        client = await found.only()
        assert (client.calls, client.errors) == (1, 1)


async def test_questions_to_the_client_and_parked_operations_show(tmp_path: Path) -> None:
    async with met(tmp_path) as found:
        async with found.modern(stateless("tools/call", {"name": "hello"})) as answer:
            assert (await answer.json())["result"]["resultType"] == "input_required"
        seen = await found.only()
        detail = found.desk.client(seen.connection)
        assert detail is not None
        assert detail.parked == (ParkedOperation("tools/call", "hello", ("elicitation/create",)),)
        assert detail.capabilities == FORMS and detail.session is None


async def test_a_call_that_asks_its_client_is_running(tmp_path: Path) -> None:
    async with met(tmp_path) as found:
        session = await found.shake_hands()
        async with found.post(request("tools/call", {"name": "hello"}), **session):
            seen = await found.only()
            await until(lambda: detail_of(found, seen).running)
            (call,) = detail_of(found, seen).running
            assert (call.method, call.name, call.asks) == ("tools/call", "hello", 1)


async def test_listen_streams_show_their_filters(tmp_path: Path) -> None:
    wanted = {"toolsListChanged": True, "resourceSubscriptions": ["resource://a"]}
    listen = stateless("subscriptions/listen", {"notifications": wanted})
    async with met(tmp_path) as found, found.modern(listen):
        seen = await found.only()
        await until(lambda: detail_of(found, seen).listens)
        detail = detail_of(found, seen)
        assert detail.listens == (("toolsListChanged", "resource://a"),)
        assert detail.running == () and not detail.receives_list_changes


async def test_disconnecting_ends_a_session(tmp_path: Path) -> None:
    async with met(tmp_path) as found:
        session = await found.shake_hands()
        found.desk.disconnect((await found.only()).connection)
        await until(lambda: not found.others)
        async with found.post(request("tools/list"), **session) as answer:
            assert answer.status == 404


async def test_disconnecting_closes_a_connection_without_a_session(tmp_path: Path) -> None:
    async with met(tmp_path) as found:
        wanted = {"notifications": {"toolsListChanged": True}}
        async with found.modern(stateless("subscriptions/listen", wanted)) as answer:
            found.desk.disconnect((await found.only()).connection)
            with pytest.raises((aiohttp.ClientError, ConnectionError)):
                await answer.read()
        await until(lambda: not found.others)


async def test_disconnecting_closes_a_websocket_and_an_event_stream(tmp_path: Path) -> None:
    async with met(tmp_path) as found:
        async with found.client.ws_connect(f"{found.url}/ws") as socket:
            await socket.send_str(orjson.dumps(request("initialize", OPENING)).decode())
            await socket.receive()
            found.desk.disconnect((await found.only()).connection)
            assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
        await until(lambda: not found.others)
        async with found.client.get(f"{found.url}/sse", headers={"Accept": "text/event-stream"}) as stream:
            await until(lambda: len(found.others) == 1)
            found.desk.disconnect(found.others[0].connection)
            await stream.read()
        await until(lambda: not found.others)


async def test_disconnecting_closes_a_pipe(tmp_path: Path) -> None:
    async with met(tmp_path) as found:
        place = await asyncio.to_thread(rendezvous.find_desk, tmp_path)
        assert place is not None
        reader, writer = await asyncio.open_unix_connection(sock=place)
        writer.write(orjson.dumps(request("initialize", OPENING)) + b"\n")
        await reader.readline()
        found.desk.disconnect((await found.only()).connection)
        async with within():
            assert await reader.read() == b""
        writer.close()
        await until(lambda: not found.others)


async def test_nobody_of_that_number_is_no_trouble(tmp_path: Path) -> None:
    async with met(tmp_path) as found:
        found.desk.disconnect(10**9)
        assert found.desk.client(10**9) is None


async def test_very_many_peers_are_looked_at_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MANY_CLIENTS", 1)
    async with met(tmp_path) as found:
        await found.shake_hands()
        await found.only()
        assert found.desk.view().clients is found.desk.view().clients


@pytest.mark.process
@pytest.mark.parametrize("kind", ["pipe", "websocket"])
async def test_a_killed_client_of_a_pipe_or_socket_has_left_at_once(tmp_path: Path, kind: str) -> None:
    async with met(tmp_path) as found, found.stranger(kind) as process:
        seen = await found.only()
        assert seen.seen is None and connected(found.desk.view().clients, time.time()) == 1
        process.kill()
        await until(lambda: not found.others)
        (left,) = [one for one in found.desk.view().clients if one.transport != "memory"]
        assert left.connection == seen.connection and left.presence(time.time()) is Presence.LEFT
        assert connected(found.desk.view().clients, time.time()) == 0
        detail = found.desk.client(left.connection)
        assert detail is not None and detail.has_left and not detail.receives_list_changes


@pytest.mark.process
@pytest.mark.parametrize("kind", ["stream", "wait"])
async def test_a_killed_client_of_a_session_is_last_seen_when_its_connection_was_lost(
    tmp_path: Path, kind: str
) -> None:
    async with met(tmp_path) as found, found.stranger(kind) as process:
        await until(lambda: found.others and found.others[0].seen is None)
        before = time.time()
        assert (await found.only()).presence(before + 10 * QUIET_S) is Presence.CONNECTED
        process.kill()
        await until(lambda: found.others[0].seen is not None)
        (lost,) = found.others
        assert lost.seen is not None and lost.presence(lost.seen + QUIET_S) is Presence.CONNECTED
        assert lost.presence(lost.seen + QUIET_S + 1) is Presence.QUIET
        assert connected(found.others, lost.seen + QUIET_S + 1) == 0
        is_running = bool(detail_of(found, lost).running)
        assert is_running == (kind == "wait")


@pytest.mark.process
async def test_a_session_without_a_stream_is_last_seen_with_its_last_request(tmp_path: Path) -> None:
    async with met(tmp_path) as found, found.stranger("posts") as process:
        await until(lambda: found.others and found.others[0].seen is not None)
        process.kill()
        await process.wait()
        (lost,) = found.others
        assert lost.seen is not None and lost.opened <= lost.seen <= time.time()
        assert lost.presence(time.time() + QUIET_S + 1) is Presence.QUIET


@pytest.mark.process
async def test_a_client_that_comes_back_is_not_among_those_that_left(tmp_path: Path) -> None:
    async with met(tmp_path) as found:
        for _ in range(2):
            async with found.stranger("pipe"):
                seen = await found.only()
                views = [one for one in found.desk.view().clients if one.transport != "memory"]
                assert [one.connection for one in views] == [seen.connection]
            await until(lambda: not found.others)
        assert len([one for one in found.desk.view().clients if one.left is not None]) == 1


async def over_a_session(found: Met, *messages: dict[str, Any]) -> None:
    """Open a session, send messages and end it."""
    session = await found.shake_hands()
    for message in messages:
        async with found.post(message, **session):
            pass
    async with found.client.delete(found.url, headers={"Mcp-Session-Id": session["Mcp_Session_Id"]}):
        pass


async def over_connections(found: Met, *messages: dict[str, Any]) -> None:
    """Send each message over a separate connection, without a session."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as client:
        for message in messages:
            async with Met(found.desk, client, found.url, found.folder).post(message):
                pass


async def over_a_pipe(found: Met, *messages: dict[str, Any]) -> None:
    """Connect as `mcpdesk stdio` does, send messages and disconnect."""
    met_there = await asyncio.to_thread(rendezvous.find_desk, found.folder)
    assert met_there is not None
    reader, writer = await asyncio.open_unix_connection(sock=met_there)
    for message in (request("initialize", OPENING), *messages):
        writer.write(orjson.dumps(message) + b"\n")
        await reader.readline()
    writer.close()


@pytest.mark.parametrize("visit", [over_a_session, over_connections, over_a_pipe])
async def test_a_client_that_connects_three_times_has_one_row_with_all_its_calls(
    tmp_path: Path, visit: Callable[..., Awaitable[None]]
) -> None:
    quick: dict[str, Any] = {"name": "quick", "arguments": {}}
    wrong = quick | {"name": "none"}
    async with met(tmp_path) as found:

        def rows() -> list[ClientView]:
            return [each for each in found.desk.view().clients if each.transport != "memory"]

        await visit(found, request("tools/list"), request("tools/call", quick))
        await visit(found, request("tools/call", wrong))
        await visit(found, request("tools/call", quick), request("tools/call", quick))
        connections = 5 if visit is over_connections else 3
        await until(lambda: [each.connections for each in rows() if each.left is not None] == [connections])
        (left,) = rows()
        assert (left.calls, left.errors, left.tools) == (4, 1, ToolsSeen.FRESH)
        assert left.p50_s is not None
        detail = detail_of(found, left)
        told = client_text(left, detail, time.time()).plain
        assert f"over {left.connections} connections" in told
        traffic = found.desk.traffic
        await until(lambda: not traffic.catch_up() and not traffic.statistics.update())
        tally = traffic.statistics.sums(Subject.CLIENT)["own", left.name]
        assert (tally.calls, tally.errors) == (left.calls, left.errors)


async def test_rows_of_simultaneous_connections_sum_up_to_all_calls(tmp_path: Path) -> None:
    async with met(tmp_path) as found:
        quick = request("tools/call", {"name": "quick", "arguments": {}})
        await over_a_session(found, quick, quick)
        sessions = [await found.shake_hands() for _ in range(2)]
        for session in sessions:
            async with found.post(quick, **session):
                pass
        first, second = sorted(found.others, key=lambda one: one.connection)
        assert [(one.calls, one.connections) for one in (first, second)] == [(3, 2), (1, 1)]
        assert len([one for one in found.desk.view().clients if one.transport != "memory"]) == 2
        found.desk.disconnect(first.connection)
        await until(lambda: len(found.others) == 1)
        (stays,) = [one for one in found.desk.view().clients if one.transport != "memory"]
        assert (stays.connection, stays.calls, stays.connections) == (second.connection, 4, 3)


async def test_clients_that_are_not_kept_are_counted_in_one_row(tmp_path: Path) -> None:
    async with met(tmp_path) as found:
        quick = request("tools/call", {"name": "quick", "arguments": {}})
        for number in range(MAX_FORMER_CLIENTS + 3):
            named = OPENING | {"clientInfo": {"name": f"visitor {number}", "version": "1"}}
            async with found.post(request("initialize", named)) as answer:
                session = {"Mcp_Session_Id": answer.headers["Mcp-Session-Id"]}
            async with found.post(quick, **session):
                pass
            async with found.client.delete(found.url, headers={"Mcp-Session-Id": session["Mcp_Session_Id"]}):
                pass
        await until(lambda: not found.others)
        rows = [each for each in found.desk.view().clients if each.transport != "memory"]
        assert (
            len(rows) == MAX_FORMER_CLIENTS + 1 and sum(each.calls for each in rows) == MAX_FORMER_CLIENTS + 3
        )
        (others,) = [each for each in rows if not each.transport]
        assert (others.name, others.calls, others.connections) == ("(3 earlier clients)", 3, 3)
        assert title_of(others) == "(3 earlier clients) · own"
        assert detail_of(found, others).has_left


@pytest.mark.process
async def test_a_question_names_the_session_that_asks_and_that_turns_quiet_when_its_client_is_killed(
    tmp_path: Path,
) -> None:
    async with met(tmp_path) as found, found.stranger("ask") as process, found.stranger("posts"):
        await until(lambda: found.desk.questions() and len(found.others) == 2)
        (question,) = found.desk.questions()
        asking, other = sorted(found.others, key=lambda one: one.connection != question.connection)
        assert (asking.connection, asking.name) == (question.connection, other.name)
        assert absence_reason(question, found.desk.view().clients, time.time() + 840) == ""
        process.kill()
        await until(lambda: absence_reason(question, found.desk.view().clients, time.time() + 840))
        assert absence_reason(question, found.desk.view().clients, time.time() + 840).startswith("quiet 1")
