"""Guarded servers as programs, and the official client: with a token in hand, and with a sign-in."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import httpx2
import pytest
from aiohttp import web
from mcp import Client
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from mcpdesk.paths import sample_servers
from tests.cli.conftest import Service, started_services
from tests.support import messages, official
from tests.support.curl import JSON, FetchResult, fetch
from tests.support.features import needs_feature
from tests.support.folders import write
from tests.support.patience import WITHIN_S
from tests.support.tokens import SECRET, jwk, jwks, token

WALLET = sample_servers() / "wallet"
ISSUE: Callable[..., str] = runpy.run_path(str(WALLET / "issue_token.py"))["issue"]


@pytest.fixture(scope="module")
def wallet_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """State folder of the served sample."""
    return tmp_path_factory.mktemp("wallet-state")


@pytest.fixture(scope="module")
def wallet(wallet_state: Path) -> Iterator[str]:
    """URL of the served sample."""
    with pytest.MonkeyPatch.context() as patch, started_services() as serve:
        patch.setenv("WALLET_SECRET", SECRET)
        patch.setenv("MCPDESK_STATE_DIR", str(wallet_state))
        yield url_of(serve(str(WALLET), "--port", "0"), "wallet")


def url_of(service: Service, name: str) -> str:
    return service.says(f"serving {name} at").rpartition(" ")[2]


async def call(url: str, tool: str, bearer: str = "", **arguments: Any) -> FetchResult:
    headers = JSON | ({"Authorization": f"Bearer {bearer}"} if bearer else {})
    return await fetch(url, json.dumps(messages.call(tool, **arguments)), headers)


def text_of(answer: FetchResult) -> str:
    return messages.text_of(answer.json)


@pytest.mark.process
async def test_the_wallet_serves_everybody_a_token_and_a_scope(wallet: str) -> None:
    assert text_of(await call(wallet, "convert", cents=100)) == "1.00 EUR = 1.09 USD"
    missing = await call(wallet, "whoami")
    assert (missing.status, missing.json["error"]["code"]) == (401, -32001)
    reader, payer = ISSUE(SECRET, "ada", "wallet:read"), ISSUE(SECRET, "ada", "wallet")
    assert text_of(await call(wallet, "balance", reader)) == "ada has 100.00 EUR."
    assert (await call(wallet, "history", ISSUE(SECRET, "ada"))).status == 403
    refused = await call(wallet, "send", reader, to="bob", cents=150)
    assert refused.status == 403 and 'scope="wallet:send"' in refused.headers["www-authenticate"]
    own = {"__jwt": {"sub": "bob", "address": "bob", "tokenId": ""}}
    assert (
        text_of(await call(wallet, "send", payer, to="bob", cents=150, **own)) == "ada sent 1.50 EUR to bob."
    )
    broke = await call(wallet, "send", payer, to="bob", cents=10**9)
    assert broke.json["result"]["isError"] and broke.json["result"]["structuredContent"]["balance"] == 9850
    paid = (await call(wallet, "history", payer)).json["result"]["structuredContent"]["payments"]
    assert [(each["sender"], each["amount"]) for each in paid] == [("ada", 150)]
    assert (await call(wallet, "mint", payer, to="ada", cents=1)).json["error"]["code"] == -32602
    look = f"{wallet}?mode=look"
    unknown = await call(look, "send", payer, to="bob", cents=1)
    assert unknown.json["error"]["code"] == -32602
    assert (await call(look, "whoami")).status == 401
    assert "ada has" in text_of(await call(look, "balance", payer))


@needs_feature("contract")
@pytest.mark.process
def test_the_wallet_passes_check() -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "mcpdesk", "check", str(WALLET)],
        env={**os.environ, "WALLET_SECRET": SECRET}, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout
    assert "needs WALLET_MINT_KEY, an environment variable" in checked.stdout


@pytest.mark.process
def test_the_program_of_the_wallet_makes_tokens() -> None:
    made = subprocess.run(
        [sys.executable, str(WALLET / "issue_token.py"), "ada", "wallet:read"],
        env={"WALLET_SECRET": SECRET}, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert made.stdout.count(".") == 2
    helped = subprocess.run(
        [sys.executable, str(WALLET / "issue_token.py"), "--help"],
        env={"WALLET_SECRET": SECRET}, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert not helped.stdout and helped.stderr.startswith("usage: WALLET_SECRET=...")


@asynccontextmanager
async def connected(url: str, **how: Any) -> AsyncIterator[Client]:
    """The SDK's client, with headers or with a sign-in."""
    async with (
        httpx2.AsyncClient(**how) as http,
        Client(streamable_http_client(url, http_client=http), mode="auto") as client,
    ):
        yield client


async def called(client: Client, tool: str, **arguments: Any) -> str:
    return official.text_of(await client.call_tool(tool, arguments))


@pytest.mark.process
async def test_the_official_client_brings_a_token(wallet: str) -> None:
    headers = {"Authorization": f"Bearer {ISSUE(SECRET, 'eve', 'wallet')}"}
    async with connected(wallet, headers=headers) as client:
        assert "send" in [tool.name for tool in (await client.list_tools()).tools]
        assert await called(client, "balance") == "eve has 100.00 EUR."
        assert await called(client, "send", to="zoe", cents=5) == "eve sent 0.05 EUR to zoe."


@pytest.mark.process
@pytest.mark.parametrize("is_alone", [True, False])
async def test_over_a_pipe_the_token_is_in_the_environment(
    wallet: str, wallet_state: Path, is_alone: bool
) -> None:
    from mcp.client.stdio import stdio_client

    started = official.stdio(WALLET, *["--alone"] * is_alone)
    usual = {**(started.env or {}), "MCPDESK_STATE_DIR": str(wallet_state)}
    usual |= {"WALLET_SECRET": SECRET} if is_alone else {}
    started = started.model_copy(update={"env": usual})
    async with Client(stdio_client(started)) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["convert"]
        assert await called(client, "convert", cents=100) == "1.00 EUR = 1.09 USD"
        with pytest.raises(Exception, match="missing JWT; over stdio, set MCPDESK_TOKEN"):
            await client.call_tool("whoami", {})
    environment = {**usual, "MCPDESK_TOKEN": ISSUE(SECRET, "ada", "wallet:read")}
    async with Client(stdio_client(started.model_copy(update={"env": environment}))) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"convert", "whoami", "balance"} <= names and "send" not in names
        assert (await called(client, "balance")).startswith("ada has ")


@pytest.mark.process
async def test_no_key_and_no_token_is_in_the_capture_or_in_what_the_program_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, text = "a-key-that-nobody-may-find", ISSUE(SECRET, "ada", "wallet")
    for name, value in (("API_KEY", key), ("STATE_DIR", str(tmp_path))):
        monkeypatch.setenv(f"MCPDESK_{name}", value)
    monkeypatch.setenv("WALLET_SECRET", SECRET)
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "whoami", "arguments": {}},
    }
    usual = json.dumps(message | {"jwt": text})
    broken, escaped = usual[:-1], usual.replace('"jwt"', r'"\u006Awt"')
    known = JSON | {"X-API-Key": key}
    with started_services() as serve:
        service = serve(str(WALLET), "--port", "0")
        url = url_of(service, "wallet")
        page = {"Origin": url.partition("/mcp")[0], "Cookie": f"access_token={text}; other={key}"}
        sent = [
            await fetch(url, json.dumps(message), known | {"Authorization": f"Bearer {text}"}),
            await fetch(url, usual, known),
            await fetch(url, escaped, known),
            await fetch(url, json.dumps(message | {"data": {"jwt": text}}), known),
            await fetch(url, json.dumps(message), known | page),
            await fetch(f"{url}?access_token={text}", json.dumps(message), known),
            await fetch(url, broken, known),
            await fetch(url, json.dumps(message), known | {"Authorization": f"Bearer {text}x"}),
            await fetch(url, json.dumps(message), JSON | {"X-API-Key": f"{key}-and-more"}),
        ]
        assert [each.status for each in sent] == [200, 200, 200, 200, 200, 400, 400, 401, 403]
        async with aiohttp.ClientSession() as client, client.ws_connect(f"{url}/ws?api_key={key}") as socket:
            for line in (usual, escaped, broken):
                await socket.send_str(line)
                await socket.receive_str(timeout=WITHIN_S)
        assert service.end() == 0
        service.lines += [line.rstrip() for line in service.process.stderr or ()]
    captures = [path.read_text() for path in (tmp_path / "captures").iterdir()]
    kept = "\n".join([*captures, *service.lines])
    assert kept.count('"whoami"') >= 5 and "refused" in kept
    for secret in (key, text, text.rpartition(".")[2], SECRET):
        assert secret not in kept
        assert secret not in "".join(each.text for each in sent)


# A sign-in of the official client, from the first refusal to an answer


class Giver:
    """An authorization server: its metadata, its keys, and a token for every request."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[dict[str, str]] = []
        self.keys_read = 0

    async def metadata(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "issuer": self.url,
                "token_endpoint": f"{self.url}/token",
                "authorization_endpoint": f"{self.url}/authorize",
                "response_types_supported": ["code"],
                "grant_types_supported": ["client_credentials"],
                "token_endpoint_auth_methods_supported": ["client_secret_post"],
                "code_challenge_methods_supported": ["S256"],
            }
        )

    async def keys(self, request: web.Request) -> web.Response:
        self.keys_read += 1
        return web.Response(body=jwks(jwk("ES256", "giver")), content_type="application/json")

    async def token(self, request: web.Request) -> web.Response:
        asked = {name: str(value) for name, value in (await request.post()).items()}
        self.asked.append(asked)
        scope = asked.get("scope", "")
        given = token("ES256", "giver", iss=self.url, aud="guarded", sub="robot", scope=scope)
        return web.json_response(
            {"access_token": given, "token_type": "Bearer", "expires_in": 600, "scope": scope}
        )


@pytest.fixture
async def giver() -> AsyncIterator[Giver]:
    giver = Giver()
    app = web.Application()
    app.add_routes(
        [
            web.get("/.well-known/oauth-authorization-server", giver.metadata),
            web.get("/keys", giver.keys),
            web.post("/token", giver.token),
        ]
    )
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    giver.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield giver
    await runner.cleanup()


class Kept:
    """Token storage of the client."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@pytest.mark.process
@pytest.mark.requirement("11.1")
@pytest.mark.requirement("11.3")
async def test_the_official_client_finds_who_gives_tokens_and_gets_one(tmp_path: Path, giver: Giver) -> None:
    jwt = {
        "algorithms": ["ES256"],
        "jwks_url": f"{giver.url}/keys",
        "issuer": giver.url,
        "audience": "guarded",
    }
    auth = {
        "requires_jwt": True, "jwt": jwt, "scopes": ["read"], "authorization_servers": [giver.url],
        "tools": {"store": {"scopes": ["write"]}},
    }  # fmt: skip
    tools = """
        from mcpdesk import Context

        async def look(ctx: Context) -> str:
            return f"{ctx.claims['sub']} looked"

        async def store(ctx: Context) -> str:
            return f"{ctx.claims['sub']} stored"
        """
    folder = write(
        tmp_path, {"mcp.json": json.dumps({"name": "guarded", "auth": auth}), "tools/tools.py": tools}
    )
    with started_services() as serve:
        url = url_of(serve(str(folder), "--port", "0"), "guarded")
        login = ClientCredentialsOAuthProvider(
            url, Kept(), "robot", "word", "client_secret_post", issuer=giver.url
        )
        async with connected(url, auth=login) as client:
            assert await called(client, "look") == "robot looked"
            assert [each["scope"] for each in giver.asked] == ["read"]
            assert giver.asked[0]["resource"] == url
            assert await called(client, "store") == "robot stored"
            assert set(giver.asked[-1]["scope"].split()) == {"read", "write"}
            assert giver.keys_read == 1
