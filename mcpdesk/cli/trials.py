"""`mcpdesk test` runs test cases of a server. `mcpdesk load` measures it under load."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from mcpdesk import private_files
from mcpdesk.cli import completion
from mcpdesk.cli.core_process import capture_output
from mcpdesk.cli.printing import (
    OK,
    TOOL_ERROR,
    JUnitCase,
    aligned,
    junit_report,
    print_json,
    print_line,
    print_message,
    print_text,
    report,
    shows_colour,
    write_report,
)
from mcpdesk.cli.reach import agreement, ask_input, reach_options, server_folder, with_hint
from mcpdesk.cli.requests import fitted, parse_arguments
from mcpdesk.client.targets import FolderTarget, RemoteTarget, find_target
from mcpdesk.errors import CallError, DeskError, DeskUserError
from mcpdesk.plain_text import clean
from mcpdesk.testing.case_files import CASES, find_cases
from mcpdesk.upstream.target_transport import ClientPlace, ProgramEvents, Reach, target_transport

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from mcpdesk.testing.case_run import CaseResult
    from mcpdesk.testing.connected_server import ConnectedServer

    Opening: TypeAlias = AbstractAsyncContextManager[ConnectedServer]

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
Expected can be: text, contains, matches, like, structured, structured_like, schema, error, under_ms.
Answers, in the order of the questions: question and answer, elicitation, sampling, roots.

Exit codes: 0 all passed, 1 some failed, 2 a case file or the folder cannot be used, 3 cannot connect.
"""
LOAD_EXAMPLES = """\b
Examples:
  mcpdesk load sample_servers/hello greet name=Ada
  mcpdesk load sample_servers/hello greet name=Ada --rate 200 --for 10 --over memory,stdio,http
  mcpdesk load https://example.com/mcp search query=tea --rate 5 --max-p99 800

Exit codes: 0 all calls were answered, 1 some failed or p99 is above --max-p99, 2 usage, 3 cannot connect.
"""
TRANSPORTS = ("memory", "stdio", "http")
"""Transports to a folder. `memory` hosts it in this process."""
LOOK_MS = 500
"""Milliseconds between two checks for saved files if no file notification arrives."""
_FILE = click.Path(dir_okay=False, writable=True, path_type=Path)


@click.command(name="test", epilog=EXAMPLES, short_help="Run the test cases of a server.")
@click.argument("target", shell_complete=completion.folder)
@click.option(
    "--cases", type=click.Path(path_type=Path), metavar="PATH", help="Case file, or folder with case files."
)
@click.option("--only", metavar="TEXT", default="", help="Only cases with this text in their name or file.")
@click.option("--over", default="memory", metavar="A,B", help="For a folder: memory, stdio, http; several.")
@click.option("--junit", type=_FILE, metavar="FILE", help="Write a JUnit report.")
@click.option("--watch", is_flag=True, help="Run again whenever a file changes.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end instead of lines.")
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
    """Run the cases of TARGET, any server, and compare the results with the expected ones.

    A folder is hosted with its own fresh state, even if the desk hosts it: in this process, unless
    --over names another transport.
    """
    folder = Path(target).expanduser()
    ways = _transports(over, folder.is_dir())
    if folder.is_dir() and reach._replace(revision="").is_remote:
        hint = "With a folder, use --mode, --token-env and --revision only."
        raise DeskUserError("These flags are for servers that are not a folder.", hint)
    if cases is None and not folder.is_dir():
        message = f"{target!r} is not a folder with cases."
        raise DeskUserError(message, "Name a case file or a folder of them with --cases.")
    place = cases if cases is not None else folder / CASES

    told = partial(_Report, as_json=as_json)
    if watch:
        if as_json:
            raise DeskUserError("--json and --watch cannot be used together.", "Omit one of them.")
        return _watched(lambda: _run_all(target, ways, place, only, junit, reach, told()), {folder, place})
    return _run_all(target, ways, place, only, junit, reach, told())


def _transports(over: str, is_folder: bool) -> list[str]:
    """Parse `--over`. Raises: DeskUserError for an unknown transport."""
    ways = list(dict.fromkeys(over.split(",")))
    if not set(ways) <= set(TRANSPORTS):
        raise DeskUserError(
            f"--over: {over!r} is not a transport for a folder.", f"Allowed: {', '.join(TRANSPORTS)}."
        )
    if not is_folder and ways != ["memory"]:
        raise DeskUserError("--over is for a folder.", "Omit it for other servers.")
    return ways if is_folder else [""]


def _watched(run: Callable[[], int], places: set[Path]) -> int:
    """Run once, and again whenever a file changes, until ctrl+c."""
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
            # A file saved before the watch started is detected at its first timeout.
            for _ in watch(*existing, rust_timeout=LOOK_MS, yield_on_timeout=True):
                if _saved(existing) != before:
                    break
    except KeyboardInterrupt:
        return OK


def _saved(places: Iterable[Path]) -> dict[str, int]:
    """Modification time of each file, by path."""
    files = [each for place in places for each in ([place] if place.is_file() else place.rglob("*"))]
    kept = [each for each in files if each.suffix != ".pyc" and each.is_file()]
    found = dict[str, int]()
    for each in kept:
        with suppress(OSError):
            found[str(each)] = each.stat().st_mtime_ns
    return found


def _run_all(
    target: str,
    ways: Sequence[str],
    place: Path,
    only: str,
    junit: Path | None,
    reach: Reach,
    told: _Report,
) -> int:
    cases = [case for case in find_cases(place) if only in case.name or only in case.place]
    if not cases:
        hint = "`mcpdesk test --help` shows an example."
        raise DeskUserError(f"No case in {place}{f' with {only!r}' if only else ''}.", hint)

    async def run(server: ConnectedServer) -> None:
        for case in cases:
            told.add(await server.run(case))

    for way in ways:
        told.way = way if len(ways) > 1 else ""
        with _server(way, target, reach) as (opening, output_fd):
            told.output_fd = output_fd
            _run(opening, run)
    if told.as_json:
        print_json(told.facts())
    else:
        print_line(told.summary(), 1)
    if junit is not None:
        write_report(junit, junit_report("mcpdesk test", told.junit))
    return TOOL_ERROR if told.failed else OK


@contextmanager
def _server(way: str, target: str, reach: Reach) -> Iterator[tuple[Opening, int]]:
    """Yield a server to connect to, and the descriptor for results.

    Raises: DeskError if a folder cannot be hosted.
    """
    from mcpdesk.settings import resolve
    from mcpdesk.testing.connected_server import ProgramLog, connected, hosted, isolated_host, stdio_target

    with tempfile.TemporaryDirectory(prefix="mcpdesk-test-", ignore_cleanup_errors=True) as state:
        if way in ("memory", "http"):
            host = isolated_host(server_folder(target), Path(state), http=way == "http")
            with capture_output(host, "wire") as claimed:
                yield hosted(host, reach), claimed.stdout_fd
            return
        if way == "stdio":
            found: RemoteTarget | FolderTarget = stdio_target(
                server_folder(target), Path(state), reach.mode, reach.token
            )
            reach = reach._replace(mode="", token=None)  # the command has them
        else:
            found = find_target(target, os.environ, ask_input, agreement(reach), reach.packages)
        assert not isinstance(found, FolderTarget)
        settings, logged = resolve({}, os.environ).settings, ProgramLog()
        events = ProgramEvents(logged.log, logged.stray)
        place = ClientPlace(settings.state_dir, settings.api_key_header)
        transport = target_transport(found, reach, place, events)
        yield connected(transport, logged, reach.revision), 1


def _run(opening: Opening, work: Callable[[ConnectedServer], Awaitable[None]]) -> None:
    """Connect and run `work`. Raises: DeskUserError if the server cannot be reached."""

    async def run() -> None:
        async with opening as server:
            await work(server)

    try:
        asyncio.run(run())
    except CallError as error:
        raise with_hint(error) from None


class _Report:
    """Prints each result of a case immediately, and counts them."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.output_fd = 1
        """Descriptor for results. Differs from 1 while hosted code could write there."""
        self.way = ""
        """Current transport, if there are several."""
        self.junit = list[JUnitCase]()
        self.failed = 0
        self._cases = list[dict[str, Any]]()
        self._began = time.monotonic()

    def add(self, result: CaseResult) -> None:
        """Print one result."""
        case = result.case
        name = f"{case.name} over {self.way}" if self.way else case.name
        mark = "failed" if result.failures else "passed"
        told = f"  {name}  {result.duration_ms:.0f} ms"
        details = [f"    {line}" for each in result.failures for line in each.splitlines()]
        if result.failures:
            self.failed += 1
            told += f"  {case.place}"
            if result.logged:
                details += [
                    "    it logged:",
                    *(f"      {line}" for one in result.logged for line in one.splitlines()),
                ]
        if not self.as_json:
            is_coloured = shows_colour(self.output_fd)
            print_line(_coloured(mark, is_coloured) + clean(told, newlines=False), self.output_fd)
            for line in details:
                print_line(_coloured(clean(line, newlines=False), is_coloured), self.output_fd)
        failure = "\n".join(line.strip() for line in details) if result.failures else ""
        self.junit.append(JUnitCase(case.place.rpartition(":")[0], name, failure, result.duration_ms / 1000))
        facts = {"name": case.name, "place": case.place, "outcome": mark}
        over = {"over": self.way} if self.way else {}
        more = {"failures": list(result.failures), "logged": list(result.logged)} if result.failures else {}
        self._cases.append({**facts, "duration_ms": round(result.duration_ms, 1), **over, **more})

    def summary(self) -> str:
        """Return the numbers of passed and failed cases."""
        seconds, count = time.monotonic() - self._began, len(self.junit)
        failed = f", {self.failed} failed" if self.failed else ""
        told = f"{count} case{'s' * (count != 1)}: {count - self.failed} passed{failed} in {seconds:.1f} s"
        return _coloured(told, shows_colour(1), "red" if self.failed else "green")

    def facts(self) -> dict[str, Any]:
        """Return all results as a JSON value."""
        seconds, count = time.monotonic() - self._began, len(self.junit)
        counts = {"passed": count - self.failed, "failed": self.failed, "seconds": round(seconds, 3)}
        return {"cases": self._cases, **counts}


_COLOURS = {"passed": "green", "failed": "red", "    - ": "red", "    + ": "green"}
"""Colour of a line by its beginning. Lines of a difference are indented."""


def _coloured(line: str, is_coloured: bool, colour: str = "") -> str:
    """Colour a line according to its beginning. The text alone has the same meaning."""
    begin = f"    {line.lstrip()[:2]}" if line.startswith("    ") else line
    chosen = colour or _COLOURS.get(begin, "")
    return click.style(line, fg=chosen) if is_coloured and chosen else line


@click.command(name="load", epilog=LOAD_EXAMPLES, short_help="Call a tool at a steady rate, and measure.")
@click.argument("target", shell_complete=completion.folder)
@click.argument("tool")
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE | KEY:=JSON]...")
@click.option("--rate", type=click.FloatRange(0, 100_000, min_open=True), default=50.0, show_default=True,
              help="Calls a second.")  # fmt: skip
@click.option("--for", "seconds", type=click.FloatRange(0, 86_400, min_open=True), default=5.0,
              show_default=True, metavar="SECONDS", help="Duration.")  # fmt: skip
@click.option(
    "--max-p99", type=click.FloatRange(0), metavar="MS", help="Fail if the 99th percentile is higher."
)
@click.option("--over", default="memory", metavar="A,B", help="For a folder: memory, stdio, http; several.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@reach_options
def load_command(
    target: str,
    tool: str,
    arguments: tuple[str, ...],
    rate: float,
    seconds: float,
    max_p99: float | None,
    over: str,
    as_json: bool,
    reach: Reach,
) -> int:
    """Call TOOL of TARGET, any server, at a steady rate, and print the times.

    Each time is counted from the moment its call was due, so that a server that falls behind is noticed. A
    folder is hosted with its own fresh state, even if the desk hosts it. For a folder in memory or over HTTP
    the phases of the calls are shown. The last run of the same call is shown for comparison.
    """
    from mcpdesk.testing.load_run import LoadPlan, as_facts, run_load

    is_folder = Path(target).expanduser().is_dir()
    if is_folder and reach._replace(revision="").is_remote:
        hint = "With a folder, use --mode, --token-env and --revision only."
        raise DeskUserError("These flags are for servers that are not a folder.", hint)
    given, texts = parse_arguments(arguments)
    found = dict[str, dict[str, Any]]()

    for way in _transports(over, is_folder):

        async def run(server: ConnectedServer, way: str = way) -> None:
            tools = server.connection.tools
            schema = tools.get(tool, {}).get("inputSchema", {})
            plan = LoadPlan(tool, fitted(given, texts, schema), rate, seconds)
            found[way] = as_facts(await run_load(server.connection, plan), server.phases(tool))

        with _server(way, target, reach) as (opening, _):
            _run(opening, run)
    kept = _LastRuns()
    is_bad = False
    for way, facts in found.items():
        key = json.dumps([target, tool, sorted(arguments), way, rate])
        before = kept.replace(key, facts)
        is_late = max_p99 is not None and (facts["p99_ms"] is None or facts["p99_ms"] > max_p99)
        is_bad = is_bad or is_late or bool(facts["failed"])
        if as_json:
            facts["before"] = before
        else:
            name = f"{tool} over {way}" if way else tool
            print_text("\n".join(_load_lines(name, facts, before, max_p99 if is_late else None)))
    if as_json:
        print_json(found if len(found) > 1 else next(iter(found.values())))
    return TOOL_ERROR if is_bad else OK


def _load_lines(
    name: str, facts: dict[str, Any], before: dict[str, Any] | None, missed: float | None
) -> Iterator[str]:
    yield f"{name}: {facts['calls']:,} calls in {facts['seconds']:.1f} s, {facts['failed']:,} failed"
    columns = ("p50_ms", "p90_ms", "p99_ms", "max_ms")
    rows: list[tuple[str, ...]] = [("", *(each.removesuffix("_ms") for each in columns))]
    for title, values in (("now", facts), ("the run before", before)):
        if values is not None:
            rows.append(
                (title, *("–" if values[each] is None else f"{values[each]:.2f} ms" for each in columns))
            )
    yield from aligned(rows, "  ")
    if facts["phases_ms"]:
        spent = (f"{kind} {each:.3f} ms" for kind, each in facts["phases_ms"].items())
        yield f"  on average: {' · '.join(spent)}"
    for error, count in facts["errors"].items():
        yield f"  {count:,} times: {clean(error, newlines=False)}"
    if missed is not None:
        yield f"  p99 is above {missed:g} ms"


class _LastRuns:
    """Results of the latest runs, in a file in the user's state folder."""

    MOST = 200

    def __init__(self) -> None:
        from mcpdesk.settings import resolve

        self._path = resolve({}, os.environ).settings.state_dir / "load.json"

    def replace(self, key: str, facts: dict[str, Any]) -> dict[str, Any] | None:
        """Store a run as the latest of its kind. Return the previous one, or None."""
        kept = dict[str, Any]()
        with suppress(OSError, ValueError):
            found = json.loads(self._path.read_bytes())
            kept = found if isinstance(found, dict) else {}
        before = kept.pop(key, None)
        kept[key] = facts
        newest = dict(list(kept.items())[-self.MOST :])
        with suppress(OSError):
            private_files.write(self._path, json.dumps(newest).encode())
        return before if isinstance(before, dict) and before.keys() == facts.keys() else None
