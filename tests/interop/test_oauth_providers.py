"""Logins at the OAuth providers of the official SDK and of FastMCP: login, renewal, revocation.

FastMCP is fetched by uv; where that is not possible, its cases are skipped with the reason.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace

from mcpdesk.client.oauth.stored_grants import FILE_NAME, PrivateFile, StoredGrants
from mcpdesk.client.oauth.values import OAuthGrant
from tests.support.patience import within
from tests.support.ports import free_port
from tests.support.registries import needs_python_package

pytestmark = pytest.mark.slow

START_S = 60.0
"""Seconds that the start of a newly downloaded program may take."""
SDK = '''
import secrets, sys, time
from mcp.server.auth.provider import (
    AccessToken, AuthorizationCode, RefreshToken, construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthToken


class Tokens:
    """The least that the handlers of the SDK need of a provider."""

    def __init__(self):
        self.clients, self.auth_codes, self.access_tokens, self.refresh_tokens = {}, {}, {}, {}

    async def get_client(self, client_id):
        return self.clients.get(client_id)

    async def register_client(self, client_info):
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client, params):
        code = secrets.token_urlsafe(24)
        self.auth_codes[code] = AuthorizationCode(
            code=code, scopes=params.scopes or ["read"], expires_at=time.time() + 60,
            client_id=client.client_id, code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(self, client, authorization_code):
        return self.auth_codes.get(authorization_code)

    async def exchange_authorization_code(self, client, authorization_code):
        del self.auth_codes[authorization_code.code]
        return self.issue(client, authorization_code.scopes)

    async def load_refresh_token(self, client, refresh_token):
        return self.refresh_tokens.get(refresh_token)

    async def exchange_refresh_token(self, client, refresh_token, scopes):
        del self.refresh_tokens[refresh_token.token]
        self.access_tokens.clear()
        return self.issue(client, scopes)

    def issue(self, client, scopes):
        access, refresh = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        end = int(time.time()) + 3600
        self.access_tokens[access] = AccessToken(
            token=access, client_id=client.client_id, scopes=scopes, expires_at=end
        )
        self.refresh_tokens[refresh] = RefreshToken(token=refresh, client_id=client.client_id, scopes=scopes)
        return OAuthToken(
            access_token=access, token_type="Bearer", expires_in=3600, scope=" ".join(scopes),
            refresh_token=refresh,
        )

    async def load_access_token(self, token):
        return self.access_tokens.get(token)

    async def revoke_token(self, token):
        self.access_tokens.pop(token.token, None)
        self.refresh_tokens.pop(token.token, None)
'''
FASTMCP = """
import sys
from fastmcp import FastMCP
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider as Tokens
from mcp.server.auth.settings import ClientRegistrationOptions, RevocationOptions
"""
STRICT = '''
from starlette.responses import JSONResponse


class Provider(Tokens):
    """Takes each refresh token once, and revokes the whole family when one comes again."""

    def __init__(self, **how):
        super().__init__(**how)
        self.used, self.counts = set(), {"renewals": 0, "reused": 0, "revoked": 0}

    async def load_refresh_token(self, client, refresh_token):
        if refresh_token in self.used:
            self.counts["reused"] += 1
            self.revoke_family()
        return await super().load_refresh_token(client, refresh_token)

    async def exchange_refresh_token(self, client, refresh_token, scopes):
        self.used.add(refresh_token.token)
        self.counts["renewals"] += 1
        return await super().exchange_refresh_token(client, refresh_token, scopes)

    async def revoke_token(self, token):
        self.counts["revoked"] += 1
        await super().revoke_token(token)

    def revoke_family(self):
        self.access_tokens.clear()
        self.refresh_tokens.clear()


port = int(sys.argv[1])
url = f"http://127.0.0.1:{port}"
registration = ClientRegistrationOptions(enabled=True, valid_scopes=["read"], default_scopes=["read"])
revocation = RevocationOptions(enabled=True)
'''
SDK_SERVER = """
provider = Provider()
auth = AuthSettings(
    issuer_url=url, resource_server_url=f"{url}/mcp", client_registration_options=registration,
    revocation_options=revocation, required_scopes=["read"], validate_token_resource=False,
)
server = MCPServer("guarded", auth_server_provider=provider, auth=auth)
run = lambda: server.run(transport="streamable-http", host="127.0.0.1", port=port)
"""
FASTMCP_SERVER = """
provider = Provider(
    base_url=url, client_registration_options=registration, revocation_options=revocation,
    required_scopes=["read"],
)
server = FastMCP("guarded", auth=provider)
run = lambda: server.run(transport="http", host="127.0.0.1", port=port)
"""
ROUTES = '''
@server.custom_route("/counts", methods=["GET"])
async def counts(request):
    return JSONResponse(provider.counts)


@server.custom_route("/drop", methods=["POST"])
async def drop(request):
    """Forget the access tokens, as if they had expired, or the whole family."""
    if request.query_params["what"] == "family":
        provider.revoke_family()
    else:
        provider.access_tokens.clear()
    return JSONResponse({})


@server.tool()
def hello(name: str) -> str:
    return "hello " + name


run()
'''
PROVIDERS = {
    "sdk-2": ("", SDK + STRICT + SDK_SERVER + ROUTES),
    "fastmcp-2": ("fastmcp>=2,<3", FASTMCP + STRICT + FASTMCP_SERVER + ROUTES),
    "fastmcp-4": ("fastmcp>=4,<5", FASTMCP + STRICT + FASTMCP_SERVER + ROUTES),
}
"""Name -> the package that uv installs (empty: one of this environment), and the server."""


class Site:
    """A server with its authorization server, and the tokens a person has for it."""

    def __init__(self, origin: str, state: Path) -> None:
        self.origin = origin
        self.url = f"{origin}/mcp"
        self.state = state
        self.store = StoredGrants(PrivateFile(state / FILE_NAME), state)

    @property
    def grant(self) -> OAuthGrant:
        """The stored token."""
        found = self.store.grant(self.url)
        assert found is not None
        return found

    def expire(self) -> None:
        """Let the stored token have expired."""
        self.store.store(self.url, replace(self.grant, expires=1.0))

    async def counts(self) -> dict[str, int]:
        """Renewals, reused refresh tokens, and revocations so far."""
        async with aiohttp.ClientSession() as client, client.get(f"{self.origin}/counts") as answer:
            return dict(await answer.json())

    async def drop(self, what: str) -> None:
        """Have the server forget `access` tokens, or the `family`."""
        url = f"{self.origin}/drop"
        async with aiohttp.ClientSession() as client, client.post(url, params={"what": what}) as answer:
            assert answer.status == 200

    async def is_accepted(self, token: str) -> bool:
        """True if the server takes a token."""
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
        message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        async with (
            aiohttp.ClientSession() as client,
            client.post(self.url, json=message, headers=headers) as answer,
        ):
            return answer.status != 401

    async def mcpdesk(self, *arguments: str, logs_in: bool = False) -> tuple[int, str, str]:
        """Run a command; a person visits the address it prints."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "mcpdesk", *arguments,
            env=os.environ | {
                "MCPDESK_STATE_DIR": str(self.state),
                "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
            },
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None and process.stderr is not None
        said = b""
        async with within():
            if logs_in:
                while (line := await process.stderr.readline()) and not line.startswith(b"http"):
                    said += line
                assert line, said
                async with aiohttp.ClientSession() as browser, browser.get(line.decode().strip()) as page:
                    assert "You are logged in" in await page.text()
            out, err = await process.communicate()
        assert process.returncode is not None
        return process.returncode, out.decode(), (said + err).decode()

    async def log_in(self) -> None:
        """Log in with a browser."""
        code, out, err = await self.mcpdesk("login", self.url, logs_in=True)
        assert (code, f"Logged in to {self.url}" in out) == (0, True), err


@contextmanager
def serving(name: str, folder: Path) -> Iterator[str]:
    """Run a server; yields its origin."""
    requirement, text = PROVIDERS[name]
    python: tuple[str, ...] = (sys.executable,)
    if requirement:
        needs_python_package(requirement)
        python = ("uv", "run", "--no-project", "-q", "--with", requirement, "python")
    program, port = folder / "server.py", free_port()
    program.write_text(text)
    with (folder / "log").open("wb") as log, subprocess.Popen(
        [*python, str(program), str(port)],
        stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            asyncio.run(_answering(f"http://127.0.0.1:{port}/counts", process, folder / "log"))
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, 9)


async def _answering(url: str, process: subprocess.Popen[Any], log: Path) -> None:
    async with within(within_s=START_S), aiohttp.ClientSession() as client:
        while True:
            assert process.poll() is None, log.read_text()
            try:
                async with client.get(url) as answer:
                    assert answer.status == 200
                    return
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.05)


@pytest.fixture(scope="module", params=PROVIDERS)
def origin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running server of each kind."""
    with serving(request.param, tmp_path_factory.mktemp("provider")) as found:
        yield found


@pytest.fixture
def site(origin: str, tmp_path: Path) -> Site:
    """The server, for a person without a login."""
    return Site(origin, tmp_path)


async def test_a_login_is_renewed_and_revoked(site: Site) -> None:
    code, _, err = await site.mcpdesk("list", site.url)
    assert (code, "Log in: mcpdesk login http" in err) == (3, True), err
    before = await site.counts()
    await site.log_in()
    first = site.grant
    assert first.refresh_token and await site.is_accepted(first.access_token)
    assert (await site.mcpdesk("call", site.url, "hello", "name=Ada"))[:2] == (0, "hello Ada\n")
    assert site.grant == first
    site.expire()
    code, out, err = await site.mcpdesk("call", site.url, "hello", "name=Ada")
    assert (code, out) == (0, "hello Ada\n"), err
    second = site.grant
    assert second.access_token != first.access_token and not await site.is_accepted(first.access_token)
    code, out, err = await site.mcpdesk("logout", site.url)
    assert (code, "was revoked and forgotten" in out) == (0, True), err
    assert not await site.is_accepted(second.access_token)
    after = await site.counts()
    assert (after["renewals"] - before["renewals"], after["revoked"] > before["revoked"]) == (1, True)
    assert (await site.mcpdesk("list", site.url))[0] == 3


async def test_a_revoked_login_is_named_and_can_be_begun_again(site: Site) -> None:
    await site.log_in()
    await site.drop("family")
    code, _, err = await site.mcpdesk("list", site.url)
    assert (code, "the stored login is no longer valid" in err, "mcpdesk login URL" in err) == (3, True, True)
    await site.log_in()
    assert (await site.mcpdesk("call", site.url, "hello", "name=Ada"))[:2] == (0, "hello Ada\n")


@pytest.mark.parametrize("is_known", [True, False])
async def test_commands_that_meet_one_expired_token_renew_it_once(site: Site, is_known: bool) -> None:
    """`is_known`: the commands know that it has expired; otherwise they learn it from the server."""
    await site.log_in()
    before = await site.counts()
    if is_known:
        site.expire()
    else:
        await site.drop("access")
    calls = [site.mcpdesk("call", site.url, "hello", f"name={each}") for each in range(3)]
    ended = await asyncio.gather(*calls)
    assert [each[:2] for each in ended] == [(0, f"hello {each}\n") for each in range(3)], ended
    after = await site.counts()
    assert after == before | {"renewals": before["renewals"] + 1}
