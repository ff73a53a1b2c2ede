"""Tokens for a server that requires them: how to get them, and reports about servers that break the rules."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import aiohttp
import pytest
from aiohttp import web
from msgspec.structs import replace

from mcpdesk import private_files
from mcpdesk.client.connection import ServerConnection
from mcpdesk.client.hints import hint
from mcpdesk.client.http_transports import HttpRequests, StreamableHttp
from mcpdesk.client.oauth import stored_grants
from mcpdesk.client.oauth.authorizer import Authorizer, GrantStore, Visitor
from mcpdesk.client.oauth.discovery import find_authorization_server, parse_challenge
from mcpdesk.client.oauth.grants import FORM, ClientCredentials, ClientSetup
from mcpdesk.client.oauth.stored_grants import PrivateFile, StoredGrants
from mcpdesk.client.oauth.values import Challenge, ClientRegistration, Fetch, FetchResult
from mcpdesk.errors import AuthorizationError, HttpError
from tests.support.grants import GrantsInMemory
from tests.support.guarded_server import Change, Document, GuardedServer
from tests.support.patience import until, within
from tests.support.scripted import http, scripted

REDIRECT = "http://127.0.0.1:40404/callback"


async def _visit(url: str) -> str:
    """A person who logs in at once."""
    async with aiohttp.ClientSession() as browser, browser.get(url, allow_redirects=False) as answer:
        return answer.headers["Location"]


@asynccontextmanager
async def _connected(
    server: GuardedServer,
    store: GrantStore | None = None,
    setup: ClientSetup = ClientSetup(redirect_uri=REDIRECT),  # noqa: B008  (a frozen value)
    visit: Visitor | None = _visit,
) -> AsyncIterator[ServerConnection]:
    authorizer = Authorizer(server.url, setup, store or GrantsInMemory(), visit)
    transport = StreamableHttp(server.url, {}, authorizer=authorizer)
    connection = ServerConnection(transport, {"name": "test", "version": "1"})
    try:
        yield connection
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("issuer", "paths"),
    [
        (
            "https://i.example",
            ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"],
        ),
        (
            "https://i.example/a/",
            [
                "/.well-known/oauth-authorization-server/a",
                "/.well-known/openid-configuration/a",
                "/a/.well-known/openid-configuration",
            ],
        ),
    ],
)
def test_metadata_of_an_issuer_is_looked_for_at_each_address_once(issuer: str, paths: list[str]) -> None:
    flow, asked = find_authorization_server(issuer), []
    step = next(flow)
    with pytest.raises(AuthorizationError, match="was not found"):
        while True:
            assert isinstance(step, Fetch)
            asked.append(step.url)
            step = flow.send(FetchResult(404, {}, b""))
    assert asked == [f"https://i.example{path}" for path in paths]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ({}, Challenge()),
        ({"WWW-Authenticate": 'Bearer scope="read write"'}, Challenge("bearer", scope="read write")),
    ],
)
async def test_the_challenge_of_a_server_is_asked_for(header: dict[str, str], expected: Challenge) -> None:
    async with scripted(lambda seen: http(401, **header)) as server:
        requests = HttpRequests(server.url, {})
        assert await requests.challenge() == expected
        await requests.close()


async def _list(server: GuardedServer, store: GrantStore | None = None) -> None:
    async with _connected(server, store) as connection:
        assert await connection.list_all("tools/list", "tools") == []


async def test_a_login_gives_every_request_its_token() -> None:
    async with GuardedServer().running() as server:
        await _list(server)
    assert server.registrations[0]["application_type"] == "native"
    assert server.authorizations[0]["scope"] == "read"
    assert server.requests.count("GET /authorize") == 1


async def test_a_second_client_uses_the_token_that_is_kept() -> None:
    store = GrantsInMemory()
    async with GuardedServer().running() as server:
        await _list(server, store)
        await _list(server, store)
    assert len(server.token_requests) == 1


async def test_an_expired_token_is_renewed_without_a_person() -> None:
    store = GrantsInMemory()
    async with GuardedServer().running() as server:
        server.lasts_s = 1
        await _list(server, store)
    assert len(server.authorizations) == 1
    assert server.token_requests[-1]["grant_type"] == "refresh_token"
    assert server.token_requests[-1]["resource"] == server.url


@pytest.mark.parametrize(("knows_refresh", "logins"), [(True, 1), (False, 2)])
async def test_a_token_that_no_longer_counts_is_renewed_or_replaced(knows_refresh: bool, logins: int) -> None:
    store = GrantsInMemory()
    async with GuardedServer().running() as server:
        await _list(server, store)
        server.revoke()
        server.knows_refresh = knows_refresh
        await _list(server, store)
    assert len(server.authorizations) == logins
    assert len(server.registrations) == 1


async def test_requests_that_are_refused_together_lead_to_one_login() -> None:
    async with GuardedServer().running() as server, _connected(server) as connection:
        await connection.open()
        server.revoke()
        server.knows_refresh = False
        await asyncio.gather(*(connection.list_all("tools/list", "tools") for _ in range(5)))
    assert len(server.authorizations) == 2


async def test_a_larger_scope_is_asked_for_together_with_the_earlier_one() -> None:
    store = GrantsInMemory()
    async with GuardedServer().running() as server:
        await _list(server, store)
        server.needed = ("read", "write")
        await _list(server, store)
    assert [each["scope"] for each in server.authorizations] == ["read", "read write"]


async def test_a_server_that_is_never_satisfied_is_given_up() -> None:
    async with GuardedServer().running() as server:
        server.needed = ("read", "nothing grants this")
        with pytest.raises(HttpError, match="403"):
            await _list(server)
    assert len(server.authorizations) <= 4


async def test_a_client_that_is_registered_elsewhere_is_not_shown_to_this_server() -> None:
    setup = ClientSetup(
        redirect_uri=REDIRECT, client=ClientRegistration("me", "secret"), client_issuer="https://other.test"
    )
    async with GuardedServer().running() as server, _connected(server, setup=setup) as connection:
        with pytest.raises(AuthorizationError, match=r"registered at https://other\.test"):
            await connection.open()
    assert not server.authorizations


async def test_without_a_browser_the_refusal_of_the_server_is_shown_and_nothing_is_registered() -> None:
    async with GuardedServer().running() as server, _connected(server, visit=None) as connection:
        with pytest.raises(HttpError, match="HTTP 401") as refused:
            await connection.open()
    assert "resource_metadata" in refused.value.challenge
    assert {each.partition(" ")[2] for each in server.requests} == {"/mcp"}


async def test_without_a_browser_a_renewal_that_fails_is_named() -> None:
    store = GrantsInMemory()
    async with GuardedServer().running() as server:
        await _list(server, store)
        server.revoke()
        server.knows_refresh = False
        async with _connected(server, store, visit=None) as connection:
            with pytest.raises(AuthorizationError, match=r"no longer valid: .* HTTP 400 invalid_grant"):
                await connection.open()
    assert len(server.registrations) == 1


class _OneUse(GuardedServer):
    """Accepts each refresh token once; revokes all tokens if one is used again, as strict providers do."""

    def __init__(self) -> None:
        super().__init__()
        self.used: set[str] = set()

    async def _token(self, request: web.BaseRequest) -> web.Response:
        given = dict(parse_qsl((await request.read()).decode()))
        if given["grant_type"] == "refresh_token":
            if given["refresh_token"] in self.used:
                self.revoke()
                self.knows_refresh = False
            self.used.add(given["refresh_token"])
        return await super()._token(request)


async def test_a_token_file_that_another_process_locks_holds_up_no_other_work(tmp_path: Path) -> None:
    begun = threading.Event()

    class File(PrivateFile):
        def write(self, name: str, text: str) -> None:
            begun.set()
            super().write(name, text)

    store = StoredGrants(File(tmp_path / "tokens.json"), tmp_path)
    async with GuardedServer().running() as server, within():
        with private_files.locked(tmp_path / "tokens.json.lock"):
            listing = asyncio.create_task(_list(server, store))
            await until(begun.is_set)
            assert store.grant(server.url) is None
        await listing
        assert store.grant(server.url) is not None


LISTER = """
import asyncio, pathlib, sys
from mcpdesk.client.connection import ServerConnection
from mcpdesk.client.http_transports import StreamableHttp
from mcpdesk.client.oauth.authorizer import Authorizer
from mcpdesk.client.oauth.grants import ClientSetup
from mcpdesk.client.oauth.stored_grants import PrivateFile, StoredGrants

async def main(url, folder):
    store = StoredGrants(PrivateFile(folder / "tokens.json"), folder)
    authorizer = Authorizer(url, ClientSetup(), store)
    transport = StreamableHttp(url, {}, authorizer=authorizer)
    connection = ServerConnection(transport, {"name": "t", "version": "1"})
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        await connection.list_all("tools/list", "tools")
    finally:
        await connection.close()

asyncio.run(main(sys.argv[1], pathlib.Path(sys.argv[2])))
"""


@pytest.mark.slow
async def test_processes_that_meet_one_expired_token_use_its_refresh_token_once(tmp_path: Path) -> None:
    store = StoredGrants(PrivateFile(tmp_path / "tokens.json"), tmp_path)
    async with _OneUse().running() as server:
        await _list(server, store)
        grant = store.grant(server.url)
        assert grant is not None
        store.store(server.url, replace(grant, expires=1.0))
        pipe = asyncio.subprocess.PIPE
        async with within():
            processes = [
                await asyncio.create_subprocess_exec(
                    sys.executable, "-c", LISTER, server.url, str(tmp_path), stdin=pipe, stdout=pipe
                )
                for _ in range(3)
            ]
            for each in processes:
                assert each.stdout is not None
                assert await each.stdout.readline() == b"ready\n"
            await asyncio.gather(*(each.communicate(b"\n") for each in processes))
        assert [each.returncode for each in processes] == [0, 0, 0]
    assert [each["grant_type"] for each in server.token_requests] == ["authorization_code", "refresh_token"]


@pytest.mark.parametrize("is_refused", [False, True])
async def test_clients_with_one_token_file_renew_it_once(is_refused: bool, tmp_path: Path) -> None:
    def opened() -> StoredGrants:
        return StoredGrants(PrivateFile(tmp_path / "tokens.json"), tmp_path)

    async with _OneUse().running() as server, AsyncExitStack() as stack:
        await _list(server, opened())
        grant = opened().grant(server.url)
        assert grant is not None
        if is_refused:
            server.revoke()
        else:
            opened().store(server.url, replace(grant, expires=1.0))
        clients = [
            await stack.enter_async_context(_connected(server, opened(), visit=None)) for _ in range(3)
        ]
        await asyncio.gather(*(each.list_all("tools/list", "tools") for each in clients))
    assert [each["grant_type"] for each in server.token_requests] == ["authorization_code", "refresh_token"]


def test_a_token_file_is_written_up_to_its_largest_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = PrivateFile(tmp_path / "tokens.json")
    file.write("name", "1")
    monkeypatch.setattr(stored_grants, "MAX_BYTES", (tmp_path / "tokens.json").stat().st_size)
    file.write("name", "2")
    with pytest.raises(AuthorizationError, match="would have more than"):
        file.write("name", "33")
    assert file.read("name") == "2"


async def test_the_form_names_the_client_also_with_basic_authentication() -> None:
    changes = {
        "server": _set(token_endpoint_auth_methods_supported=["client_secret_basic"]),
        "registration": _set(client_secret="s3cret"),
    }
    async with GuardedServer(changes).running() as server:
        await _list(server)
    assert server.token_requests[0]["client_id"] == "client-1"
    assert "client_secret" not in server.token_requests[0]


async def test_a_registered_method_that_this_client_does_not_know_is_replaced_by_one_it_knows() -> None:
    changes = {
        "server": _set(token_endpoint_auth_methods_supported=["private_key_jwt", "client_secret_post"]),
        "registration": _set(client_secret="s3cret", token_endpoint_auth_method="private_key_jwt"),
    }
    async with GuardedServer(changes).running() as server:
        await _list(server)
    assert server.token_requests[0]["client_secret"] == "s3cret"


def _set(**fields: Any) -> Change:
    return lambda document: document.update(fields)


def _without(name: str) -> Change:
    def change(document: Document) -> None:
        del document[name]

    return change


def _instead(status: int, **body: Any) -> Change:
    return lambda document: web.json_response(body, status=status)


def _iss_slash(document: Document) -> None:
    document["iss"] += "/"


def _slash(document: Document) -> None:
    document["issuer"] += "/"


BROKEN: dict[str, tuple[str, Change, str]] = {
    "metadata is not where it should be": ("resource", _instead(404), r"HTTP 404 .*RFC 9728, 5\.1"),
    "metadata is no JSON": ("resource", lambda document: b"<html>", "without a JSON object: <html>"),
    "metadata without end": ("resource", lambda document: b"[" * 300_000, "more than 262144 bytes"),
    "another server's metadata": ("resource", _set(resource="https://evil.test/mcp"), r"RFC 9728, 3\.3"),
    "metadata of another path": ("resource", _set(resource="http://127.0.0.1/mc"), r"RFC 9728, 3\.3"),
    "nobody gives tokens": ("resource", _without("authorization_servers"), "names no authorization_servers"),
    "a script instead of a URL": (
        "resource", _set(authorization_servers=["javascript:alert(1)"]), "must be an https URL",
    ),
    "tokens over plain HTTP": (
        "resource", _set(authorization_servers=["http://a.test"]), r"an https URL.*OAuth 2\.1, 1\.5",
    ),
    "no metadata of the authorization server": ("server", _instead(404), r"not found: tried .*RFC 8414, 3"),
    "an authorization server that fails": ("server", _instead(500), "HTTP 500"),
    "metadata of another issuer": ("server", _set(issuer="https://evil.test"), r"RFC 8414, 3\.3"),
    "no token endpoint": ("server", _without("token_endpoint"), "has no token_endpoint"),
    "a token endpoint over plain HTTP": (
        "server", _set(token_endpoint="http://a.test/t"), "token_endpoint must be an https URL",
    ),
    "no authorization endpoint": ("server", _without("authorization_endpoint"), "no authorization_endpoint"),
    "no PKCE": ("server", _without("code_challenge_methods_supported"), "PKCE with S256"),
    "PKCE in plain text": ("server", _set(code_challenge_methods_supported=["plain"]), "PKCE with S256"),
    "no registration": ("server", _without("registration_endpoint"), "does not register clients"),
    "clients must sign": (
        "server", _set(token_endpoint_auth_methods_supported=["tls_client_auth"]), "tls_client_auth only",
    ),
    "registration refused": (
        "registration", _instead(400, error="invalid_redirect_uri"), "refused: HTTP 400 invalid_redirect_uri",
    ),
    "registration without an id": ("registration", _set(client_id=None), r"no client_id; its .*RFC 7591"),
    "another state": ("redirect", _set(state="x"), "the state of the redirect"),
    "no issuer, though announced": ("redirect", _without("iss"), r"has no iss.*RFC 9207, 2\.4"),
    "an issuer with a slash more in the address": ("redirect", _iss_slash, r"is .*/, not .*RFC 9207"),
    "another issuer": ("redirect", _set(iss="https://evil.test"), r"is https://evil\.test.*RFC 9207"),
    "the person says no": ("redirect", _set(error="access_denied"), "login was refused: access_denied"),
    "no code": ("redirect", _without("code"), "has no code"),
    "the code is refused": ("token", _instead(400, error="invalid_grant"), "HTTP 400 invalid_grant"),
    "an error in a success": (
        "token", lambda document: web.json_response({"error": "bad_verification_code"}), "HTTP 200 bad_verif",
    ),
    "a form of very many fields": (
        "token", lambda document: web.Response(text="a=1&" * 200, content_type=FORM), "more than 100 fields",
    ),
    "no token": ("token", _without("access_token"), r"no access_token.*OAuth 2\.1, 3\.2\.3"),
    "a token no header can carry": ("token", _set(access_token="a\r\nb: c"), "no access_token"),
    "a token of another type": ("token", _set(token_type="mac"), "token of type 'mac'"),
}  # fmt: skip
"""Deviation -> the invalid document, its change, and the report."""


@pytest.mark.sampled(8)
@pytest.mark.parametrize("what", BROKEN)
async def test_a_deviation_is_named_with_its_rule(what: str) -> None:
    document, change, told = BROKEN[what]
    async with GuardedServer({document: change}).running() as server:
        with pytest.raises(AuthorizationError, match=told):
            await _list(server)
    if document in ("resource", "server"):
        assert not server.authorizations
    if document == "redirect":
        assert not server.token_requests


def _form(document: Document) -> web.Response:
    return web.Response(text=urlencode(document), content_type="application/x-www-form-urlencoded")


LENIENT: dict[str, tuple[str, Change, str]] = {
    "an issuer with one slash more": ("server", _slash, "one slash differs"),
    "no secret, in so many words": ("registration", _set(client_secret=None), ""),
    "an empty endpoint": ("server", _set(revocation_endpoint=None), ""),
    "a lifetime in text": ("token", _set(expires_in="3599"), ""),
    "a token in a form": ("token", _form, ""),
    "a token without a type": ("token", _without("token_type"), "returned no token_type"),
    "a token type with a space": ("token", _set(token_type="Bearer "), ""),
}
"""Deviation -> the document that has it, its change, and the remark about it."""


class _RemarkedRequests(HttpRequests):
    """Keeps the remarks of a login instead of adding them to a reply."""

    def __init__(self, url: str, remarks: list[str]) -> None:
        super().__init__(url, {})
        self._kept = remarks

    def report_deviation(self, text: str) -> None:
        self._kept.append(text)


@pytest.mark.parametrize("what", LENIENT)
async def test_a_deviation_whose_meaning_is_clear_is_accepted(what: str) -> None:
    document, change, remark = LENIENT[what]
    remarks: list[str] = []
    # The server's `iss` is its own address, with or without the slash.
    async with GuardedServer({document: change}).running() as server:
        setup = ClientSetup(redirect_uri=REDIRECT)
        authorizer = Authorizer(server.url, setup, GrantsInMemory(), _visit)
        requests = _RemarkedRequests(server.url, remarks)
        grant = await authorizer.log_in(requests, await requests.challenge())
        await requests.close()
    assert grant.access_token.startswith("token-")
    assert grant.expires is not None
    assert remark in "".join(remarks) and bool(remark) == bool(remarks)


class _NoLogin(GuardedServer):
    """Checks tokens but does not name their issuer, like servers with their own keys or tokens."""

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/mcp":
            return await super()._answer(request)
        self.requests.append(f"{request.method} {request.path}")
        return web.Response(status=404)


async def test_a_server_without_a_login_is_not_asked_to_register_a_client() -> None:
    server = _NoLogin({"challenge": lambda given: given.clear()})
    async with server.running():
        with pytest.raises(AuthorizationError, match="no login is available") as failed:
            await _list(server)
    assert "a token with the scope read" in failed.value.hint
    assert not [each for each in server.requests if each.startswith("POST") and each != "POST /mcp"]


class _Default(GuardedServer):
    """Has the endpoints of 2025-03-26 without metadata, and breaks off when /authorize has no parameters."""

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path.startswith("/.well-known/"):
            return web.Response(status=404)
        if request.path == "/authorize" and not request.query_string:
            self.requests.append("broken")
            assert request.transport is not None
            request.transport.close()
        return await super()._answer(request)


async def test_an_authorization_endpoint_that_breaks_off_without_parameters_is_there() -> None:
    server = _Default({"challenge": lambda given: given.clear()})
    async with server.running():
        await _list(server)
    assert "broken" in server.requests and server.registrations


class _Breaking(GuardedServer):
    """Breaks off at one of the addresses at which metadata may be."""

    def __init__(self, broken: str, elsewhere: str = "") -> None:
        super().__init__({"challenge": lambda given: given.clear()})
        self._broken, self._elsewhere = broken, elsewhere

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == self._broken:
            assert request.transport is not None
            request.transport.close()
        if request.path == self._elsewhere:
            return self.document("resource", self.resource_metadata())
        return await super()._answer(request)


async def test_metadata_is_looked_for_at_the_next_address_if_one_breaks_off() -> None:
    place = "/.well-known/oauth-protected-resource"
    server = _Breaking(f"{place}/mcp", place)
    async with server.running():
        await _list(server)
    assert server.registrations


class _BreakingWithoutLogin(_NoLogin):
    """Closes the connection at the address of its metadata; other addresses have none."""

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/.well-known/oauth-authorization-server":
            assert request.transport is not None
            request.transport.close()
        return await super()._answer(request)


async def test_metadata_that_breaks_off_is_not_called_a_missing_login() -> None:
    server = _BreakingWithoutLogin({"challenge": lambda given: given.clear()})
    async with server.running():
        with pytest.raises(
            AuthorizationError, match=r"authorization server metadata at .*: the connection broke"
        ):
            await _list(server)


async def test_a_connection_that_breaks_at_all_addresses_is_named_with_one() -> None:
    server = _Breaking("/.well-known/oauth-protected-resource/mcp")
    async with server.running():
        with pytest.raises(
            AuthorizationError, match=r"protected resource metadata at http.*/mcp: the connection broke"
        ):
            await _list(server)


async def test_a_refusal_names_the_scope_of_the_missing_token() -> None:
    async with GuardedServer().running() as server, _connected(server, visit=None) as connection:
        with pytest.raises(HttpError) as refused:
            await connection.open()
    assert hint(refused.value) == (
        "It needs a token with the scope read. Log in: mcpdesk login URL. Or use --token-env VAR."
    )
    without = GuardedServer({"challenge": lambda given: given.clear()})
    async with without.running(), _connected(without, visit=None) as connection:
        with pytest.raises(HttpError) as refused:
            await connection.open()
    assert "a token with the scope read: use --token-env VAR" in hint(refused.value)


@pytest.mark.parametrize(
    ("status", "challenge", "told"),
    [
        (403, 'Bearer error="insufficient_scope", scope="a b", resource_metadata="x"', "--scope 'a b'"),
        (
            403,
            'Bearer error="insufficient_scope", scope="a"',
            "another token with the scope a: use --token-env",
        ),
        (401, 'Basic realm="x", Bearer resource_metadata="x"', "It needs a token. Log in"),
        (401, "Bearer", "the key (--key-env)"),
        (401, "", "the key (--key-env)"),
        (403, "", "It denies this caller access"),
        (404, 'Bearer scope="a"', "Check the path."),
    ],
)
def test_a_challenge_decides_how_a_token_is_to_be_given(status: int, challenge: str, told: str) -> None:
    assert told in hint(HttpError("no", status=status, challenge=challenge))


async def test_pkce_that_is_not_mentioned_is_used_when_asked_for() -> None:
    setup = ClientSetup(redirect_uri=REDIRECT, assumes_pkce=True)
    changes = {"server": _without("code_challenge_methods_supported")}
    async with GuardedServer(changes).running() as server, _connected(server, setup=setup) as connection:
        await connection.open()
    assert server.authorizations[0]["code_challenge_method"] == "S256"
    changes = {"server": _set(code_challenge_methods_supported=["plain"])}
    async with GuardedServer(changes).running() as server, _connected(server, setup=setup) as connection:
        with pytest.raises(AuthorizationError, match="PKCE with S256"):
            await connection.open()


async def test_an_error_from_a_foreign_issuer_is_not_repeated() -> None:
    change = _set(iss="https://evil.test", error="x", error_description="call this number")
    async with GuardedServer({"redirect": change}).running() as server:
        with pytest.raises(AuthorizationError) as failed:
            await _list(server)
    assert "this number" not in str(failed.value)


async def test_a_client_secret_goes_to_the_token_endpoint_alone() -> None:
    secret = "s3cret"
    store, client = GrantsInMemory(), ClientRegistration("me", secret, "client_secret_post")
    setup = ClientSetup(redirect_uri=REDIRECT, client=client)
    async with GuardedServer().running() as server, _connected(server, store, setup) as connection:
        await connection.open()
        grant = store.grant(server.url)
    assert server.token_requests[0]["client_secret"] == secret
    assert secret not in str(server.authorizations)
    assert secret not in repr(grant)
    assert "token-1" not in repr(grant)


async def test_a_key_that_cannot_sign_is_said() -> None:
    setup = ClientSetup(machine=ClientCredentials("me", private_key_pem="no key"))
    async with GuardedServer().running() as server, _connected(server, setup=setup) as connection:
        with pytest.raises(AuthorizationError, match="private key cannot sign"):
            await connection.open()


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (['Bearer realm="x", scope="a b"'], Challenge("bearer", scope="a b")),
        (
            ['bearer error=invalid_token,scope="a \\"b\\""'],
            Challenge("bearer", scope='a "b"', error="invalid_token"),
        ),
        (['Basic realm="x", Bearer scope=a'], Challenge("bearer", scope="a")),
        (
            ["Basic realm=x", 'DPoP algs="ES256", error="use_dpop_nonce"'],
            Challenge("dpop", error="use_dpop_nonce"),
        ),
        (["Negotiate YII="], None),
        (["Bearer"], Challenge("bearer")),
        ([], None),
        (['Bearer scope="never ends'], Challenge("bearer")),
        (["\x00\x1b[31m"], None),
    ],
)
def test_challenges_are_read_as_they_come(headers: list[str], expected: Challenge | None) -> None:
    assert parse_challenge(headers) == expected


def test_a_hostile_challenge_takes_no_time() -> None:
    assert parse_challenge(["Bearer " + 'a="' * 100_000]) == Challenge("bearer")
