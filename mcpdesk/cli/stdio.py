"""`mcpdesk stdio FOLDER`: what a client's configuration starts."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import click

from mcpdesk.cli.options import server_folder
from mcpdesk.cli.signals import Ending
from mcpdesk.transports import pump, rendezvous

if TYPE_CHECKING:
    from mcpdesk.hosting.host import Host
    from mcpdesk.transports.descriptors import Claimed

GRACE_S = 5.0
"""How long the end may take after a signal. Clients kill two seconds after theirs."""
LOOK_S = 0.25

EPILOG = """\b
Example, in a client's configuration:
  {"command": "mcpdesk", "args": ["stdio", "/home/ada/servers/profiles"]}

A desk that already hosts FOLDER serves the client, and shows its calls. Without one, this process does.
Logs go to stderr.
"""


@click.command(name="stdio", epilog=EPILOG, short_help="Serve one client over stdin and stdout.")
@click.argument("folder", metavar="FOLDER")
@click.option("--mode", default="", metavar="NAME", help="Offer only the tools of this mode of the server.")
@click.option("--alone", is_flag=True, help="Serve from this process even if a desk hosts FOLDER.")
def command(folder: str, mode: str, alone: bool) -> int:
    """Serve FOLDER over stdin and stdout until the client closes its end."""
    place = server_folder(folder)
    if not alone:
        code = pump.run(str(place), mode)
        if code is not None:
            return code
    from mcpdesk.cli.claiming import claiming
    from mcpdesk.hosting.effective import plan_for
    from mcpdesk.hosting.host import Host

    host = Host(plan_for((place,), {}, os.environ, http=False))
    with claiming(host, "wire") as claimed:
        host.load()
        asyncio.run(_serve(host, claimed, mode))
    return 0


async def _serve(host: Host, claimed: Claimed, mode: str) -> None:
    from mcpdesk.transports.stdio import StdioTransport

    loop = asyncio.get_running_loop()
    peer = rendezvous.process_name(os.getppid())
    transport = StdioTransport(claimed.stdin_fd, claimed.stdout_fd, host.open_pipe, peer=peer, mode=mode)

    def stop(reason: str) -> None:
        loop.call_soon_threadsafe(transport.stop)

    with Ending(stop, grace_s=GRACE_S):
        telling_aio = asyncio.create_task(_tell(host))
        try:
            await host.start()
            await transport.serve()
        finally:
            await host.stop()
            telling_aio.cancel()
            await asyncio.wait([telling_aio])


async def _tell(host: Host) -> None:
    """Write what the core has to say to stderr, until cancelled."""
    from mcpdesk.cli.service import JournalPrinter

    printer = JournalPrinter(host)
    try:
        while True:
            printer.follow()
            await asyncio.sleep(LOOK_S)
    finally:
        printer.follow()
