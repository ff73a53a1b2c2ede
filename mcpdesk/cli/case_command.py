"""`mcpdesk test`: runs the test cases of a server and tells which fail, and why."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mcpdesk.cli import completion
from mcpdesk.cli.core_process import capture_output, require_unix
from mcpdesk.cli.options import server_folder
from mcpdesk.cli.printing import (
    OK,
    TOOL_ERROR,
    JUnitCase,
    junit_report,
    print_line,
    print_message,
    print_text,
    report,
    write_report,
)
from mcpdesk.cli.reach import ask_input, reach_options, with_hint
from mcpdesk.client.targets import FolderTarget, RemoteTarget, find_target
from mcpdesk.client.transport import excerpt
from mcpdesk.errors import CallError, DeskError, DeskUserError
from mcpdesk.plain_text import clean
from mcpdesk.testing.case_files import CASES, Case, find_cases
from mcpdesk.upstream.target_transport import ClientPlace, ProgramEvents, Reach, target_transport

if TYPE_CHECKING:
    from mcpdesk.testing.case_run import CaseResult
    from mcpdesk.testing.connected_server import ConnectedServer

EXAMPLES = """\b
Examples:
  mcpdesk test sample_servers/hello
  mcpdesk test sample_servers/hello --over memory,stdio,http --junit report.xml
  mcpdesk test https://example.com/mcp --cases cases/ --only greet
  mcpdesk test sample_servers/hello --watch

A case, in cases/*.yaml (or .json) of the folder:
  - name: greets loudly
    tool: greet                  (or resource: URI, prompt: NAME)
    arguments: {name: Ada, loudly: true}
    answers: [{question: "Which tea?", answer: green}]
    expect: {contains: ADA, under_ms: 500}

Expected can be: text, contains, matches, structured, schema, error, under_ms.
Answers, in the order of the questions: question and answer, elicitation, sampling, roots.

Exit codes: 0 all passed, 1 some failed, 2 a case file or the folder cannot be used, 3 cannot connect.
"""
TRANSPORTS = ("memory", "stdio", "http")
"""How a folder can be reached; `memory`: in this process."""
LOOK_MS = 500
"""Milliseconds between two looks for saved files, where nothing tells of them."""
_FILE = click.Path(dir_okay=False, writable=True, path_type=Path)


@click.command(name="test", epilog=EXAMPLES, short_help="Run the test cases of a server.")
@click.argument("target", shell_complete=completion.folder)
@click.option(
    "--cases", type=click.Path(path_type=Path), metavar="PATH", help="The case file, or a folder of them."
)
@click.option("--only", metavar="TEXT", default="", help="Only cases with this in their name or place.")
@click.option("--over", default="memory", metavar="A,B", help="For a folder: memory, stdio, http; several.")
@click.option("--junit", type=_FILE, metavar="FILE", help="Write a JUnit report, too.")
@click.option("--watch", is_flag=True, help="Run again whenever a file changes, until ended.")
@reach_options
def test_command(
    target: str,
    cases: Path | None,
    only: str,
    over: str,
    junit: Path | None,
    watch: bool,
    reach: Reach,
) -> int:
    """Run the cases of TARGET, any server, and compare what comes with what they expect.

    A folder is hosted in this process, with a state of its own, unless --over says otherwise.
    """
    folder = Path(target).expanduser()
    ways = _ways(over, folder.is_dir())
    if folder.is_dir() and reach.is_remote:
        raise DeskUserError("These flags are for servers that are no folder.", "--mode works with a folder.")
    if cases is None and not folder.is_dir():
        raise DeskUserError("Where are the cases?", "Name a file or a folder of them with --cases.")
    place = cases if cases is not None else folder / CASES

    if watch:
        return _watched(lambda: _run_all(target, ways, place, only, junit, reach), {folder, place})
    return _run_all(target, ways, place, only, junit, reach)


def _ways(over: str, is_folder: bool) -> list[str]:
    """Raises: DeskUserError for a way there is not."""
    ways = list(dict.fromkeys(over.split(",")))
    if not set(ways) <= set(TRANSPORTS):
        raise DeskUserError(f"--over: {over!r} is no way to a folder.", f"Allowed: {', '.join(TRANSPORTS)}.")
    if not is_folder and ways != ["memory"]:
        raise DeskUserError("--over is for a folder.", "Another server is reached as its target says.")
    return ways if is_folder else [""]


def _watched(run: Callable[[], int], places: set[Path]) -> int:
    """Run, and again whenever a file changes, until ctrl+c."""
    from watchfiles import watch

    existing = [place for place in places if place.exists()]
    try:
        while True:
            before = _saved(existing)
            try:
                run()
            except DeskError as error:
                report(error)
            print_message("watching; ctrl+c ends it")
            # What is saved before the watch begins is found when it first times out.
            for _ in watch(*existing, rust_timeout=LOOK_MS, yield_on_timeout=True):
                if _saved(existing) != before:
                    break
    except KeyboardInterrupt:
        return OK


def _saved(places: Iterable[Path]) -> dict[str, int]:
    """When each file was saved last."""
    files = [each for place in places for each in ([place] if place.is_file() else place.rglob("*"))]
    kept = [each for each in files if each.suffix != ".pyc" and each.is_file()]
    found = dict[str, int]()
    for each in kept:
        with suppress(OSError):
            found[str(each)] = each.stat().st_mtime_ns
    return found


def _run_all(
    target: str, ways: Sequence[str], place: Path, only: str, junit: Path | None, reach: Reach
) -> int:
    cases = [case for case in find_cases(place) if only in case.name or only in case.place]
    if not cases:
        hint = "`mcpdesk test --help` shows how a case looks."
        raise DeskUserError(f"There is no case in {place}{f' with {only!r}' if only else ''}.", hint)
    told = _Report()
    for way in ways:
        told.way = way if len(ways) > 1 else ""
        with tempfile.TemporaryDirectory(prefix="mcpdesk-test-", ignore_cleanup_errors=True) as state:
            try:
                _run_over(way, target, reach, Path(state), cases, told)
            except CallError as error:
                raise with_hint(error) from None
    print_text(told.summary())
    if junit is not None:
        write_report(junit, junit_report("mcpdesk test", told.junit))
    return TOOL_ERROR if told.failed else OK


def _run_over(way: str, target: str, reach: Reach, state: Path, cases: Sequence[Case], told: _Report) -> None:
    """Run the cases over one transport. Raises: DeskError when the server cannot be hosted or reached."""
    from mcpdesk.settings import resolve
    from mcpdesk.testing.connected_server import connected, hosted, isolated_host, stdio_target

    if way in ("memory", "http"):
        require_unix("Hosting a folder for its cases")
        host = isolated_host(server_folder(target), state, http=way == "http")
        with capture_output(host, "wire") as claimed:
            told.output_fd = claimed.stdout_fd
            try:
                asyncio.run(_run(hosted(host, reach.mode), cases, told))
            finally:
                told.output_fd = 1
        return
    if way == "stdio":
        found: RemoteTarget | FolderTarget = stdio_target(server_folder(target), state, reach.mode)
    else:
        found = find_target(target, os.environ, ask_input, reach.packages)
    assert not isinstance(found, FolderTarget)
    settings, lines = resolve({}, os.environ).settings, list[str]()
    events = ProgramEvents(lines.append, lambda line: lines.append(f"(stdout) {excerpt(line)}"))
    transport = target_transport(
        found, reach, ClientPlace(settings.state_dir, settings.api_key_header), events
    )

    def logged() -> list[str]:
        new = lines[:]
        lines.clear()
        return new

    asyncio.run(_run(connected(transport, logged), cases, told))


async def _run(
    opening: AbstractAsyncContextManager[ConnectedServer], cases: Sequence[Case], told: _Report
) -> None:
    async with opening as subject:
        for case in cases:
            told.add(await subject.run(case))


class _Report:
    """Prints what came of each case as soon as that is known, and counts."""

    def __init__(self) -> None:
        self.output_fd = 1
        """Where results are written; another one while hosted code could write to the usual one."""
        self.way = ""
        """The transport, where there are several."""
        self.junit = list[JUnitCase]()
        self.failed = 0
        self._began = time.monotonic()

    def add(self, result: CaseResult) -> None:
        """Print one result."""
        case = result.case
        name = f"{case.name} over {self.way}" if self.way else case.name
        mark = "failed" if result.failures else "passed"
        told = [f"{mark}  {name}  {result.duration_ms:.0f} ms"]
        details = [f"    {line}" for each in result.failures for line in each.splitlines()]
        if result.failures:
            self.failed += 1
            told[0] += f"  {case.place}"
            if result.logged:
                details += [
                    "    it logged:",
                    *(f"      {line}" for one in result.logged for line in one.splitlines()),
                ]
        for line in [*told, *details]:
            print_line(clean(line, newlines=False), self.output_fd)
        failure = "\n".join(line.strip() for line in details) if result.failures else ""
        self.junit.append(JUnitCase(case.place.rpartition(":")[0], name, failure, result.duration_ms / 1000))

    def summary(self) -> str:
        """Return how many passed and failed."""
        seconds, count = time.monotonic() - self._began, len(self.junit)
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{count} case{'s' * (count != 1)}: {count - self.failed} passed{failed} in {seconds:.1f} s"
