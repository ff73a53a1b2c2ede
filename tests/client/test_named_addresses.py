"""Addresses that a server's authorization metadata may name, and the page a browser is sent back to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import aiohttp
import pytest
from aiohttp import web

from mcpdesk.client.http_transports import HttpRequests
from mcpdesk.client.oauth.authorizer import Authorizer
from mcpdesk.client.oauth.browser_login import BrowserLogin
from mcpdesk.client.oauth.grants import ClientCredentials, ClientSetup
from mcpdesk.client.oauth.named_addresses import (
    LOOPBACK,
    PRIVATE,
    PUBLIC,
    AddressRefused,
    ServerAddresses,
    address_kind,
)
from mcpdesk.client.oauth.values import ClientRegistration, Fetch
from mcpdesk.errors import AuthorizationError
from tests.support.grants import GrantsInMemory
from tests.support.guarded_server import Change, Document, GuardedServer
from tests.support.patience import within

REMOTE = "127.0.0.2"
"""An address of this machine that does not count as loopback, unlike 127.0.0.1."""


@asynccontextmanager
async def _service() -> AsyncIterator[tuple[str, list[str]]]:
    """A service on this machine: its URL, and its requests."""
    requests: list[str] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        requests.append(f"{request.method} {request.path}")
        return web.json_response({})

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"127.0.0.1:{site.port}", requests
    finally:
        await runner.cleanup()


def _naming(what: str, url: str) -> dict[str, Change]:
    """Changes of a server that replace one of its URLs."""

    def without_metadata(document: Document) -> None:
        document.clear()

    def named(document: Document) -> Any:
        for name in ("authorization_endpoint", "registration_endpoint", "token_endpoint"):
            document[name] = "https://192.0.2.1/unused"
        document[what] = url

    match what:
        case "resource_metadata":
            return {"challenge": lambda document: document.update(resource_metadata=url)}
        case "authorization_servers":
            return {
                "challenge": without_metadata,
                "resource": lambda document: document.update(authorization_servers=[url]),
            }
        case "redirect":
            return {
                "challenge": without_metadata,
                "resource": lambda document: web.Response(status=302, headers={"Location": url}),
            }
    return {
        "challenge": without_metadata,
        "resource": lambda document: web.Response(status=404),
        "server": named,
    }


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("resource_metadata", r"the protected resource metadata is at .*must not name"),
        ("authorization_servers", r"the authorization server metadata is at .*must not name"),
        ("registration_endpoint", r"the registration is at .*must not name"),
        ("authorization_endpoint", r"the authorization_endpoint is at .*must not name"),
        ("token_endpoint", r"the token request is at .*must not name"),
        ("redirect", None),
    ],
)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_remote_server_cannot_lead_this_client_to_a_service_of_its_machine(
    what: str, told: str | None, host: str
) -> None:
    pages: list[str] = []

    async def visit(url: str) -> str:
        pages.append(url)
        return ""

    async with _service() as (address, requests):
        url = f"http://{host}:{address.rpartition(':')[2]}/admin"
        setup = ClientSetup(redirect_uri="http://127.0.0.1:9/callback")
        if what == "token_endpoint":
            setup = ClientSetup(machine=ClientCredentials("me", "secret"))
        async with GuardedServer(_naming(what, url)).running(REMOTE) as server:
            if what == "authorization_endpoint":
                setup = ClientSetup(
                    client=ClientRegistration("me", redirect_uri="http://127.0.0.1:9/callback")
                )
            authorizer = Authorizer(server.url, setup, GrantsInMemory(), visit)
            client = HttpRequests(server.url, {}, authorizer=authorizer)
            try:
                with pytest.raises(AuthorizationError, match=told):
                    async with client.answered("POST", {}, b"{}"):
                        pass
            finally:
                await client.close()
    assert requests == []
    assert pages == []


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("127.0.0.1", LOOPBACK),
        ("::1", LOOPBACK),
        ("::ffff:127.0.0.1", LOOPBACK),
        ("64:ff9b::7f00:1", LOOPBACK),
        ("2002:7f00:1::", LOOPBACK),
        ("127.0.0.53", "127.0.0.53"),
        ("0.0.0.0", "0.0.0.0"),
        ("::", "::"),
        ("169.254.169.254", "169.254.169.254"),
        ("::ffff:169.254.169.254", "169.254.169.254"),
        ("fe80::1%eth0", "fe80::1"),
        ("224.0.0.1", "224.0.0.1"),
        ("255.255.255.255", "255.255.255.255"),
        ("10.1.2.3", PRIVATE),
        ("172.31.0.1", PRIVATE),
        ("192.168.0.1", PRIVATE),
        ("100.100.1.1", PRIVATE),
        ("fd00::1", PRIVATE),
        ("fec0::1", PRIVATE),
        ("8.8.8.8", PUBLIC),
        ("2606:4700::1111", PUBLIC),
    ],
)
def test_an_address_has_one_kind(address: str, kind: str) -> None:
    assert address_kind(address) == kind


def _info(address: str) -> tuple[Any, ...]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return (family, socket.SOCK_STREAM, 0, "", (address, 443))


@pytest.mark.parametrize(
    ("server", "named", "is_permitted"),
    [
        (["8.8.8.8"], "8.8.4.4", True),
        (["8.8.8.8"], "127.0.0.1", False),
        (["8.8.8.8"], "10.0.0.1", False),
        (["8.8.8.8"], "169.254.169.254", False),
        (["8.8.8.8", "127.0.0.1"], "127.0.0.1", False),
        (["127.0.0.1", "8.8.8.8"], "::1", False),
        (["127.0.0.1"], "::1", True),
        (["127.0.0.1"], "192.168.1.1", True),
        (["127.0.0.1"], "169.254.169.254", False),
        (["192.168.1.1"], "10.0.0.1", True),
        (["192.168.1.1"], "127.0.0.1", False),
        (["169.254.1.1"], "169.254.1.1", True),
        (["169.254.1.1"], "169.254.169.254", False),
        ([], "127.0.0.1", False),
        ([], "8.8.8.8", True),
    ],
)
def test_a_server_names_public_addresses_and_those_of_its_own_kind(
    server: list[str], named: str, is_permitted: bool
) -> None:
    addresses = ServerAddresses("https://mcp.test/mcp")
    for each in server:
        addresses.server_socket(_info(each)).close()
    if is_permitted:
        addresses.named_socket(_info(named)).close()
    else:
        with pytest.raises(AddressRefused):
            addresses.named_socket(_info(named))


@pytest.mark.parametrize(
    ("server", "host", "is_refused"),
    [
        ("https://mcp.test/mcp", "localhost", True),
        ("https://mcp.test/mcp", "a.localhost", True),
        ("https://mcp.test/mcp", "printer.local.", True),
        ("https://mcp.test/mcp", "vault.internal", True),
        ("https://mcp.test/mcp", "intranet", True),
        ("https://mcp.test/mcp", "id.example.com", False),
        ("https://mcp.test/mcp", "8.8.8.8", False),
        ("https://mcp.corp/mcp", "id.corp", False),
    ],
)
def test_a_public_server_names_no_host_of_private_networks(server: str, host: str, is_refused: bool) -> None:
    addresses = ServerAddresses(server)
    addresses.server_socket(_info("8.8.8.8")).close()
    try:
        addresses.check_name("it", f"https://{host}/x")
    except AuthorizationError:
        assert is_refused
    else:
        assert not is_refused


async def test_a_url_that_a_person_gave_may_lead_anywhere() -> None:
    async with _service() as (address, requests), GuardedServer().running(REMOTE) as server:
        client = HttpRequests(server.url, {})
        try:
            step = Fetch("it", f"http://{address}/mine", is_named_by_server=False)
            assert (await client.fetch(step)).status == 200
            with pytest.raises(AuthorizationError, match="must not name"):
                await client.fetch(Fetch("it", f"http://{address}/theirs"))
        finally:
            await client.close()
    assert requests == ["GET /mine"]


async def test_only_the_request_with_the_right_state_ends_a_login() -> None:
    async with BrowserLogin(lambda url: None) as login, within():
        visit = asyncio.ensure_future(login.visit("https://id.test/authorize?state=right&x=1"))
        await asyncio.sleep(0)
        async with aiohttp.ClientSession() as browser:
            for query in ({}, {"state": "wrong", "code": "evil"}, {"error": "access_denied"}):
                async with browser.get(f"{login.redirect_uri}?{urlencode(query)}") as answer:
                    assert answer.status == 400
                    assert "mcpdesk ignored this request" in await answer.text()
            async with browser.get(f"{login.redirect_uri}?state=x&state=right&code=evil") as answer:
                assert answer.status == 400
            assert not visit.done()
            page = asyncio.ensure_future(browser.get(f"{login.redirect_uri}?state=right&code=good"))
            assert (await visit).endswith("/callback?state=right&code=good")
            assert not page.done()
            login.conclude("")
            async with await page as answer:
                assert "You are logged in" in await answer.text()


async def test_every_login_listens_on_a_port_of_its_own_unless_one_is_given() -> None:
    async with BrowserLogin(print) as first, BrowserLogin(print) as second:
        assert first.redirect_uri != second.redirect_uri
        port = int(first.redirect_uri.split(":")[2].partition("/")[0])
        with pytest.raises(AuthorizationError, match=rf"127\.0\.0\.1:{port}: "):
            async with BrowserLogin(print, port=port):
                pass
