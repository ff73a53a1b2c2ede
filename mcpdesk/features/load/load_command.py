"""The command `load`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcpdesk import private_files
from mcpdesk.cli import completion
from mcpdesk.cli.printing import OK, TOOL_ERROR, aligned, print_json, print_text
from mcpdesk.cli.reach import reach_options
from mcpdesk.cli.requests import converted_arguments, parse_arguments
from mcpdesk.cli.started_server import run_with_server, transports_of
from mcpdesk.errors import DeskUserError
from mcpdesk.plain_text import clean
from mcpdesk.upstream.target_transport import Reach

if TYPE_CHECKING:
    from mcpdesk.testing.connected_server import ConnectedServer

LOAD_EXAMPLES = """\b
Examples:
  mcpdesk load sample_servers/hello greet name=Ada
  mcpdesk load sample_servers/hello greet name=Ada --rate 200 --for 10 --over memory,stdio,http
  mcpdesk load https://example.com/mcp search query=tea --rate 5 --max-p99 800

Exit codes: 0 all calls succeeded, 1 some failed or p99 is above --max-p99, 2 invalid command,
3 cannot connect.
"""


@click.command(name="load", epilog=LOAD_EXAMPLES, short_help="Call a tool at a steady rate, and measure.")
@click.argument("target", shell_complete=completion.target)
@click.argument("tool")
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE | KEY:=JSON]...")
@click.option("--rate", type=click.FloatRange(0, 100_000, min_open=True), default=50.0, show_default=True,
              metavar="N", help="Calls per second.")  # fmt: skip
@click.option("--for", "seconds", type=click.FloatRange(0, 86_400, min_open=True), default=5.0,
              show_default=True, metavar="SECONDS", help="Duration of the run.")  # fmt: skip
@click.option(
    "--max-p99",
    type=click.FloatRange(0),
    metavar="MS",
    help="Fail if the 99th percentile of the latency is above MS milliseconds. Default: no limit.",
)
@click.option(
    "--over",
    default="memory",
    metavar="A,B",
    help="For a folder: transports, separated by commas: memory, stdio, http. Default: memory.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
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
    """Call TOOL of the server TARGET at a steady rate, and print the latency.

    The latency of a call is measured from the time when the call is due, even if it is sent later. The
    figures therefore include the delay of a server that is too slow for the rate. If you ran the same call
    before, the figures of that run are also printed.

    A folder is hosted by this command, with an empty state, even if a desk also hosts it. Over memory and
    http, the command also prints how long each phase of a call takes.
    """
    from mcpdesk.features.load.load_run import LoadPlan, as_facts, mean_phases, run_load

    is_folder = Path(target).expanduser().is_dir()
    # --revision counts as an option for upstream servers, but is also allowed for a folder.
    if is_folder and reach._replace(revision="").is_remote:
        hint = "With a folder, use --mode, --token-env and --revision only."
        raise DeskUserError("These flags are for servers that are not a folder.", hint)
    values, text_keys = parse_arguments(arguments)
    results = dict[str, dict[str, Any]]()

    for transport in transports_of(over, is_folder):

        async def run(server: ConnectedServer, _: int, transport: str = transport) -> None:
            tools = server.connection.tools
            schema = tools.get(tool, {}).get("inputSchema", {})
            plan = LoadPlan(tool, converted_arguments(values, text_keys, schema), rate, seconds)
            result = await run_load(server.connection, plan)
            results[transport] = as_facts(
                result, {} if server.host is None else mean_phases(server.host, tool)
            )

        run_with_server(transport, target, reach, run)
    history = _RunHistory()
    is_failure = False
    for transport, facts in results.items():
        key = json.dumps([target, tool, sorted(arguments), transport, rate])
        previous = history.replace(key, facts)
        is_too_slow = max_p99 is not None and (facts["p99_ms"] is None or facts["p99_ms"] > max_p99)
        is_failure = is_failure or is_too_slow or bool(facts["failed"])
        if as_json:
            facts["before"] = previous
        else:
            name = f"{tool} over {transport}" if transport else tool
            print_text("\n".join(_load_lines(name, facts, previous, max_p99 if is_too_slow else None)))
    if as_json:
        print_json(results if len(results) > 1 else next(iter(results.values())))
    return TOOL_ERROR if is_failure else OK


def _load_lines(
    name: str, facts: dict[str, Any], previous: dict[str, Any] | None, exceeded_ms: float | None
) -> Iterator[str]:
    yield f"{name}: {facts['calls']:,} calls in {facts['seconds']:.1f} s, {facts['failed']:,} failed"
    columns = ("p50_ms", "p90_ms", "p99_ms", "max_ms")
    rows: list[tuple[str, ...]] = [("", *(each.removesuffix("_ms") for each in columns))]
    for title, values in (("now", facts), ("the run before", previous)):
        if values is not None:
            rows.append(
                (title, *("–" if values[each] is None else f"{values[each]:.2f} ms" for each in columns))
            )
    yield from aligned(rows, "  ")
    if facts["phases_ms"]:
        phase_times = (f"{kind} {phase_ms:.3f} ms" for kind, phase_ms in facts["phases_ms"].items())
        yield f"  on average: {' · '.join(phase_times)}"
    for error, count in facts["errors"].items():
        yield f"  {count:,} times: {clean(error, newlines=False)}"
    if exceeded_ms is not None:
        yield f"  p99 is above {exceeded_ms:g} ms"


class _RunHistory:
    """Results of the latest runs, in a file in the user's state folder."""

    MAX_RUNS = 200
    """Maximum number of stored runs. The oldest are deleted first."""

    def __init__(self) -> None:
        from mcpdesk.settings import resolve

        self._path = resolve({}, os.environ).settings.state_dir / "load.json"

    def replace(self, key: str, facts: dict[str, Any]) -> dict[str, Any] | None:
        """Store a run as the latest of its kind. Return the previous one, or None."""
        results = dict[str, Any]()
        with suppress(OSError, ValueError):
            stored = json.loads(self._path.read_bytes())
            results = stored if isinstance(stored, dict) else {}
        previous = results.pop(key, None)
        results[key] = facts
        newest = dict(list(results.items())[-self.MAX_RUNS :])
        with suppress(OSError):
            private_files.write(self._path, json.dumps(newest).encode())
        return previous if isinstance(previous, dict) and previous.keys() == facts.keys() else None
