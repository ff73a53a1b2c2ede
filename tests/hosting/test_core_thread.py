"""A core on its own thread: starts, fails to start, stops."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from mcpdesk.errors import TransportError
from mcpdesk.hosting.core_loop import core_thread
from mcpdesk.hosting.core_loop.core_thread import CoreThread
from mcpdesk.hosting.host import Host
from mcpdesk.hosting.host_plan import plan_for
from tests.support.patience import WITHIN_S


async def test_why_a_core_could_not_start_reaches_whoever_started_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        host = Host(plan_for([tmp_path], {"port": taken.getsockname()[1]}, os.environ))
        host.load()
        core = CoreThread(host)
        core.start()
        with pytest.raises(TransportError, match="taken"):
            await asyncio.wrap_future(core.started)
        core.stop()
    assert "mcpdesk-core" not in {thread.name for thread in threading.enumerate()}


async def leave() -> None:
    sys.exit(4)


@pytest.mark.parametrize("factory", [None, core_thread.loop_factory()])
def test_a_task_in_the_background_that_exits_ends_only_itself(
    factory: core_thread.LoopFactory | None, caplog: pytest.LogCaptureFixture
) -> None:
    reached: list[str] = []

    async def main() -> None:
        asyncio_task = asyncio.create_task(leave())
        await asyncio.wait({asyncio_task})
        assert isinstance(asyncio_task.exception(), SystemExit)
        reached.append("the end")

    core_thread.run(main(), factory)
    assert reached == ["the end"]
    assert "SystemExit(4)" in caplog.text


def test_what_the_core_itself_raises_is_raised() -> None:
    async def main() -> None:
        raise ValueError("of the core")

    with pytest.raises(ValueError, match="of the core"):
        core_thread.run(main())
    with pytest.raises(SystemExit):
        core_thread.run(leave())


@pytest.mark.parametrize("factory", [None, core_thread.loop_factory()])
def test_leftovers_that_do_not_heed_their_cancellation_are_left_behind(
    factory: core_thread.LoopFactory | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(core_thread, "LEFTOVERS_S", 0.05)
    going = True
    release = threading.Event()

    async def go_on() -> None:
        while going:
            with suppress(asyncio.CancelledError):
                await asyncio.to_thread(release.wait)

    async def main() -> None:
        kept.append(asyncio.create_task(go_on()))
        await asyncio.sleep(0)

    kept: list[asyncio.Task[None]] = []
    began = time.monotonic()
    core_thread.run(main(), factory)
    going = False
    release.set()
    assert time.monotonic() - began < WITHIN_S
    assert "abandoned" in caplog.text
    kept[0]._log_destroy_pending = False  # type: ignore[attr-defined]
