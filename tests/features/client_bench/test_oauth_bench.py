"""Verdicts of `oauth-bench` about good and bad clients, in this process and as the command."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import aiohttp
import pytest

from mcpdesk.cli.main import run
from mcpdesk.client.connection import ServerConnection
from mcpdesk.client.http_transports import StreamableHttp
from mcpdesk.client.oauth.authorizer import Authorizer
from mcpdesk.client.oauth.grants import ClientSetup
from mcpdesk.errors import AuthorizationError
from mcpdesk.features.client_bench import oauth_server
from mcpdesk.features.client_bench.bench_http import listening
from mcpdesk.features.client_bench.bench_report import CheckVerdict
from mcpdesk.features.client_bench.oauth_checks import checks, is_decided
from mcpdesk.features.client_bench.oauth_server import RENEWALS, SCOPE, BenchServer, Probe
from mcpdesk.testing.authorization_server import MAX_BODY_BYTES, MAX_FORM_FIELDS, IssuedToken
from tests.support.grants import GrantsInMemory
from tests.support.patience import until, within

BENCH_S = 150.0
"""Limit for a bench, which starts a client several times."""
CLIENT = str(Path(__file__).with_name("official_client.py"))
REDIRECT = "http://127.0.0.1:40404/callback"
PKCE = {
    "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
    "code_challenge_method": "S256",
}
"""Challenge of the verifier below. Source: RFC 7636, appendix B."""
VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"


@asynccontextmanager
async def _bench(probe: Probe = Probe.LOGIN, lifetime_s: float = 3600) -> AsyncIterator[BenchServer]:
    server = BenchServer(probe, lifetime_s, asks=False)
    async with listening(server.handle, 0) as origin:
        server.origin = origin
        yield server


def _verdicts(server: BenchServer, *, is_over: bool = True) -> dict[str, CheckVerdict]:
    return {
        each.name: each.verdict
        for each in checks(server.probe, server.observations, server.url, is_over=is_over)
    }


async def _visit(url: str) -> str:
    async with aiohttp.ClientSession() as browser, browser.get(url, allow_redirects=False) as answer:
        return answer.headers["Location"]


@asynccontextmanager
async def _desk(server: BenchServer) -> AsyncIterator[ServerConnection]:
    """Client of mcpdesk."""
    authorizer = Authorizer(server.url, ClientSetup(redirect_uri=REDIRECT), GrantsInMemory(), _visit)
    connection = ServerConnection(
        StreamableHttp(server.url, {}, authorizer=authorizer), {"name": "desk", "version": "1"}
    )
    try:
        yield connection
    finally:
        await connection.close()


async def _call(connection: ServerConnection) -> None:
    await connection.result("tools/call", {"name": "bench", "arguments": {}})


async def test_own_client_passes_every_check() -> None:
    class Bench(BenchServer):
        def issue(self, scopes: tuple[str, ...]) -> IssuedToken:
            # The client renews tokens that last less than ten seconds.
            self.lifetime_s = 5 if len(self.observations.renewals) < RENEWALS else 3600
            return super().issue(scopes)

    server = Bench(Probe.LOGIN, 5, asks=False)
    async with listening(server.handle, 0) as server.origin, _desk(server) as client:
        for _ in range(3):
            await _call(client)
        assert is_decided(Probe.LOGIN, server.observations, server.url)
        found = _verdicts(server, is_over=False)
    assert found.pop("registration") is CheckVerdict.FACT
    assert set(found.values()) == {CheckVerdict.PASS}, found
    assert server.observations.client.name == "desk"


@pytest.mark.parametrize("probe", [Probe.WRONG_ISS, Probe.NO_ISS])
async def test_own_client_refuses_a_wrong_redirect(probe: Probe) -> None:
    async with _bench(probe) as server, _desk(server) as client:
        with pytest.raises(AuthorizationError, match=r"the redirect has no iss|the iss of the redirect"):
            await _call(client)
        assert list(_verdicts(server).values()) == [CheckVerdict.PASS]


class _Raw:
    """Client that sends exactly what a test wants."""

    def __init__(self, server: BenchServer, http: aiohttp.ClientSession) -> None:
        self.server = server
        self.http = http

    async def call(self, token: str = "", query: str = "") -> int:
        message = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {"protocolVersion": "2025-11-25"},
        }
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with self.http.post(f"{self.server.url}{query}", json=message, headers=headers) as answer:
            return answer.status

    async def authorize(self, **changes: str | None) -> dict[str, str]:
        asked = {"client_id": "me", "redirect_uri": REDIRECT, "state": os.urandom(8).hex(), "scope": SCOPE}
        asked |= {"response_type": "code", "resource": self.server.url, **PKCE}
        fields = {name: value for name, value in {**asked, **changes}.items() if value is not None}
        location = await _visit(f"{self.server.origin}/authorize?{urlencode(fields)}")
        return {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}

    async def token(self, **fields: str) -> dict[str, Any]:
        async with self.http.post(f"{self.server.origin}/token", data=fields) as answer:
            found: dict[str, Any] = await answer.json()
            return found

    async def log_in(self, **changes: str | None) -> dict[str, Any]:
        code = (await self.authorize(**changes))["code"]
        fields = {"grant_type": "authorization_code", "code": code, "code_verifier": VERIFIER}
        return await self.token(**fields, redirect_uri=REDIRECT, resource=self.server.url)

    async def renew(self, refresh_token: str) -> dict[str, Any]:
        fields = {"grant_type": "refresh_token", "refresh_token": refresh_token}
        return await self.token(**fields, resource=self.server.url)


@asynccontextmanager
async def _raw(probe: Probe = Probe.LOGIN) -> AsyncIterator[_Raw]:
    async with _bench(probe) as server, aiohttp.ClientSession() as http:
        yield _Raw(server, http)


async def _without_challenge(client: _Raw) -> None:
    async with client.http.get(f"{client.server.origin}/.well-known/oauth-protected-resource/mcp"):
        await client.log_in()


async def _reuses_a_refresh_token(client: _Raw) -> None:
    first = await client.log_in()
    await client.renew(first["refresh_token"])
    assert (await client.renew(first["refresh_token"]))["error"] == "invalid_grant"


async def _logs_in_after_expiry(client: _Raw) -> None:
    client.server.lifetime_s = 0
    token = (await client.log_in())["access_token"]
    assert await client.call(token) == 401
    await client.log_in()


async def _gives_up_after_expiry(client: _Raw) -> None:
    client.server.lifetime_s = 0
    token = (await client.log_in())["access_token"]
    assert await client.call(token) == 401


async def _logs_in_after_a_revocation(client: _Raw) -> None:
    given = await client.log_in()
    for _ in range(2):
        given = await client.renew(given["refresh_token"])
    assert [await client.call(given["access_token"]) for _ in range(2)] == [200, 401]
    await client.log_in()


async def _token_in_the_address(client: _Raw) -> None:
    given = await client.log_in()
    await client.call(query=f"?access_token={given['access_token']}")


async def _registers_without_type(client: _Raw) -> None:
    document = {"client_name": "raw", "redirect_uris": [REDIRECT]}
    async with client.http.post(f"{client.server.origin}/register", json=document) as answer:
        identifier = (await answer.json())["client_id"]
    await client.log_in(client_id=identifier)


@pytest.mark.parametrize(
    ("behave", "check", "verdict", "words"),
    [
        (_without_challenge, "challenge", CheckVerdict.FAIL, "/.well-known/oauth-protected-resource/mcp"),
        (lambda client: client.log_in(code_challenge=None), "pkce", CheckVerdict.FAIL, "no code_challenge"),
        (lambda client: client.log_in(code_challenge_method="plain"), "pkce", CheckVerdict.FAIL, "plain"),
        (lambda client: client.log_in(code_challenge="other"), "pkce", CheckVerdict.FAIL, "does not match"),
        (lambda client: client.log_in(resource=None), "resource", CheckVerdict.FAIL, "authorization request"),
        (lambda client: client.log_in(state=None), "state", CheckVerdict.WARNING, "missing"),
        (lambda client: client.log_in(scope="all"), "scope", CheckVerdict.WARNING, "'all'"),
        (lambda client: client.log_in(), "registration", CheckVerdict.FACT, "had before"),
        (_registers_without_type, "application-type", CheckVerdict.WARNING, "missing"),
        (_token_in_the_address, "bearer", CheckVerdict.FAIL, "in a URL"),
        (_reuses_a_refresh_token, "rotation", CheckVerdict.FAIL, "used refresh token"),
        (_reuses_a_refresh_token, "login-kept", CheckVerdict.FAIL, "lost its tokens"),
        (_logs_in_after_expiry, "expiry", CheckVerdict.FAIL, "new login"),
        (_logs_in_after_expiry, "login-kept", CheckVerdict.FAIL, "2 times"),
        (_gives_up_after_expiry, "expiry", CheckVerdict.FAIL, "never renewed"),
        (_gives_up_after_expiry, "login-kept", CheckVerdict.FAIL, "without a valid token"),
        (_logs_in_after_a_revocation, "rejected-token", CheckVerdict.WARNING, "new login"),
        (_logs_in_after_a_revocation, "expiry", CheckVerdict.PASS, "before the token expired"),
    ],
)
async def test_violation_has_its_own_verdict(
    behave: Callable[[_Raw], Awaitable[object]], check: str, verdict: CheckVerdict, words: str
) -> None:
    async with _raw() as client:
        assert await client.call() == 401
        await behave(client)
        server = client.server
        found = {
            each.name: each for each in checks(server.probe, server.observations, server.url, is_over=True)
        }
    assert (found[check].verdict, words in found[check].observed) == (verdict, True), found[check]


@pytest.mark.parametrize("probe", [Probe.WRONG_ISS, Probe.NO_ISS, Probe.WRONG_STATE])
async def test_code_of_a_wrong_redirect_must_not_be_used(probe: Probe) -> None:
    async with _raw(probe) as client:
        returned = await client.authorize()
        assert list(_verdicts(client.server).values()) == [CheckVerdict.PASS]
        assert returned.get("iss") != client.server.origin or probe is Probe.WRONG_STATE
        await client.token(grant_type="authorization_code", code=returned["code"], code_verifier=VERIFIER)
        older = CheckVerdict.FAIL if probe is Probe.WRONG_STATE else CheckVerdict.WARNING
        assert list(_verdicts(client.server).values()) == [older]
        client.server.observations.is_stateless = True  # the rules about iss are new in 2026-07-28
        assert list(_verdicts(client.server).values()) == [CheckVerdict.FAIL]


async def test_bench_serves_only_its_own_host_and_redirects_only_to_this_machine() -> None:
    async with _raw() as client:
        host = {"Host": "evil.example"}
        async with client.http.get(f"{client.server.origin}/authorize", headers=host) as answer:
            assert answer.status == 403
        fields = {"client_id": "me", "redirect_uri": "https://evil.example/", "state": "a"}
        async with client.http.get(
            f"{client.server.origin}/authorize?{urlencode(fields)}", allow_redirects=False
        ) as answer:
            assert answer.status == 400


async def test_person_confirms_a_login_on_a_page() -> None:
    server = BenchServer(Probe.LOGIN, 60, asks=True)
    async with listening(server.handle, 0) as server.origin, aiohttp.ClientSession() as browser:
        fields = {"client_id": "<me>", "redirect_uri": REDIRECT, "state": "abc"}
        async with browser.get(f"{server.origin}/authorize?{urlencode(fields)}") as answer:
            page = await answer.text()
        assert "&lt;me&gt;" in page and not server.observations.authorizations
        key = page.partition('value="')[2].partition('"')[0]
        confirm = f"{server.origin}/confirm"
        async with browser.post(confirm, data={"key": key}, allow_redirects=False) as answer:
            location = answer.headers["Location"]
        returned = await _visit(f"{server.origin}{location}")
        assert returned.startswith(REDIRECT) and "state=abc" in returned
        async with browser.post(confirm, data={"key": key}) as answer:
            assert answer.status == 400
    assert server.observations.authorizations == [fields]


def test_client_needs_a_place_for_the_url(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["oauth-bench", "--", "client"]) == 2
    assert "{url}" in capfd.readouterr().err


async def _mcpdesk(*arguments: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "mcpdesk", *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        async with within(within_s=BENCH_S):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


@pytest.mark.slow
async def test_official_client_renews_in_time_but_needs_a_person_for_a_revoked_token() -> None:
    client = (sys.executable, CLIENT, "auto", "30", "{url}")
    arguments = ("--json", "--lifetime", "1", "--timeout", "30", "--probe", "login", "--probe", "wrong-iss")
    code, out, err = await _mcpdesk("oauth-bench", *arguments, "--", *client)
    assert code == 1, err
    report = json.loads(out)
    login, wrong_iss = report["runs"]
    assert (report["version"], report["bench"], report["ok"]) == (1, "oauth", False)
    assert (login["name"], login["outcome"], wrong_iss["outcome"]) == ("login", "complete", "complete")
    verdicts = {each["name"]: each["verdict"] for each in login["checks"]}
    assert verdicts.pop("rejected-token") == "warning"
    assert verdicts.pop("login-kept") == "fail"
    assert verdicts.pop("registration") == "fact"
    assert set(verdicts.values()) == {"pass"}, verdicts
    assert [each["verdict"] for each in wrong_iss["checks"]] == ["pass"]
    assert "token-1" not in out and "refresh-1" not in out


@pytest.mark.process
async def test_bench_without_a_client_ends_with_5_and_says_where_to_connect() -> None:
    code, out, err = await _mcpdesk("oauth-bench", "--timeout", "1")
    assert code == 5
    assert "no client connected" in out
    assert "connect a client to http://127.0.0.1:" in err


@pytest.mark.process
async def test_interrupted_bench_prints_its_verdict() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mcpdesk", "oauth-bench", "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    async with within():
        line = (await process.stderr.readline()).decode()
        url = line.split()[-1]
        async with aiohttp.ClientSession() as http, http.post(url, json={}) as answer:
            assert answer.status == 401
        process.send_signal(signal.SIGINT)
        out, _ = await process.communicate()
    assert process.returncode == 5
    assert json.loads(out)["runs"][0]["messages"][0]["sent"] == "POST /mcp"


@pytest.mark.process
async def test_client_that_cannot_be_started_is_named() -> None:
    code, _, err = await _mcpdesk("oauth-bench", "--", "/no/such/client", "{url}")
    assert (code, "'/no/such/client' cannot be started" in err) == (2, True)


@pytest.mark.process
async def test_browser_of_a_client_waits_until_the_client_listens() -> None:
    """The client starts its listener after the program that opens the page has ended, as FastMCP does."""
    async with _bench() as server:
        received = asyncio.Event()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            writer.close()
            received.set()

        closed = await asyncio.start_server(accept, "127.0.0.1", 0)
        port = closed.sockets[0].getsockname()[1]
        closed.close()
        await closed.wait_closed()
        fields = {"client_id": "me", "redirect_uri": f"http://localhost:{port}/", "state": "a"}
        command = (sys.executable, "-m", "mcpdesk.features.client_bench.page_visit")
        page = f"{server.origin}/authorize?{urlencode(fields)}"
        browser = await asyncio.create_subprocess_exec(*command, page)
        async with within():
            assert await browser.wait() == 0
            await until(lambda: server.observations.authorizations)
            async with await asyncio.start_server(accept, "127.0.0.1", port):
                await received.wait()
    assert not server.observations.is_undelivered


async def test_invalid_requests_are_refused_and_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(oauth_server, "MAX_OBSERVATIONS", 2)
    query = {"client_id": "https://client.example/id", "response_type": "code", **PKCE}
    many = "&".join(f"a{number}=1" for number in range(MAX_FORM_FIELDS + 1))
    refused = [
        f"/authorize?{urlencode(query | {'redirect_uri': url})}"
        for url in ("http://localhost@evil.example/", "http://127.0.0.1.evil.example/", "http://[")
    ]
    async with _bench() as server, aiohttp.ClientSession(server.origin) as browser, within():
        nested = f'{{"application_type": {"[" * 300}{"]" * 300}}}'
        for body in ("x" * (MAX_BODY_BYTES + 1), '{"redirect_uris": 7}', "[]", nested):
            async with browser.post("/register", data=body) as answer:
                assert answer.status == 400
        for path in (*refused, f"/authorize?{many}"):
            async with browser.get(path, allow_redirects=False) as answer:
                assert answer.status == 400, path
        for number in range(4):
            await browser.post("/register", json={"redirect_uris": [REDIRECT], "client_name": str(number)})
        assert len(server.observations.registrations) == 2
