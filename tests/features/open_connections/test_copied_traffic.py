"""A running desk shows the traffic of open connections, and forgets those that end."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from mcpdesk.features.open_connections.copied_traffic import PEER
from mcpdesk.hosting.core_loop.core_thread import CoreThread
from mcpdesk.hosting.host import Host
from mcpdesk.hosting.host_plan import plan_for
from mcpdesk.link.local.local_link import LocalLink
from mcpdesk.paths import sample_servers
from tests.features.open_connections.conftest import SERVER, Shell
from tests.support.patience import until, within

pytestmark = pytest.mark.slow


def calls(link: LocalLink, server: str) -> list[tuple[str, str]]:
    """Clients and methods of the recorded requests to a server."""
    while link.traffic.catch_up():
        pass
    return [(each.peer, each.method) for each in link.traffic.exchanges if each.server == server]


async def test_connections_opened_later_appear_and_ended_ones_are_closed(shell: Shell) -> None:
    shell.succeed("up", "--name", "early", *SERVER)
    shell.succeed("call", "early", "inc")
    environ = shell.environ | {"MCPDESK_HOST": "127.0.0.1"}
    plan = plan_for([sample_servers() / "hello"], {"port": 0}, environ, http=False)
    host = Host(replace(plan, draws_first=True))
    await asyncio.to_thread(host.load)
    core, link = CoreThread(host), LocalLink(host)
    core.start()
    host.screen_drawn()
    try:
        async with within():
            await asyncio.wrap_future(core.started)
        await until(lambda: (PEER, "tools/call") in calls(link, "early"))
        await asyncio.to_thread(shell.succeed, "up", "--name", "late", *SERVER)
        await asyncio.to_thread(shell.succeed, "call", "late", "inc")
        await until(lambda: (PEER, "tools/call") in calls(link, "late"))
        (row,) = [row for row in await asyncio.to_thread(shell.connections) if row["name"] == "late"]
        assert row["clients"] == 0, "the desk does not count as a client"
        infos = host.recording.index.connections
        await asyncio.to_thread(shell.succeed, "down", "late")
        await until(
            lambda: all(each.closed is not None for each in list(infos.values()) if each.server == "late")
        )
        assert any(each.closed is None for each in infos.values() if each.server == "early")
        assert not [each for each in link.view().servers if each.name in ("early", "late")]
        await asyncio.to_thread(shell.succeed, "up", "--name", "brief", "--idle", "5", *SERVER)
        await until(lambda: any("brief has ended" in line.text for line in host.journal.lines()))
        assert any("late has ended" in line.text for line in host.journal.lines())
    finally:
        link.close()
        await asyncio.to_thread(core.stop)
