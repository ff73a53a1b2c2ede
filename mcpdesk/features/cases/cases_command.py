"""The command `test`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcpdesk.cli import completion
from mcpdesk.cli.printing import (
    OK,
    TOOL_ERROR,
    JUnitCase,
    junit_report,
    print_json,
    print_line,
    print_message,
    report,
    shows_colour,
    write_report,
)
from mcpdesk.cli.reach import reach_options
from mcpdesk.cli.started_server import run_with_server, transports_of
from mcpdesk.errors import DeskError, DeskUserError
from mcpdesk.plain_text import clean
from mcpdesk.testing.case_files import CASES, find_cases
from mcpdesk.upstream.target_transport import Reach

if TYPE_CHECKING:
    from mcpdesk.testing.case_run import CaseResult
    from mcpdesk.testing.connected_server import ConnectedServer

EXAMPLES = """\b
Examples:
  mcpdesk test sample_servers/hello
  mcpdesk test sample_servers/hello --over memory,stdio,http --junit report.xml
  mcpdesk test https://example.com/mcp --cases cases/ --only greet
  mcpdesk test sample_servers/hello --watch
  mcpdesk test sample_servers/hello --json

\b
A case, in cases/*.yaml (or .json) of the folder:
  - name: greets loudly
    tool: greet                  (or resource: URI, prompt: NAME)
    arguments: {name: Ada, loudly: true}
    answers: [{question: "Which tea?", answer: green}]
    expect: {contains: ADA, under_ms: 500}

\b
Keys of `expect`: text, contains, matches, like, structured, structured_like, schema, error, under_ms.
With `schema: true`, the structured content must be valid for the output schema of the tool.
`answers` are in the order of the questions. An answer has the keys question and answer, or one of the keys
elicitation, sampling and roots.

Exit codes: 0 all cases passed, 1 some failed, 2 a case file or the folder is invalid, 3 cannot connect.
"""
CHECK_PERIOD_MS = 500
"""Milliseconds between two checks for saved files if no file notification arrives."""
_REPORT_FILE = click.Path(dir_okay=False, writable=True, path_type=Path)


@click.command(name="test", epilog=EXAMPLES, short_help="Run the test cases of a server.")
@click.argument("target", shell_complete=completion.target)
@click.option(
    "--cases",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Case file, or folder of case files. Default: cases/ in the server folder.",
)
@click.option(
    "--only",
    metavar="TEXT",
    default="",
    help="Run only cases with TEXT in their name or file name. Default: all cases.",
)
@click.option(
    "--over",
    default="memory",
    metavar="A,B",
    help="For a folder: transports, separated by commas: memory, stdio, http. Default: memory.",
)
@click.option("--junit", type=_REPORT_FILE, metavar="FILE", help="Write a JUnit report to FILE.")
@click.option("--watch", is_flag=True, help="Run the cases again whenever a file changes.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON object at the end, instead of a line for each case.",
)
@reach_options
def test_command(
    target: str,
    cases: Path | None,
    only: str,
    over: str,
    junit: Path | None,
    watch: bool,
    as_json: bool,
    reach: Reach,
) -> int:
    """Run the test cases of the server TARGET. A case calls a tool, resource or prompt, and compares the
    result with the expected one.

    A folder is hosted by this command, with an empty state, even if a desk also hosts it. By default the
    cases reach it in memory; --over selects other transports.
    """
    folder = Path(target).expanduser()
    transports = transports_of(over, folder.is_dir())
    if folder.is_dir() and reach._replace(revision="").is_remote:
        hint = "With a folder, use --mode, --token-env and --revision only."
        raise DeskUserError("These flags are for servers that are not a folder.", hint)
    if cases is None and not folder.is_dir():
        message = f"{target!r} is not a folder with cases."
        raise DeskUserError(message, "Name a case file or a folder of them with --cases.")
    cases_path = cases if cases is not None else folder / CASES

    new_report = partial(_Report, as_json=as_json)
    if watch:
        if as_json:
            raise DeskUserError("--json and --watch cannot be used together.", "Omit one of them.")
        return _run_on_change(
            lambda: _run_all(target, transports, cases_path, only, junit, reach, new_report()),
            {folder, cases_path},
        )
    return _run_all(target, transports, cases_path, only, junit, reach, new_report())


def _run_on_change(run: Callable[[], int], paths: set[Path]) -> int:
    """Call `run` now, and again whenever a file in `paths` changes, until ctrl+c. Return the exit code."""
    from watchfiles import watch

    existing = [path for path in paths if path.exists()]
    try:
        while True:
            modification_times = _modification_times(existing)
            try:
                run()
            except DeskError as error:
                report(error)
            print_message("watching; ctrl+c ends it")
            # A file saved before the watch started is detected at its first timeout.
            for _ in watch(*existing, rust_timeout=CHECK_PERIOD_MS, yield_on_timeout=True):
                if _modification_times(existing) != modification_times:
                    break
    except KeyboardInterrupt:
        return OK


def _modification_times(paths: Iterable[Path]) -> dict[str, int]:
    """Return the modification time of each file in nanoseconds, by path. Paths of folders are searched."""
    entries = [each for path in paths for each in ([path] if path.is_file() else path.rglob("*"))]
    files = [each for each in entries if each.suffix != ".pyc" and each.is_file()]
    times = dict[str, int]()
    for file in files:
        with suppress(OSError):
            times[str(file)] = file.stat().st_mtime_ns
    return times


def _run_all(
    target: str,
    transports: Sequence[str],
    cases_path: Path,
    only: str,
    junit: Path | None,
    reach: Reach,
    run_report: _Report,
) -> int:
    """Run the cases over each transport, and write the reports. Return the exit code."""
    cases = [case for case in find_cases(cases_path) if only in case.name or only in case.location]
    if not cases:
        message = f"No case in {cases_path}{f' with {only!r}' if only else ''}."
        command = "mcpdesk test --help"
        raise DeskUserError(message, f"`{command}` shows an example.", next_command=command)

    async def run(server: ConnectedServer, output_fd: int) -> None:
        run_report.output_fd = output_fd
        for case in cases:
            run_report.add(await server.run(case))

    for transport in transports:
        run_report.transport = transport if len(transports) > 1 else ""
        run_with_server(transport, target, reach, run)
    if run_report.as_json:
        print_json(run_report.facts())
    else:
        print_line(run_report.summary(), 1)
    if junit is not None:
        write_report(junit, junit_report("mcpdesk test", run_report.junit))
    return TOOL_ERROR if run_report.failed_count else OK


class _Report:
    """Prints the result of each case at once, and counts the results."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.output_fd = 1
        """File descriptor for results. It is not 1 while hosted code could write to descriptor 1."""
        self.transport = ""
        """Current transport, if there are several."""
        self.junit = list[JUnitCase]()
        self.failed_count = 0
        self._cases = list[dict[str, Any]]()
        self._started_s = time.monotonic()

    def add(self, result: CaseResult) -> None:
        """Print one result, and store it for the reports."""
        case = result.case
        name = f"{case.name} over {self.transport}" if self.transport else case.name
        outcome = "failed" if result.failures else "passed"
        line_text = f"  {name}  {result.duration_ms:.0f} ms"
        details = [f"    {line}" for each in result.failures for line in each.splitlines()]
        if result.failures:
            self.failed_count += 1
            line_text += f"  {case.location}"
            if result.logged:
                details += [
                    "    it logged:",
                    *(f"      {line}" for text in result.logged for line in text.splitlines()),
                ]
        if not self.as_json:
            is_coloured = shows_colour(self.output_fd)
            print_line(_coloured(outcome, is_coloured) + clean(line_text, newlines=False), self.output_fd)
            for line in details:
                print_line(_coloured(clean(line, newlines=False), is_coloured), self.output_fd)
        failure = "\n".join(line.strip() for line in details) if result.failures else ""
        self.junit.append(
            JUnitCase(case.location.rpartition(":")[0], name, failure, result.duration_ms / 1000)
        )
        facts = {"name": case.name, "place": case.location, "outcome": outcome}
        transport = {"over": self.transport} if self.transport else {}
        failures = {"failures": list(result.failures), "logged": list(result.logged)}
        self._cases.append(
            {
                **facts,
                "duration_ms": round(result.duration_ms, 1),
                **transport,
                **(failures if result.failures else {}),
            }
        )

    def summary(self) -> str:
        """Return the numbers of passed and failed cases."""
        seconds, count = time.monotonic() - self._started_s, len(self.junit)
        failed = f", {self.failed_count} failed" if self.failed_count else ""
        line = (
            f"{count} case{'s' * (count != 1)}: {count - self.failed_count} passed{failed} in {seconds:.1f} s"
        )
        return _coloured(line, shows_colour(1), "red" if self.failed_count else "green")

    def facts(self) -> dict[str, Any]:
        """Return all results as a JSON value."""
        seconds, count = time.monotonic() - self._started_s, len(self.junit)
        counts = {
            "passed": count - self.failed_count,
            "failed": self.failed_count,
            "seconds": round(seconds, 3),
        }
        return {"cases": self._cases, **counts}


_COLOURS = {"passed": "green", "failed": "red", "    - ": "red", "    + ": "green"}
"""Colour of a line by the beginning of the line. Lines of a difference are indented."""


def _coloured(line: str, is_coloured: bool, colour: str = "") -> str:
    """Return a line in `colour`, or in the colour for its beginning if `colour` is ""."""
    beginning = f"    {line.lstrip()[:2]}" if line.startswith("    ") else line
    line_colour = colour or _COLOURS.get(beginning, "")
    return click.style(line, fg=line_colour) if is_coloured and line_colour else line
