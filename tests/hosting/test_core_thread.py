"""A core on its own thread: starts, fails to start, stops."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from pathlib import Path

import pytest

from mcpdesk.errors import TransportError
from mcpdesk.hosting.core_thread import CoreThread
from mcpdesk.hosting.host import Host
from mcpdesk.hosting.host_plan import plan_for


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
