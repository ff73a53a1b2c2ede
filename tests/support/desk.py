"""A real core on its own thread, and a link to it, for tests of everything above the core."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from mcpdesk.hosting.core_thread import CoreThread
from mcpdesk.hosting.effective import plan_for
from mcpdesk.hosting.host import Host
from mcpdesk.link.local import LocalLink

START_S = 10.0


class RunningDesk(LocalLink):
    """The link, and the host behind it for the tests that need to look there."""

    host: Host


@asynccontextmanager
async def running_desk(
    *folders: Path, http: bool = False, watch: bool = False, meet: bool = False, **flags: object
) -> AsyncIterator[RunningDesk]:
    """Host folders until the block ends. `flags` are settings by name; HTTP listens on any free port."""
    plan = plan_for(folders, {"port": 0, **flags}, {}, http=http)
    host = Host(dataclasses.replace(plan, watch=watch, meet=meet))
    await asyncio.to_thread(host.load)
    core = CoreThread(host)
    link = RunningDesk(host)
    link.host = host
    core.start()
    try:
        async with asyncio.timeout(START_S):
            await asyncio.wrap_future(core.started)
        yield link
    finally:
        link.close()
        await asyncio.to_thread(core.stop)
