"""Whether a core is ready depends on its pass-through servers, and does not change while they reconnect."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer

from mcpdesk.client.targets import UrlTarget
from mcpdesk.paths import sample_servers
from mcpdesk.upstream.upstream import UpstreamPlan
from tests.support.desk import running_desk
from tests.support.patience import until


@pytest.mark.parametrize("is_alone", [True, False])
async def test_a_server_that_is_down_is_named_and_one_that_reconnects_changes_nothing(is_alone: bool) -> None:
    may_answer = asyncio.Event()

    async def there(request: web.BaseRequest) -> web.StreamResponse:
        await may_answer.wait()
        return web.Response(status=500)

    folders = [] if is_alone else [sample_servers() / "hello"]
    async with RawTestServer(there) as server:
        plan = UpstreamPlan("far", UrlTarget(str(server.make_url("/mcp"))))
        async with running_desk(*folders, upstreams=[plan], http=True) as desk:
            host, far = desk.host, desk.host.upstreams["far"]
            assert (host.unready, host.down_servers) == ("far is not connected yet", [])
            may_answer.set()
            await until(lambda: far.status.state == "failed")
            reason = "not connected: far" if is_alone else ""
            assert (host.unready, host.down_servers) == (reason, ["far"])
            may_answer.clear()
            desk.reload("far")
            await until(lambda: far.status.state == "connecting")
            assert (host.unready, host.down_servers) == (reason, ["far"])
            may_answer.set()
            await until(lambda: far.status.state == "failed")
