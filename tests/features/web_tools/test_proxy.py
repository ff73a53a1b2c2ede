"""The proxy of a browser: allowed requests pass, all others are refused."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mcpdesk.features.web_tools.browser import guarding_proxy
from tests.features.web_tools.pages import Site, site
from tests.support.patience import in_time, within


@pytest.fixture
async def served() -> AsyncIterator[Site]:
    async with site() as running:
        yield running


async def through(proxy: str, request: str) -> bytes:
    host, port = proxy.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request.replace("\n", "\r\n").encode())
    answer = await in_time(reader.read())
    writer.close()
    return answer


async def test_a_plain_request_reaches_this_machine(served: Site) -> None:
    async with guarding_proxy(allows_private=False) as proxy:
        place = served.base.removeprefix("http://")
        answer = await through(
            proxy.url, f"GET {served.base}/json?a=1 HTTP/1.1\nHost: {place}\nProxy-Connection: keep-alive\n\n"
        )
    assert b'{"tide": 3}' in answer and served.asked == ["/json?a=1"]


async def test_a_tunnel_reaches_this_machine(served: Site) -> None:
    place = served.base.removeprefix("http://")
    request = f"CONNECT {place} HTTP/1.1\nHost: {place}\n\nGET /json HTTP/1.0\nHost: {place}\n\n"
    async with guarding_proxy(allows_private=False) as proxy:
        assert b'{"tide": 3}' in await through(proxy.url, request)


async def test_of_a_hosts_addresses_the_one_that_answers_is_taken(
    served: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like `localhost` if it resolves to `::1` first and the server listens only on 127.0.0.1."""
    found = [(socket.AF_INET6, "::1"), (socket.AF_INET, "127.0.0.1")]
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda *_, **__: [(kind, socket.SOCK_STREAM, 6, "", (address, 0)) for kind, address in found],
    )
    port = served.base.rpartition(":")[2]
    async with guarding_proxy(allows_private=False) as proxy:
        answer = await through(proxy.url, f"GET http://localhost:{port}/json HTTP/1.1\nHost: localhost\n\n")
    assert b'{"tide": 3}' in answer


@pytest.mark.parametrize(
    "line",
    [
        "GET http://10.0.0.1/ HTTP/1.1",
        "CONNECT 192.168.1.1:443 HTTP/1.1",
        "CONNECT [fe80::1]:443 HTTP/1.1",
        "GET http://no-such-host.invalid/ HTTP/1.1",
        "GET / HTTP/1.1",
        "CONNECT x:99999999 HTTP/1.1",
    ],
)
async def test_what_is_not_allowed_is_refused(line: str) -> None:
    async with guarding_proxy(allows_private=False) as proxy:
        assert (await through(proxy.url, f"{line}\n\n")).startswith(b"HTTP/1.1 403")


@pytest.mark.parametrize("verb", ["GET", "CONNECT"])
async def test_a_page_of_the_internet_does_not_reach_this_machine(served: Site, verb: str) -> None:
    target = f"{served.base}/json" if verb == "GET" else served.base.removeprefix("http://")
    async with guarding_proxy(allows_private=False, allows_local=False) as proxy:
        assert (await through(proxy.url, f"{verb} {target} HTTP/1.1\n\n")).startswith(b"HTTP/1.1 403")
    assert served.asked == []


async def test_what_nobody_answers_is_unreachable() -> None:
    async with guarding_proxy(allows_private=False) as proxy:
        assert (await through(proxy.url, "GET http://127.0.0.1:1/ HTTP/1.1\n\n")).startswith(b"HTTP/1.1 502")


async def test_a_head_without_end_is_left() -> None:
    async with guarding_proxy(allows_private=False) as proxy:
        assert await through(proxy.url, "GET http://127.0.0.1/" + "x" * 100_000) == b""


async def test_connections_that_are_open_at_the_end_end_without_a_word(served: Site) -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, complaint: complaints.append(complaint))
    place = served.base.removeprefix("http://")
    async with guarding_proxy(allows_private=False) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
        writer.write(f"CONNECT {place} HTTP/1.1\r\n\r\n".encode())
        async with within():
            assert b"200" in await reader.readuntil(b"\r\n\r\n")
    assert await in_time(reader.read()) == b""
    writer.close()
    assert complaints == []
