"""Clients of the handshake era keep their sessions after `mcpdesk serve` ended or was killed."""

from __future__ import annotations

import asyncio
import json
import os
import runpy
import signal
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from subprocess import PIPE
from typing import Any

import aiohttp
import msgspec
import pytest

from mcpdesk.paths import sample_servers
from mcpdesk.protocol.handshake import SessionState
from mcpdesk.transports.http.sessions.session_records import FILE_NAME, FOLDER, hash_id
from tests.cli.conftest import Service, started_services
from tests.interop.test_meeting import TICK, typescript  # noqa: F401 (a fixture)
from tests.support.official import session, text_of
from tests.support.patience import in_time, until, within
from tests.support.ports import free_port
from tests.support.tokens import SECRET

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
ENDINGS = (signal.SIGTERM, signal.SIGKILL)
MANIFEST = '{"name": "meeting", "version": "1.0.0", "builtins": ["PlanMode", "SetCallback", "TaskManager"]}'
SCRIPT = """
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { createInterface } from "node:readline";
const client = new Client({ name: "typescript", version: "1" });
const transport = new StreamableHTTPClientTransport(new URL(process.argv[2]));
await client.connect(transport);
for await (const line of createInterface({ input: process.stdin })) {
  const told = { who: "typescript", number: Number(line) };
  const result = await client.callTool({ name: "tick", arguments: told });
  console.log(JSON.stringify([transport.sessionId, result.content[0].text]));
}
process.exit(0);
"""
Start = Callable[..., Service]


class Wire:
    """A minimal client of one session. `headers` are sent with every request."""

    def __init__(self, http: aiohttp.ClientSession, url: str, **headers: str) -> None:
        self.url = url
        self.headers = {"Accept": "application/json, text/event-stream", **headers}
        self._http = http

    async def post(self, method: str, identifier: int | None = 1, **params: Any) -> tuple[int, Any]:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        sent = message if identifier is None else message | {"id": identifier}
        async with self._http.post(self.url, json=sent, headers=self.headers) as answer:
            if method == "initialize":
                self.headers["Mcp-Session-Id"] = answer.headers["Mcp-Session-Id"]
            return answer.status, await answer.json() if answer.content_type == "application/json" else None

    async def open(self) -> str:
        """Shake hands; returns the session's id."""
        info = {"name": "wire", "version": "1"}
        await self.post("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=info)
        await self.post("notifications/initialized", None)
        return self.headers["Mcp-Session-Id"]

    async def call(self, tool: str, **arguments: Any) -> str:
        """The text of a tool's result."""
        status, answer = await self.post("tools/call", name=tool, arguments=arguments)
        assert status == 200, answer
        return str(answer["result"]["content"][0]["text"])

    async def delete(self) -> int:
        async with self._http.delete(self.url, headers=self.headers) as answer:
            return answer.status

    @asynccontextmanager
    async def listening(self, last: str = "") -> AsyncIterator[aiohttp.ClientResponse]:
        """The standing stream."""
        headers = self.headers | {"Accept": "text/event-stream"} | ({"Last-Event-ID": last} if last else {})
        async with self._http.get(self.url, headers=headers) as answer:
            yield answer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A server folder with one tool and two built-in ones."""
    (tmp_path / "meeting" / "tools").mkdir(parents=True)
    (tmp_path / "meeting" / "tools" / "tick.py").write_text(TICK)
    (tmp_path / "meeting" / "mcp.json").write_text(MANIFEST)
    return tmp_path / "meeting"


class Place:
    """A service on one port that ends and begins again."""

    def __init__(self, start: Start, folder: Path, *options: str) -> None:
        self.port = free_port()
        self._start = partial(start, str(folder), "--port", str(self.port), *options)
        self.service = self._start()
        self.url = self.service.says(" at http").rpartition(" ")[2]

    async def restart(self, ending: signal.Signals) -> None:
        """End the service and start it again."""
        await self.end(ending)
        await self.begin()

    async def begin(self) -> None:
        self.service = self._start()
        await asyncio.to_thread(self.service.says, " at http")

    async def end(self, ending: signal.Signals) -> None:
        code = await asyncio.to_thread(self.service.end, ending)
        assert code == (0 if ending is signal.SIGTERM else -ending)


def files() -> list[Path]:
    return list((Path(os.environ["MCPDESK_STATE_DIR"]) / FOLDER).glob("*"))


def on_disk(statement: str, *values: object) -> list[Any]:
    """Rows of a statement, or [] if the table does not exist."""
    path = Path(os.environ["MCPDESK_STATE_DIR"]) / FOLDER / FILE_NAME
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=rw", uri=True)) as connection, connection:
            return connection.execute(statement, values).fetchall()
    except sqlite3.OperationalError:
        return []


def recorded(identifier: str) -> tuple[SessionState, int] | None:
    """State and restarts of a session on disk."""
    for state, restarts in on_disk("SELECT state, restarts FROM sessions WHERE id = ?", hash_id(identifier)):
        return msgspec.json.decode(state, type=SessionState), restarts
    return None


async def kept(identifier: str) -> SessionState:
    """Wait until a ready session is on disk."""
    await until(lambda: (found := recorded(identifier)) and found[0].is_ready)
    found = recorded(identifier)
    assert found is not None
    return found[0]


@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_session_goes_on_with_its_plan_its_subscriptions_and_its_stream(
    folder: Path, ending: signal.Signals
) -> None:
    with started_services() as start:
        place = Place(start, folder)
        async with within(within_s=60), aiohttp.ClientSession() as http:
            wire = Wire(http, place.url)
            identifier = await wire.open()
            first = (await wire.call("tick", who="wire", number=1)).split()[0]
            assert (await wire.post("resources/subscribe", uri="callback://later"))[0] == 200
            assert (await wire.post("logging/setLevel", level="error"))[0] == 200
            await wire.call("PlanMode", action="enter", goal="Move house")
            await until(lambda: (found := recorded(identifier)) and found[0].mark)
            for restarts in (1, 2):
                await place.restart(ending)
                second = (await wire.call("tick", who="wire", number=2)).split()[0]
                assert second != first
                assert "plan mode is on" in await wire.call("TaskManager", action="create", query="x")
                async with wire.listening("0:7") as stream:
                    assert stream.status == 200
                    # A changed tool is announced on the stream, whatever its number was before.
                    (folder / "tools" / "tick.py").write_text(
                        TICK.replace("The process", f"Process {restarts}")
                    )
                    while b"list_changed" not in (line := await stream.content.readline()):
                        assert line
                await until(lambda: (found := recorded(identifier)) and found[1] == restarts)
            state = await kept(identifier)
            assert (state.level, state.subscriptions) == ("error", ("callback://later",))


@pytest.mark.parametrize("ending", ENDINGS)
async def test_the_python_client_goes_on_without_noticing(folder: Path, ending: signal.Signals) -> None:
    with started_services() as start:
        place = Place(start, folder)
        async with within(within_s=60), session(place.url, "2025-11-25") as client:
            answers = []
            for number in (1, 2):
                result = await client.call_tool("tick", {"who": "python", "number": number})
                answers.append(text_of(result).split())
                if number == 1:
                    await until(lambda: on_disk("SELECT id FROM sessions"))
                    await place.restart(ending)
            assert [answer[1:] for answer in answers] == [["python", "1"], ["python", "2"]]
            assert answers[0][0] != answers[1][0]


@pytest.mark.parametrize("ending", ENDINGS)
async def test_the_typescript_client_goes_on_without_noticing(
    folder: Path,
    typescript: Path | None,  # noqa: F811
    ending: signal.Signals,
) -> None:
    if typescript is None:
        pytest.skip("Node or the npm registry is missing")
    (typescript / "restart.mjs").write_text(SCRIPT)
    with started_services() as start:
        place = Place(start, folder)
        client = await asyncio.create_subprocess_exec(
            "node", "restart.mjs", place.url, cwd=typescript, stdin=PIPE, stdout=PIPE
        )
        assert client.stdin and client.stdout
        try:
            told = []
            for number in (1, 2, 3):
                client.stdin.write(b"%d\n" % number)
                told.append(json.loads(await in_time(client.stdout.readline())))
                await kept(told[0][0])
                if number < 3:
                    await place.restart(ending)
            client.stdin.close()
            assert await in_time(client.wait()) == 0
        finally:
            if client.returncode is None:
                client.kill()
                await client.wait()
        assert len({identifier for identifier, _ in told}) == 1
        assert len({text.split()[0] for _, text in told}) == 3
        assert [text.split()[1:] for _, text in told] == [["typescript", str(each)] for each in (1, 2, 3)]


@pytest.mark.parametrize("ending", ENDINGS)
async def test_deleted_and_expired_sessions_stay_gone(folder: Path, ending: signal.Signals) -> None:
    with started_services() as start:
        place = Place(start, folder)
        async with within(within_s=60), aiohttp.ClientSession() as http:
            gone, old, fresh = (Wire(http, place.url) for _ in range(3))
            identifiers = [await each.open() for each in (gone, old, fresh)]
            for each in identifiers:
                await kept(each)
            assert await gone.delete() == 204
            await until(lambda: recorded(identifiers[0]) is None)
            await place.end(ending)
            # As if it had been used long ago.
            on_disk("UPDATE sessions SET used = 1.0 WHERE id = ?", hash_id(identifiers[1]))
            await place.begin()
            assert (await gone.post("ping"))[0] == (await old.post("ping"))[0] == 404
            assert (await fresh.post("ping"))[0] == 200


async def test_a_session_is_its_owners_alone_and_nothing_on_disk_tells_of_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WALLET_SECRET", SECRET)
    wallet = sample_servers() / "wallet"
    issue = runpy.run_path(str(wallet / "issue_token.py"))["issue"]
    ada, bob = (issue(SECRET, name, "wallet:read") for name in ("ada", "bob"))
    with started_services() as start:
        place = Place(start, wallet)
        async with within(within_s=60), aiohttp.ClientSession() as http:
            hers = Wire(http, place.url, Authorization=f"Bearer {ada}")
            identifier = await hers.open()
            await kept(identifier)
            for path in files():
                assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
                for word in (identifier, ada, ada[-20:], '"ada', "principal"):
                    assert word.encode() not in path.read_bytes()
            await place.restart(signal.SIGKILL)
            for headers in ({"Authorization": f"Bearer {bob}"}, {}):
                his = Wire(http, place.url, **headers, **{"Mcp-Session-Id": identifier})
                assert (await his.post("ping"))[0] == 404
                assert await his.delete() == 404
            assert (await hers.post("ping"))[0] == 200


async def test_a_session_begun_with_a_key_ends_with_that_key(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCPDESK_API_KEY", "the-first-key")
    with started_services() as start:
        place = Place(start, folder)
        async with within(within_s=60), aiohttp.ClientSession() as http:
            first = Wire(http, place.url, **{"X-API-Key": "the-first-key"})
            identifier = await first.open()
            await kept(identifier)
            monkeypatch.setenv("MCPDESK_API_KEY", "the-second-key")
            await place.restart(signal.SIGKILL)
            assert (await first.post("ping"))[0] == 403
            headers = {"X-API-Key": "the-second-key", "Mcp-Session-Id": identifier}
            assert (await Wire(http, place.url, **headers).post("ping"))[0] == 404
            monkeypatch.setenv("MCPDESK_API_KEY", "the-first-key")
            await place.restart(signal.SIGTERM)
            assert (await first.post("ping"))[0] == 200


async def test_of_two_services_of_a_folder_none_takes_the_sessions_of_the_other_while_it_lives(
    folder: Path,
) -> None:
    with started_services() as start:
        one, other = Place(start, folder), Place(start, folder)
        async with within(within_s=60), aiohttp.ClientSession() as http:
            wire = Wire(http, one.url)
            await kept(await wire.open())
            strayed = Wire(http, other.url, **{"Mcp-Session-Id": wire.headers["Mcp-Session-Id"]})
            assert (await strayed.post("ping"))[0] == 404
            await one.end(signal.SIGKILL)

            while (await strayed.post("ping"))[0] != 200:
                pass  # until the killed process has given its lock up
            await one.begin()
            assert (await wire.post("ping"))[0] == 404
