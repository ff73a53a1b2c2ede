"""So many connections and no more: an idle one makes room, and who finds none is told."""

from __future__ import annotations

import asyncio

import pytest

from mcpdesk.transports.base import Rules
from mcpdesk.transports.http import connections
from tests.support.patience import WITHIN_S
from tests.support.rude import all_of, connected, posted
from tests.support.site import serving

ASK = posted(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')


async def test_the_longest_idle_connection_makes_room() -> None:
    async with serving(Rules(max_connections=2)) as served, connected(served) as (first, writer):
        writer.write(ASK)
        assert b"200" in await first.readline()
        async with connected(served) as (second, other):
            other.write(ASK)
            assert b"200" in await second.readline()
            async with connected(served) as (third, newest):
                newest.write(ASK)
                assert b"200" in await third.readline()
                assert (await all_of(first)).endswith(b"}")
                other.write(ASK)
                newest.write(ASK)
                for reader in (second, third):
                    async with asyncio.timeout(WITHIN_S):
                        while b"HTTP/1.1 200" not in await reader.readline():
                            pass


async def test_connections_in_use_make_none_and_a_new_one_is_told() -> None:
    async with serving(Rules(max_connections=1)) as served:
        headers = await served.session()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with (
            served.client.get(f"{served.url}/mcp/sample", headers=named | {"Accept": "text/event-stream"}),
            connected(served) as (reader, _),
        ):
            answer = await all_of(reader)
    assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n") and b"max_connections" in answer


async def test_files_of_the_process_bound_its_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "max_open_files", lambda: connections.SPARE_FILES + 1)
    async with (
        serving() as served,
        connected(served) as (first, _),
        connected(served) as (second, writer),
    ):
        writer.write(ASK)
        assert b"200" in await second.readline()
        assert await all_of(first) == b""


async def test_hundreds_who_connect_and_wait_keep_nobody_out() -> None:
    async with serving(Rules(max_connections=20)) as served:
        idle = [connected(served) for _ in range(200)]
        for each in idle:
            await each.__aenter__()
        assert (await served.modern("tools/list")).status == 200
        for each in idle:
            await each.__aexit__(None, None, None)
