"""Clients over stdio have their token in their environment, and see the tools that it permits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mcpdesk.auth.principal import OPEN
from mcpdesk.hosting.held_token import RULES_CHANGED
from mcpdesk.hosting.host import Host
from mcpdesk.hosting.host_plan import HostPlan
from mcpdesk.settings import resolve
from mcpdesk.transports.pipe import PipeRequest
from tests.support.folders import write
from tests.support.message_log import MessageLog
from tests.support.patience import until, within
from tests.support.tokens import AUDIENCE, ISSUER, SECRET, token

TOOLS = '''
    from mcpdesk import Context, tool

    @tool(read_only=True)
    async def free() -> str:
        """For everybody."""
        return "free"

    @tool(requires_jwt=True, read_only=True)
    async def whoami(ctx: Context) -> str:
        """For holders of a token."""
        return ctx.claims["sub"]

    @tool(scopes="send")
    async def send() -> str:
        """For those who may send."""
        return "sent"
    '''
JWT = {"algorithms": ["HS256"], "secret_env": "SECRET", "issuer": ISSUER, "audience": AUDIENCE}


def hosted(folder: Path, monkeypatch: pytest.MonkeyPatch, **auth: Any) -> Host:
    monkeypatch.setenv("SECRET", SECRET)
    manifest = json.dumps({"name": "wallet", "auth": {"requires_jwt": False, "jwt": JWT, **auth}})
    write(folder, {"mcp.json": manifest, "tools/t.py": TOOLS, "resources/r.txt": "r", "prompts/p.md": "Hi."})
    settings = resolve({"state_dir": str(folder / "state")}, {}).settings
    return Host(HostPlan((folder,), settings, http=False, accepts_pumps=False, watch=False))


@pytest.fixture
async def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Host]:
    core = hosted(tmp_path, monkeypatch)
    await core.start()
    yield core
    await core.stop()


class Client(MessageLog):
    """A client over a pipe, in the handshake era."""

    def __init__(self, host: Host, transport: str = "stdio", **environment: str) -> None:
        super().__init__()
        self._numbers = iter(range(1, 1000))
        given = environment if transport == "stdio" else None
        self.pipe = host.open_pipe(PipeRequest(None, transport, "tester", environment=given), self._came)

    def _came(self, data: bytes) -> None:
        self.receive(map(json.loads, data.splitlines()))

    async def open(self) -> Client:
        """Wait until the client's principal is known, and shake hands."""
        await self.pipe.identify()
        info = {"name": "tester", "version": "1"}
        await self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=info)
        return self

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """One request and its answer."""
        number = next(self._numbers)
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        while not self.pipe.feed(json.dumps(request).encode() + b"\n"):  # as a transport does
            await self.pipe.identify()
        return await self.response(number)

    async def names(self, kind: str = "tools", key: str = "name") -> list[str]:
        """Names in a list."""
        answer = await self.ask(f"{kind}/list")
        return sorted(each[key] for each in answer["result"][kind])

    async def call(self, name: str) -> str:
        """The text of a result, or the message of an error."""
        answer = await self.ask("tools/call", name=name, arguments={})
        return str(
            answer["error"]["message"] if "error" in answer else answer["result"]["content"][0]["text"]
        )


def logged(host: Host) -> list[str]:
    return [line.text for line in host.journal.lines() if "TOKEN" in line.text]


async def test_without_a_token_what_needs_one_is_neither_listed_nor_run(host: Host) -> None:
    client = await Client(host).open()
    assert await client.names() == ["free"]
    assert await client.call("free") == "free"
    told = "Unauthorized: missing JWT; over stdio, set MCPDESK_TOKEN in the environment of the client"
    assert await client.call("whoami") == told
    assert logged(host) == ["whoami, send are not listed for tester, whose environment has no MCPDESK_TOKEN"]
    plain = await Client(host, "unix").open()
    assert await plain.names() == ["free"]
    assert "over a Unix socket" in await plain.call("whoami")


async def test_a_token_that_the_server_does_not_check_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = hosted(tmp_path, monkeypatch)
    (tmp_path / "mcp.json").write_text('{"name": "wallet"}')
    await host.start()
    try:
        assert await (await Client(host, MCPDESK_TOKEN=token("HS256")).open()).names() == ["free"]
        assert logged(host) == [
            "whoami, send are not listed for tester, because mcp.json has no auth.jwt to check its"
            " MCPDESK_TOKEN"
        ]
    finally:
        await host.stop()


async def test_a_token_opens_what_its_scopes_allow(host: Host) -> None:
    ada = await Client(host, MCPDESK_TOKEN=token("HS256")).open()
    assert (await ada.names(), await ada.call("whoami")) == (["free", "whoami"], "ada")
    assert "lacks the scope send" in await ada.call("send")
    bob = await Client(host, MCPDESK_TOKEN=token("HS256", sub="bob", scope="send")).open()
    assert await bob.names() == ["free", "send", "whoami"]
    assert await ada.names() == ["free", "whoami"]
    assert logged(host) == []


async def test_a_token_that_is_not_valid_is_reported_with_the_reason(host: Host) -> None:
    late = await Client(host, MCPDESK_TOKEN=token("HS256", exp=1)).open()
    assert await late.names() == ["free"]
    assert logged(host) == ["tester: its MCPDESK_TOKEN is not valid here: it has expired"]
    assert await late.call("whoami") == (
        "Unauthorized: invalid JWT; of the token in MCPDESK_TOKEN: it has expired"
    )


async def test_a_token_that_expires_meanwhile_closes_what_it_opened(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await Client(host, MCPDESK_TOKEN=token("HS256")).open()
    held = client.pipe.token
    assert held is not None and await client.names() == ["free", "whoami"]
    monkeypatch.setattr(held._dialogue_token, "_clock", lambda: 1e12)
    assert await client.names() == ["free"]
    assert "it has expired" in await client.call("whoami")
    assert await client.call("free") == "free"


async def test_a_token_is_checked_again_when_mcp_json_asks_for_others(host: Host, tmp_path: Path) -> None:
    client = await Client(host, MCPDESK_TOKEN=token("HS256")).open()
    endpoint = host.endpoint("")
    assert endpoint is not None and await client.names() == ["free", "whoami"]
    manifest = json.loads((tmp_path / "mcp.json").read_text())
    manifest["auth"]["jwt"]["leeway_s"] = 5
    (tmp_path / "mcp.json").write_text(json.dumps(manifest))
    before = endpoint.access
    host.reload("wallet")
    await until(lambda: endpoint.access is not before)
    assert await client.names() == ["free", "whoami"]
    assert logged(host) == ["tester: its MCPDESK_TOKEN is not valid here: " + RULES_CHANGED]


async def test_a_client_that_connected_before_tokens_were_checked_is_known_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = hosted(tmp_path, monkeypatch)
    manifest = (tmp_path / "mcp.json").read_text()
    (tmp_path / "mcp.json").write_text('{"name": "wallet"}')
    await host.start()
    try:
        client = await Client(host, MCPDESK_TOKEN=token("HS256")).open()
        endpoint = host.endpoint("")
        assert endpoint is not None and await client.names() == ["free"]
        for text, names in ((manifest, ["free", "whoami"]), ('{"name": "wallet"}', ["free"])):
            (tmp_path / "mcp.json").write_text(text)
            before = endpoint.access
            host.reload("wallet")
            await until(lambda: endpoint.access is not before)
            assert await client.names() == names
        assert client.pipe.dialogue.conversation.principal is OPEN
    finally:
        await host.stop()


async def test_a_client_without_a_valid_token_hears_nothing_of_a_server_that_asks_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = hosted(tmp_path, monkeypatch, requires_jwt=True)
    await host.start()
    try:
        ada = await Client(host, MCPDESK_TOKEN=token("HS256")).open()
        nobody = await Client(host).open()
        for each in (ada, nobody):
            each.pipe.feed(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        hear = host.services.subscriptions.log
        assert hear("wallet", "notice", "news", "secret") == ["tester 1"]
        conversation = ada.pipe.dialogue.conversation
        conversation.principal = replace(conversation.principal, expires=1.0)
        assert hear("wallet", "notice", "news", "secret") == []
    finally:
        await host.stop()


async def test_a_refused_token_is_checked_again_when_mcp_json_changes(host: Host, tmp_path: Path) -> None:
    client = await Client(host, MCPDESK_TOKEN=token("HS256", aud="elsewhere")).open()
    assert await client.names() == ["free"]
    manifest = json.loads((tmp_path / "mcp.json").read_text())
    manifest["auth"]["jwt"]["audience"] = "elsewhere"
    (tmp_path / "mcp.json").write_text(json.dumps(manifest))
    host.reload("wallet")
    async with within():
        while await client.names() != ["free", "whoami"]:  # noqa: ASYNC110 (a reload sends no event)
            await asyncio.sleep(0.01)
    assert await client.call("whoami") == "ada"


async def test_a_server_that_asks_everybody_shows_nothing_without_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = hosted(tmp_path, monkeypatch, requires_jwt=True, scopes=["wallet"])
    await host.start()
    try:
        nobody = await Client(host).open()
        shown = [await nobody.names(kind) for kind in ("tools", "resources", "prompts")]
        assert shown == [[], [], []]
        assert logged(host) == [
            "wallet needs a token: none of it is listed for tester, whose environment has no MCPDESK_TOKEN"
        ]
        narrow = await Client(host, MCPDESK_TOKEN=token("HS256")).open()
        assert await narrow.names() == []
        ada = await Client(host, MCPDESK_TOKEN=token("HS256", scope="wallet")).open()
        shown = [await ada.names(kind) for kind in ("tools", "resources", "prompts")]
        assert shown == [["free", "whoami"], ["r"], ["p"]]
    finally:
        await host.stop()
