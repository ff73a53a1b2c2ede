"""Common parts of the commands `oauth-bench` and `era-bench`."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import msgspec

from mcpdesk.cli.printing import OK, TIMED_OUT, TOOL_ERROR, print_json, print_message, print_text
from mcpdesk.errors import DeskUserError
from mcpdesk.features.client_bench.bench_report import BenchReport, CheckVerdict
from mcpdesk.features.client_bench.bench_text import report_lines
from mcpdesk.features.client_bench.client_process import COMMAND, URL

SETTLE_S = 1.0
"""Seconds that a bench waits for the last requests after its checks are decided."""


def require_placeholder(words: Sequence[str], *, takes_command: bool) -> None:
    """Check that a client's command has a placeholder for the server. Raises: DeskUserError."""
    if any(URL in word for word in words) or (takes_command and COMMAND in words):
        return
    allowed = f"{URL} or {COMMAND}" if takes_command else URL
    message = f"The command of the client has no {allowed}."
    raise DeskUserError(message, f"Write {URL} where the client expects the URL of the server.")


async def wait_for(changed: asyncio.Event, is_done: Callable[[], bool], timeout_s: float) -> bool:
    """Wait until `is_done()` returns True, and return True. Return False after `timeout_s` seconds.

    `is_done` is called at the start, and each time `changed` is set.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            while not is_done():
                await changed.wait()
                changed.clear()
            return True
    return False


async def first_of(*waits: Awaitable[object]) -> int:
    """Wait until one of `waits` ends, cancel the others, and return the position of the first one."""
    tasks = [asyncio.ensure_future(each) for each in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return next(number for number, each in enumerate(tasks) if each in done)


def run_bench(bench: Callable[[asyncio.Event], Awaitable[BenchReport]]) -> BenchReport:
    """Run a bench, and return its report. The bench receives an event that Ctrl+C and SIGTERM set."""

    async def run() -> BenchReport:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for signal_number in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError, RuntimeError):  # Windows, or not the main thread
                loop.add_signal_handler(signal_number, stop.set)
        return await bench(stop)

    return asyncio.run(run())


def print_report(report: BenchReport, *, as_json: bool, shows_messages: bool) -> int:
    """Print a report, and return the exit code."""
    if as_json:
        print_json(msgspec.to_builtins(report))
    else:
        print_text("\n".join(report_lines(report, shows_messages=shows_messages)))
    if any(check.verdict is CheckVerdict.FAIL for run in report.runs for check in run.checks):
        return TOOL_ERROR
    return OK if report.ok else TIMED_OUT


def announce(lines: Sequence[str]) -> None:
    """Print lines on stderr that tell a person how to connect a client."""
    for line in lines:
        print_message(line)
