"""`mcpdesk serve FOLDER ...`: a core without a screen."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from mcpdesk.cli import completion
from mcpdesk.cli.core_process import JournalPrinter, StopRequests, claiming, give_dashboard, require_unix
from mcpdesk.cli.options import given_flags, mode_option, server_folder, setting_options

if TYPE_CHECKING:
    from mcpdesk.hosting.channel import HostedDialogue
    from mcpdesk.hosting.host import Host
    from mcpdesk.hosting.host_plan import HostPlan

GRACE_S = 10.0
"""How long the end may take once nothing runs any more, or the time for that is over."""
POLL_S = 0.1
EPILOG = """\b
Examples:
  mcpdesk serve ~/servers/profiles
  mcpdesk serve ~/servers/a ~/servers/b --http 127.0.0.1:4000
  mcpdesk serve ~/servers/a --socket /run/user/1000/a.sock
  mcpdesk serve ~/servers/a --mode review

With --socket HTTP is served there instead of on TCP.
Logs go to stderr. SIGTERM and Ctrl+C let running calls finish, then end with 0.
"""


@click.command(name="serve", epilog=EPILOG, short_help="Serve folders without a screen.")
@click.argument("folders", nargs=-1, required=True, metavar="FOLDER...", shell_complete=completion.folder)
@mode_option
@setting_options
def command(folders: tuple[str, ...], mode: str, **values: Any) -> int:
    """Serve the FOLDERs over HTTP, and to every `mcpdesk stdio FOLDER`, until told to stop."""
    require_unix("`mcpdesk serve`")
    places = tuple(map(server_folder, folders))
    from mcpdesk.hosting.host_plan import plan_for

    plan = plan_for(places, given_flags(values), os.environ, mode=mode, waits=True)
    return run_service(plan)


def run_service(plan: HostPlan) -> int:
    """Serve until a signal comes; then let running calls finish. Returns the exit code.

    Raises: DeskError when the core cannot start.
    """
    from mcpdesk.hosting import core_thread
    from mcpdesk.hosting.host import Host

    host = Host(plan)
    give_dashboard(host)
    with ExitStack() as last, claiming(host, "serve"):
        host.load()
        core_thread.run(_serve(host, last), core_thread.loop_factory())
    return 0


async def _serve(host: Host, last: ExitStack) -> None:
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()

    def stop(reason: str) -> None:
        loop.call_soon_threadsafe(asked.set)

    grace_s = host.settings.drain_timeout_s + GRACE_S
    log = last.enter_context(JournalPrinter(host))  # what was printed until the end is known later still
    with StopRequests(stop, grace_s=grace_s) as ending:
        try:
            await host.start()
            log.follow()
            for line in greeting(host):
                log.say(line)
            while not asked.is_set():
                log.follow()
                await _wait_for(asked, POLL_S)
            log.say(f"{ending.reason}: finishing what is under way")
            if left := await _drain(host, log):
                limit_s = host.settings.drain_timeout_s
                log.say(f"ended {left} that took longer than {limit_s} s (drain_timeout_s)")
        finally:
            await host.stop()


async def _wait_for(event: asyncio.Event, most_s: float) -> None:
    """Wait for the event, but not longer than `most_s`."""
    try:
        await asyncio.wait_for(event.wait(), most_s)
    except TimeoutError:
        return


async def _drain(host: Host, log: JournalPrinter) -> str:
    """Refuse new calls and wait until none is running; returns which calls and jobs took too long.

    Clients can still send meanwhile: a running call may ask them something, and they may ask how their jobs
    stand. Streams that would never end are closed. A client whose call took too long gets an error, or is
    disconnected when that call ignores its cancellation.
    """
    await host.send_pumps_away()
    for hosted in host.folders.values():
        hosted.stop()
    host.services.subscriptions.close()
    end = time.monotonic() + host.settings.drain_timeout_s
    while (left := _under_way(host)) and time.monotonic() < end:
        log.follow()
        await asyncio.sleep(POLL_S)
    await host.services.close()
    if host.http is not None:
        host.http.leave_sessions()
    for dialogue in _dialogues(host):
        if not dialogue.is_idle:
            host.disconnect(dialogue.connection)
    return left


def _dialogues(host: Host) -> list[HostedDialogue]:
    return [dialogue for endpoint in host.endpoints() for dialogue in endpoint.dialogues.values()]


def _under_way(host: Host) -> str:
    """`2 calls and 1 job`; empty when nothing runs."""
    from mcpdesk.protocol.task_shapes import TaskStatus

    calls = sum(len(dialogue.conversation.running) for dialogue in _dialogues(host))
    jobs = sum(job.status is TaskStatus.WORKING for job in host.services.jobs.snapshot())
    counted = ((calls, "call"), (jobs, "job"))
    return " and ".join(f"{number} {word}{'s' * (number > 1)}" for number, word in counted if number)


def greeting(host: Host) -> list[str]:
    """Where the servers can be reached, and what callers have to send."""
    urls = {endpoint.name: host.url(endpoint.name) for endpoint in host.endpoints()}
    withheld = {endpoint.name: endpoint.server.withheld for endpoint in host.endpoints()}
    lines = [f"serving {name} at {url}" for name, url in urls.items() if not withheld[name]]
    lines += [f"not serving {name} until it is mended: {why}" for name, why in withheld.items() if why]
    address = next(iter(urls.values()), "").partition("/mcp/")[0]
    if address.startswith("http"):
        lines.append(f"a browser shows it at {address}/")
    if host.protection == "key":
        lines.append(f"callers send the key as {host.rules.api_key_header}; {_where_key_is(host)}")
    elif host.is_exposed:
        where = f"ANYBODY who reaches {host.settings.host} from another machine can call the tools"
        lines.append(f"{where}: set MCPDESK_API_KEY to ask for a key, or leave --host out")
    elif host.protection == "open":
        lines.append("ANYBODY who reaches the port can run programs: --no-auth was given")
    guarded = [each.name for each in host.endpoints() if each.server.access.requires_token]
    if guarded:
        lines.append(f"callers of {', '.join(guarded)} send a token, as Authorization: Bearer")
    return lines


def _where_key_is(host: Host) -> str:
    """Where a caller finds the key."""
    from mcpdesk.auth import api_key

    if host.settings.api_key:
        return "it is the configured one"
    place = host.settings.state_dir / api_key.FILE_NAME
    if place.exists():
        return f"it is in {place}"
    return "but nobody knows it: set MCPDESK_API_KEY, or MCPDESK_STATE_DIR to a folder that can be written"
