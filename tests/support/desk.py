"""A real core on its own thread, and a link to it, for tests of everything above the core."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from mcpdesk.hosting.core_loop.core_thread import CoreThread
from mcpdesk.hosting.host import Host
from mcpdesk.hosting.host_plan import plan_for
from mcpdesk.link.local.local_link import LocalLink
from mcpdesk.link.values import CallOutcome
from mcpdesk.upstream.upstream import UpstreamPlan
from tests.support.patience import in_time, within

# What the screen imports late is imported here, and not while the first test that needs it is measured.
for late in ("screens.workbench", "traffic.traffic_pane", "screens.activity", "screens.logs"):
    import_module(f"mcpdesk.tui.{late}")

START_S = 20.0


class RunningDesk(LocalLink):
    """A link, and its host for tests that inspect it."""

    host: Host

    async def outcome(self, server: str, method: str, params: dict[str, Any]) -> CallOutcome:
        """Outcome of a request by the desk."""
        return await in_time(asyncio.wrap_future(self.request(server, method, params).outcome))

    async def answer_of(self, server: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Result of a successful request by the desk."""
        outcome = await self.outcome(server, method, params)
        assert outcome.result is not None, outcome
        return outcome.result

    async def call(self, server: str, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Result of a call by the desk; its `isError` may be set."""
        return await self.answer_of(server, "tools/call", {"name": tool, "arguments": arguments})


@asynccontextmanager
async def running_desk(
    *folders: Path,
    http: bool = False,
    watch: bool = False,
    accepts_pumps: bool = False,
    withholds_invalid: bool = False,
    upstreams: Sequence[UpstreamPlan] = (),
    feature_options: Mapping[str, str] = MappingProxyType({}),
    **flags: object,
) -> AsyncIterator[RunningDesk]:
    """Host folders until the block ends. `flags` are settings by name; HTTP listens on any free port."""
    plan = plan_for(
        folders,
        {"port": 0, **flags},
        os.environ,
        http=http,
        withholds_invalid=withholds_invalid,
        upstreams=upstreams,
        feature_options=feature_options,
    )
    host = Host(msgspec.structs.replace(plan, watch=watch, accepts_pumps=accepts_pumps))
    await asyncio.to_thread(host.load)
    core = CoreThread(host)
    link = RunningDesk(host)
    link.host = host
    core.start()
    try:
        async with within(within_s=START_S):
            await asyncio.wrap_future(core.started)
        yield link
    finally:
        link.close()
        await asyncio.to_thread(core.stop)
