"""The command `oauth-bench`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Literal

import click
from msgspec import Struct

from mcpdesk.features.client_bench.bench_command import (
    SETTLE_S,
    announce,
    first_of,
    print_report,
    require_placeholder,
    run_bench,
    wait_for,
)
from mcpdesk.features.client_bench.bench_report import VERSION, BenchReport, BenchRun, CheckVerdict

if TYPE_CHECKING:
    from mcpdesk.features.client_bench.oauth_server import BenchServer, Probe

LIFETIME_S = 15
"""Default lifetime of an access token, in seconds."""
TIMEOUT_S = 180.0
"""Default time limit of one run, in seconds."""
REFUSAL_S = 5.0
"""Seconds to wait after a redirect that the client must refuse.

A client that does not use the code in this time has refused the redirect.
"""
ALL_PROBES = ("login", "wrong-iss", "no-iss", "wrong-state")
EXAMPLES = """\b
Examples:
  mcpdesk oauth-bench                                    for a client that you start and configure
  mcpdesk oauth-bench --port 8765 --ask
  mcpdesk oauth-bench --probe wrong-iss
  mcpdesk oauth-bench -- npx -y mcp-remote {url}         starts the client, once for each probe
  mcpdesk oauth-bench --json -- python client.py {url}

Exit codes: 0 all checks passed, 1 a check failed, 2 invalid command, 5 no check failed, but the client did
not connect, or not all checks were decided in time.
"""


@click.command(name="oauth-bench", epilog=EXAMPLES, short_help="Check the OAuth login of an MCP client.")
@click.argument("client", nargs=-1, type=click.UNPROCESSED, metavar="[-- CLIENT...]")
@click.option("--port", type=click.IntRange(0, 65535), default=0, metavar="PORT",
              help="Port on 127.0.0.1. Default: any free port.")  # fmt: skip
@click.option("--probe", "probes", multiple=True, type=click.Choice(ALL_PROBES),
              help="Run only this probe. Default: login; with a CLIENT, all of them.")  # fmt: skip
@click.option("--lifetime", "lifetime_s", type=click.IntRange(1, 3600), default=LIFETIME_S, show_default=True,
              metavar="SECONDS", help="Lifetime of access tokens.")  # fmt: skip
@click.option("--timeout", "timeout_s", type=click.FloatRange(1, 3600), default=TIMEOUT_S, show_default=True,
              metavar="SECONDS", help="Time limit of each probe.")  # fmt: skip
@click.option("--ask", is_flag=True, help="Show a page with a button at each login. Default: approve it.")
@click.option("--messages", "shows_messages", is_flag=True, help="Also print the requests of the client.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def oauth_bench_command(
    client: tuple[str, ...],
    port: int,
    probes: tuple[str, ...],
    lifetime_s: int,
    timeout_s: float,
    ask: bool,
    shows_messages: bool,
    as_json: bool,
) -> int:
    """Start an authorization server and a protected MCP server on 127.0.0.1, wait for a client, and print how
    well the client logs in and keeps its login.

    Access tokens are short-lived, and each refresh token can be used only once. The third token is revoked
    before it expires. Call the tool `bench` of the server again and again until the verdict is printed.

    The probes wrong-iss, no-iss and wrong-state send a redirect that the client must refuse.

    With a CLIENT, the command starts it once for each probe, and replaces {url} in its arguments by the URL
    of the server. The variable BROWSER of the client is then a program that visits the login page, unless you
    use --ask.
    """
    if client:
        require_placeholder(client, takes_command=False)
    chosen_probes = probes or (ALL_PROBES if client else ALL_PROBES[:1])
    plan = BenchPlan(client, port, tuple(dict.fromkeys(chosen_probes)), lifetime_s, timeout_s, ask)
    report = run_bench(lambda stop: run_probes(plan, stop))
    return print_report(report, as_json=as_json, shows_messages=shows_messages)


class BenchPlan(Struct, frozen=True):
    """Options of a bench."""

    client: Sequence[str]
    port: int
    probes: Sequence[str]
    lifetime_s: float
    timeout_s: float
    asks: bool


async def run_probes(plan: BenchPlan, stop: asyncio.Event) -> BenchReport:
    """Run all probes in order. After `stop` is set, the remaining probes are skipped."""
    runs = list[BenchRun]()
    for probe in plan.probes:
        runs.append(await _run_probe(plan, probe, stop))
        if stop.is_set():
            break
    has_failed = any(check.verdict is CheckVerdict.FAIL for run in runs for check in run.checks)
    is_complete = len(runs) == len(plan.probes) and all(each.outcome == "complete" for each in runs)
    return BenchReport(VERSION, "oauth", is_complete and not has_failed, runs)


async def _run_probe(plan: BenchPlan, name: str, stop: asyncio.Event) -> BenchRun:
    """Run one probe until its checks are decided, its time is over, or the client or the bench ends."""
    from mcpdesk.features.client_bench.bench_http import listening
    from mcpdesk.features.client_bench.client_process import browser_variable, client_argv, running_client
    from mcpdesk.features.client_bench.oauth_checks import checks, is_decided
    from mcpdesk.features.client_bench.oauth_server import BenchServer, Probe

    probe = Probe(name)
    server = BenchServer(probe, plan.lifetime_s, asks=plan.asks)
    began = time.monotonic()
    exit_code: int | None = None
    async with AsyncExitStack() as stack:
        server.origin = await stack.enter_async_context(listening(server.handle, plan.port))
        announce([f"{name}: connect a client to {server.url}"])

        def is_done() -> bool:
            has_bad_redirect = probe is not Probe.LOGIN and server.observations.bad_redirects > 0
            return has_bad_redirect or is_decided(probe, server.observations, server.url)

        waits: list[Awaitable[object]] = [wait_for(server.changed, is_done, plan.timeout_s), stop.wait()]
        if plan.client:
            variables = {} if plan.asks else browser_variable()
            argv = client_argv(plan.client, server.url)
            process = await stack.enter_async_context(running_client(argv, variables))
            waits.append(process.wait())
        first_position = await first_of(*waits)
        if first_position == 0 and is_done():
            await first_of(_wait_for_last_requests(server, probe), stop.wait())
        if plan.client:
            exit_code = process.returncode
    results = checks(probe, server.observations, server.url, is_over=True)
    is_complete = all(each.verdict is not CheckVerdict.NOT_SEEN for each in results)
    outcome: Literal["complete", "incomplete", "no client"] = "complete" if is_complete else "incomplete"
    if not server.observations.messages:
        outcome = "no client"
    return BenchRun(
        name,
        server.url,
        outcome,
        server.observations.client,
        results,
        server.observations.messages,
        round(time.monotonic() - began, 3),
        exit_code,
    )


async def _wait_for_last_requests(server: BenchServer, probe: Probe) -> None:
    """Wait for further requests of the client after the run is done."""
    from mcpdesk.features.client_bench.oauth_server import Probe

    if probe is Probe.LOGIN:
        await asyncio.sleep(SETTLE_S)
        return
    while not server.observations.bad_codes_used:
        earlier_redirects = server.observations.bad_redirects
        await wait_for(server.changed, lambda: server.observations.bad_codes_used > 0, REFUSAL_S)
        if server.observations.bad_redirects == earlier_redirects:
            return  # the client has not begun another login in the meantime
