"""Runs a core without a screen until it is told to stop. Everything it has to say goes to stderr."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from mcpdesk.auth import api_key
from mcpdesk.cli.claiming import claiming
from mcpdesk.cli.journal_printer import JournalPrinter
from mcpdesk.cli.signals import Ending

if TYPE_CHECKING:
    from mcpdesk.hosting.host import Host, Plan

DRAIN_S = 20.0
"""How long running calls may go on after the end was asked for."""
GRACE_S = DRAIN_S + 10
LOOK_S = 0.1


def run_service(plan: Plan) -> int:
    """Serve until a signal comes; then let running calls finish. Returns the exit code.

    Raises: DeskError when the core cannot start.
    """
    from mcpdesk.hosting import loops
    from mcpdesk.hosting.host import Host

    host = Host(plan)
    with claiming(host, "serve"):
        host.load()
        loops.run(_serve(host), loops.loop_factory())
    return 0


async def _serve(host: Host) -> None:
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()

    def stop(reason: str) -> None:
        loop.call_soon_threadsafe(asked.set)

    with JournalPrinter(host) as log, Ending(stop, grace_s=GRACE_S) as ending:
        try:
            await host.start()
            log.follow()
            for line in greeting(host):
                log.say(line)
            while not asked.is_set():
                log.follow()
                await _either(asked, LOOK_S)
            log.say(f"{ending.reason}: finishing what is under way")
            await _drain(host)
        finally:
            await host.stop()


async def _either(event: asyncio.Event, most_s: float) -> None:
    """Wait for the event, but not longer than `most_s`."""
    try:
        await asyncio.wait_for(event.wait(), most_s)
    except TimeoutError:
        return


async def _drain(host: Host) -> None:
    """Wait until no call is under way; streams that would never end are ended."""
    host.services.subscriptions.close()
    end = time.monotonic() + DRAIN_S
    while time.monotonic() < end:
        dialogues = [dialogue for endpoint in host.endpoints() for dialogue in endpoint.dialogues.values()]
        if all(dialogue.is_idle for dialogue in dialogues):
            return
        await asyncio.sleep(LOOK_S)


def greeting(host: Host) -> list[str]:
    """Where the servers can be reached, and what callers have to send."""
    lines = [f"serving {endpoint.name} at {host.url(endpoint.name)}" for endpoint in host.endpoints()]
    if host.protection == "key":
        lines.append(f"callers send the key as {host.rules.api_key_header}; {_whereabouts(host)}")
    elif host.protection == "open":
        lines.append("ANYBODY who reaches the port can run programs: --no-auth was given")
    return lines


def _whereabouts(host: Host) -> str:
    """Where a caller finds the key."""
    if host.settings.api_key:
        return "it is the configured one"
    place = host.settings.state_dir / api_key.FILE_NAME
    if place.exists():
        return f"it is in {place}"
    return "but nobody knows it: set MCPDESK_API_KEY, or MCPDESK_STATE_DIR to a folder that can be written"
