"""The command `era-bench`."""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct
from msgspec.structs import replace

from mcpdesk.cli.printing import print_message
from mcpdesk.errors import DeskUserError
from mcpdesk.features.client_bench.bench_command import (
    SETTLE_S,
    announce,
    first_of,
    print_report,
    require_placeholder,
    run_bench,
    wait_for,
)
from mcpdesk.features.client_bench.bench_report import (
    VERSION,
    BenchReport,
    BenchRun,
    CheckVerdict,
    ClientFacts,
)
from mcpdesk.features.client_bench.bench_text import report_lines
from mcpdesk.features.client_bench.client_process import COMMAND, client_argv, running_client
from mcpdesk.features.client_bench.era_checks import checks
from mcpdesk.features.client_bench.era_servers import SERVER_NAMES, EraRecorder, read_run, serve_stdio

if TYPE_CHECKING:
    from aiohttp import web

TIMEOUT_S = 60.0
"""Default time limit in seconds: of each client that the bench starts, or of the whole bench."""
POLL_S = 0.2
"""Seconds between two checks of the result of a server over stdio."""
EXAMPLES = """\b
Examples:
  mcpdesk era-bench                                      for a client that you start and configure
  mcpdesk era-bench --revision 2025-11-25 --port 8765
  mcpdesk era-bench -- python client.py {url}            starts the client, once for each revision
  mcpdesk era-bench -- python client.py {command}        the same over stdio
  mcpdesk era-bench --stdio 2025-11-25 --output FILE     as a stdio server in the client's configuration

Exit codes: 0 no check failed, 1 a check failed, 2 invalid command, 5 the client did not connect to each
server in time.
"""


@click.command(
    name="era-bench", epilog=EXAMPLES, short_help="Check which protocol revisions a client speaks."
)
@click.argument("client", nargs=-1, type=click.UNPROCESSED, metavar="[-- CLIENT...]")
@click.option("--port", type=click.IntRange(0, 65530), default=0, metavar="PORT",
              help="First port on 127.0.0.1. Default: any free ports.")  # fmt: skip
@click.option("--revision", "served", multiple=True, type=click.Choice(SERVER_NAMES),
              help="Start only this server. Default: one for each revision, and one for all.")  # fmt: skip
@click.option(
    "--stdio", type=click.Choice(SERVER_NAMES), help="Be a server over stdio, which serves this revision."
)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="With --stdio: file that receives the result as JSON.")  # fmt: skip
@click.option("--timeout", "timeout_s", type=click.FloatRange(1, 3600), default=TIMEOUT_S, show_default=True,
              metavar="SECONDS",
              help="Time limit of each CLIENT. Without a CLIENT: time limit of the command.")  # fmt: skip
@click.option("--messages", "shows_messages", is_flag=True, help="Also print the messages of the client.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def era_bench_command(
    client: tuple[str, ...],
    port: int,
    served: tuple[str, ...],
    stdio: str | None,
    output: Path | None,
    timeout_s: float,
    shows_messages: bool,
    as_json: bool,
) -> int | None:
    """Start MCP servers that each serve one protocol revision, wait for a client, and print which revisions
    the client offers, what it does if its revision is refused, and whether its headers are right.

    `mcpdesk check TARGET --eras` is the same check for a server. The servers use Streamable HTTP, each on a
    port of its own. One of them serves all revisions.

    With a CLIENT, the command starts it once for each server. In its arguments, {url} is replaced by the URL
    of the server, and {command} by the command of a server over stdio.

    With --stdio, the command itself is the server. It prints the result on stderr when the client ends.
    """
    if stdio is not None:
        if client or served:
            raise click.UsageError("--stdio cannot be combined with --revision or a CLIENT.")
        return _serve_stdio(stdio, output, shows_messages)
    if output is not None:
        raise click.UsageError("--output is only for --stdio.")
    names = served or SERVER_NAMES
    if client:
        require_placeholder(client, takes_command=True)
    plan = _Plan(client, port, tuple(dict.fromkeys(names)), timeout_s)
    report = run_bench(lambda stop: _run_clients(plan, stop) if client else _wait_for_client(plan, stop))
    return print_report(report, as_json=as_json, shows_messages=shows_messages)


class _Plan(Struct, frozen=True):
    """Options of a bench."""

    client: Sequence[str]
    """Command of the client, or no words if a person starts the client."""
    port: int
    served: Sequence[str]
    """Names of the servers to start."""
    timeout_s: float


def _report(runs: list[BenchRun], plan: _Plan) -> BenchReport:
    has_failed = any(check.verdict is CheckVerdict.FAIL for run in runs for check in run.checks)
    is_complete = len(runs) == len(plan.served) and all(each.outcome == "complete" for each in runs)
    return BenchReport(VERSION, "era", is_complete and not has_failed, runs)


async def _wait_for_client(plan: _Plan, stop: asyncio.Event) -> BenchReport:
    """Start all servers, and wait until the client uses each of them."""
    async with AsyncExitStack() as stack:
        recorders = [
            await _start_server(stack, name, plan.port + position if plan.port else 0)
            for position, name in enumerate(plan.served)
        ]
        announce([f"{each.served}: connect a client to {each.url}" for each in recorders])
        waits = [_wait_until_decided(each, plan.timeout_s) for each in recorders]
        if await first_of(asyncio.gather(*waits), stop.wait()) == 0 and not stop.is_set():
            await first_of(asyncio.sleep(SETTLE_S), stop.wait())
    return _report([each.result() for each in recorders], plan)


async def _wait_until_decided(recorder: EraRecorder, timeout_s: float) -> bool:
    """Wait until the client uses the server. Return False after `timeout_s` seconds."""
    return await wait_for(recorder.changed, lambda: recorder.is_decided, timeout_s)


async def _start_server(stack: AsyncExitStack, name: str, port: int) -> EraRecorder:
    """Start the server `name` on a port. The server ends with `stack`."""
    from mcpdesk.features.client_bench.bench_http import answer_message, listening
    from mcpdesk.testing.authorization_server import ENDPOINT

    recorder = EraRecorder(name, is_http=True)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        from aiohttp import web

        if request.path != ENDPOINT:
            return web.Response(status=404)
        headers = {key.lower(): value for key, value in request.headers.items()}
        return await answer_message(
            recorder.server, request, lambda message, reply: recorder.observe(message, reply, headers)
        )

    recorder.url = f"{await stack.enter_async_context(listening(answer, port))}{ENDPOINT}"
    return recorder


async def _run_clients(plan: _Plan, stop: asyncio.Event) -> BenchReport:
    """Start the client once for each server."""
    runs = list[BenchRun]()
    run_client = _run_over_stdio if COMMAND in plan.client else _run_over_http
    for name in plan.served:
        runs.append(await run_client(plan, name, stop))
        if stop.is_set():
            break
    return _report(runs, plan)


async def _run_over_http(plan: _Plan, name: str, stop: asyncio.Event) -> BenchRun:
    """Run the client with one server over HTTP."""
    async with AsyncExitStack() as stack:
        recorder = await _start_server(stack, name, plan.port)
        argv = client_argv(plan.client, recorder.url)
        process = await stack.enter_async_context(running_client(argv, {}))
        use_wait = _wait_until_decided(recorder, plan.timeout_s)
        if await first_of(use_wait, stop.wait(), process.wait()) == 0:
            await first_of(asyncio.sleep(SETTLE_S), stop.wait(), process.wait())
        return recorder.result(process.returncode)


async def _run_over_stdio(plan: _Plan, name: str, stop: asyncio.Event) -> BenchRun:
    """Run the client with one server over stdio, which the client starts."""
    # A server that a client did not end may still write its result when the folder is removed.
    with tempfile.TemporaryDirectory(prefix="mcpdesk-bench-", ignore_cleanup_errors=True) as folder:
        output = Path(folder) / "run.json"
        options = ("--stdio", name, "--output", str(output))
        command = (sys.executable, "-P", "-m", "mcpdesk", "era-bench", *options)
        async with running_client(client_argv(plan.client, "", command), {}) as process:
            use_wait = asyncio.wait_for(_wait_until_used(output), plan.timeout_s)
            if await first_of(use_wait, stop.wait(), process.wait()) == 0:
                await first_of(asyncio.sleep(SETTLE_S), stop.wait(), process.wait())
            exit_code = process.returncode
        run = read_run(output)
    if run is None:
        return BenchRun(name, "", "no client", ClientFacts(), checks(name, []), [], 0.0, exit_code)
    return replace(run, client_exit=exit_code)


async def _wait_until_used(output: Path) -> None:
    """Wait until the client uses the stdio server, which writes its result to `output`."""
    while True:
        run = read_run(output)
        passed = {each.name for each in run.checks if each.verdict is CheckVerdict.PASS} if run else set()
        if "speaks" in passed:
            return
        await asyncio.sleep(POLL_S)


def _serve_stdio(name: str, output: Path | None, shows_messages: bool) -> int:
    """Be a server over stdio, and print the result on stderr. Return the exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    run: BenchRun | None = None
    try:
        run = serve_stdio(name, output)
    except (KeyboardInterrupt, BrokenPipeError):
        pass  # the client has ended this process, or no longer reads
    except OSError as error:
        raise DeskUserError(f"{output} cannot be written: {error.strerror}.") from None
    if run is not None:
        for line in report_lines(BenchReport(VERSION, "era", True, [run]), shows_messages=shows_messages):
            print_message(line)
    return 0
