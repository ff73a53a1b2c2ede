"""A core of its own behind one client's pipes. Imports no click: the client is waiting."""

from __future__ import annotations

import asyncio
import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from mcpdesk.cli.signals import CLIENT_LEFT, Ending
from mcpdesk.transports import rendezvous

if TYPE_CHECKING:
    from mcpdesk.hosting.host import Host
    from mcpdesk.transports.descriptors import Claimed

GRACE_S = 4.5
"""How long the end may take after a signal, or after the client left."""
LOOK_S = 0.25


def run(folder: Path, mode: str) -> int:
    """Serve `folder` on stdin and stdout until the client closes its end; returns the exit code.

    The folder's meeting point is opened too, for further clients. Raises: DeskError when it cannot be hosted.
    """
    from mcpdesk.cli.claiming import claiming
    from mcpdesk.hosting import loops
    from mcpdesk.hosting.effective import plan_for
    from mcpdesk.hosting.host import Host

    host = Host(plan_for((folder,), {}, os.environ, http=False))
    with ExitStack() as last, claiming(host, "wire") as claimed:
        host.load()
        # uvloop takes longer to import.
        loops.run(_serve(host, claimed, mode, last), loops.alert_loop)
    return 0


async def _serve(host: Host, claimed: Claimed, mode: str, last: ExitStack) -> None:
    from mcpdesk.transports.stdio import StdioTransport

    loop = asyncio.get_running_loop()
    peer = rendezvous.process_name(os.getppid())
    transport = StdioTransport(claimed.stdin_fd, claimed.stdout_fd, host.open_pipe, peer=peer, mode=mode)

    def stop(reason: str) -> None:
        # A client that left may have left requests behind; the transport comes to the end of them by itself.
        if reason != CLIENT_LEFT:
            loop.call_soon_threadsafe(transport.stop)

    # But not while a tool blocks the loop: hence `client_fd`.
    with Ending(stop, grace_s=GRACE_S, client_fd=claimed.stdin_fd):
        opening_aio = telling_aio = None
        try:
            await host.wake()
            # The client waits; whoever else may want this core finds it a moment later.
            opening_aio = asyncio.create_task(host.open())
            telling_aio = asyncio.create_task(_tell(host, last))
            await transport.serve()
        finally:
            if opening_aio is not None:
                await asyncio.wait([opening_aio])
            await host.stop()
            telling_aio = telling_aio or asyncio.create_task(_tell(host, last))
            await asyncio.sleep(0)  # a task that never ran would tell nothing
            telling_aio.cancel()
            await asyncio.wait([telling_aio])
        opening_aio.result()


async def _tell(host: Host, last: ExitStack) -> None:
    """Write what the core has to say to stderr, until cancelled; the rest `last`: tools may still print."""
    from mcpdesk.cli.journal_printer import JournalPrinter

    printer = last.enter_context(JournalPrinter(host))
    while True:
        printer.follow()
        await asyncio.sleep(LOOK_S)
