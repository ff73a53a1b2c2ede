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
`answers` are in the order of the questions. An answer has the keys question and answer, or one of the keys
elicitation, sampling and roots.

Exit codes: 0 all cases passed, 1 some failed, 2 a case file or the folder is invalid, 3 cannot connect.
"""
LOOK_MS = 500
"""Milliseconds between two checks for saved files if no file notification arrives."""
_FILE = click.Path(dir_okay=False, writable=True, path_type=Path)


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
@click.option("--junit", type=_FILE, metavar="FILE", help="Write a JUnit report to FILE.")
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

    make_report = partial(_Report, as_json=as_json)
    if watch:
        if as_json:
            raise DeskUserError("--json and --watch cannot be used together.", "Omit one of them.")
        return _watched(
            lambda: _run_all(target, transports, cases_path, only, junit, reach, make_report()),
            {folder, cases_path},
        )
    return _run_all(target, transports, cases_path, only, junit, reach, make_report())


def _watched(run: Callable[[], int], paths: set[Path]) -> int:
    """Run once, and again whenever a file changes, until ctrl+c."""
    from watchfiles import watch

    existing = [path for path in paths if path.exists()]
    try:
        while True:
            before = _saved(existing)
            try:
                run()
            except DeskError as error:
                report(error)
            print_message("watching; ctrl+c ends it")
            # A file saved before the watch started is detected at its first timeout.
            for _ in watch(*existing, rust_timeout=LOOK_MS, yield_on_timeout=True):
                if _saved(existing) != before:
                    break
    except KeyboardInterrupt:
        return OK


def _saved(paths: Iterable[Path]) -> dict[str, int]:
    """Modification time of each file, by path."""
    files = [each for path in paths for each in ([path] if path.is_file() else path.rglob("*"))]
    case_paths = [each for each in files if each.suffix != ".pyc" and each.is_file()]
    counts = dict[str, int]()
    for each in case_paths:
        with suppress(OSError):
            counts[str(each)] = each.stat().st_mtime_ns
    return counts


def _run_all(
    target: str,
    transports: Sequence[str],
    cases_path: Path,
    only: str,
    junit: Path | None,
    reach: Reach,
    make_report: _Report,
) -> int:
    cases = [case for case in find_cases(cases_path) if only in case.name or only in case.location]
    if not cases:
        message = f"No case in {cases_path}{f' with {only!r}' if only else ''}."
        command = "mcpdesk test --help"
        raise DeskUserError(message, f"`{command}` shows an example.", next_command=command)

    async def run(server: ConnectedServer, output_fd: int) -> None:
        make_report.output_fd = output_fd
        for case in cases:
            make_report.add(await server.run(case))

    for transport in transports:
        make_report.transport = transport if len(transports) > 1 else ""
        run_with_server(transport, target, reach, run)
    if make_report.as_json:
        print_json(make_report.facts())
    else:
        print_line(make_report.summary(), 1)
    if junit is not None:
        write_report(junit, junit_report("mcpdesk test", make_report.junit))
    return TOOL_ERROR if make_report.failed else OK


class _Report:
    """Prints each result of a case immediately, and counts them."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.output_fd = 1
        """Descriptor for results. It is not 1 while hosted code could write to descriptor 1."""
        self.transport = ""
        """Current transport, if there are several."""
        self.junit = list[JUnitCase]()
        self.failed = 0
        self._cases = list[dict[str, Any]]()
        self._began = time.monotonic()

    def add(self, result: CaseResult) -> None:
        """Print one result."""
        case = result.case
        name = f"{case.name} over {self.transport}" if self.transport else case.name
        mark = "failed" if result.failures else "passed"
        line_text = f"  {name}  {result.duration_ms:.0f} ms"
        details = [f"    {line}" for each in result.failures for line in each.splitlines()]
        if result.failures:
            self.failed += 1
            line_text += f"  {case.location}"
            if result.logged:
                details += [
                    "    it logged:",
                    *(f"      {line}" for one in result.logged for line in one.splitlines()),
                ]
        if not self.as_json:
            is_coloured = shows_colour(self.output_fd)
            print_line(_coloured(mark, is_coloured) + clean(line_text, newlines=False), self.output_fd)
            for line in details:
                print_line(_coloured(clean(line, newlines=False), is_coloured), self.output_fd)
        failure = "\n".join(line.strip() for line in details) if result.failures else ""
        self.junit.append(
            JUnitCase(case.location.rpartition(":")[0], name, failure, result.duration_ms / 1000)
        )
        facts = {"name": case.name, "place": case.location, "outcome": mark}
        over = {"over": self.transport} if self.transport else {}
        more = {"failures": list(result.failures), "logged": list(result.logged)} if result.failures else {}
        self._cases.append({**facts, "duration_ms": round(result.duration_ms, 1), **over, **more})

    def summary(self) -> str:
        """Return the numbers of passed and failed cases."""
        seconds, count = time.monotonic() - self._began, len(self.junit)
        failed = f", {self.failed} failed" if self.failed else ""
        line = f"{count} case{'s' * (count != 1)}: {count - self.failed} passed{failed} in {seconds:.1f} s"
        return _coloured(line, shows_colour(1), "red" if self.failed else "green")

    def facts(self) -> dict[str, Any]:
        """Return all results as a JSON value."""
        seconds, count = time.monotonic() - self._began, len(self.junit)
        counts = {"passed": count - self.failed, "failed": self.failed, "seconds": round(seconds, 3)}
        return {"cases": self._cases, **counts}


_COLOURS = {"passed": "green", "failed": "red", "    - ": "red", "    + ": "green"}
"""Colour of a line by the beginning of the line. Lines of a difference are indented."""


def _coloured(line: str, is_coloured: bool, colour: str = "") -> str:
    """Colour a line according to its beginning. The meaning does not depend on the colour."""
    begin = f"    {line.lstrip()[:2]}" if line.startswith("    ") else line
    chosen = colour or _COLOURS.get(begin, "")
    return click.style(line, fg=chosen) if is_coloured and chosen else line
