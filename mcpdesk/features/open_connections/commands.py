"""The commands `up`, `ps` and `down`."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Sequence
from difflib import get_close_matches

import click
import msgspec
from click.shell_completion import CompletionItem

from mcpdesk.cli import completion
from mcpdesk.cli.desk_targets import server_name
from mcpdesk.cli.printing import OK, TOOL_ERROR, aligned, print_json, print_message, print_text
from mcpdesk.cli.reach import find_server, reach_options, server_folder
from mcpdesk.client.targets import COMMAND, FolderTarget, Target
from mcpdesk.errors import DeskUserError
from mcpdesk.features.open_connections.lookup import same_server, target_key
from mcpdesk.features.open_connections.plan import plan_of
from mcpdesk.features.open_connections.report import (
    VERSION,
    ConnectionDescription,
    ConnectionList,
    ConnectionReport,
)
from mcpdesk.features.open_connections.sockets import description_of, open_connections
from mcpdesk.features.open_connections.start import end, start
from mcpdesk.plain_text import clean
from mcpdesk.recorder.masking import mask_text
from mcpdesk.runtime.core_process import require_unix
from mcpdesk.settings import BY_NAME as SETTINGS
from mcpdesk.upstream.target_transport import Reach

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
REQUIREMENTS = "Unix sockets and sessions"
MAX_TARGET_LENGTH = 48
"""Maximum number of characters of a target in the table."""
MAX_ENDED_AT_ONCE = 16
"""Maximum number of connections that `mcpdesk down` ends at the same time. The others wait."""
UP_EXAMPLES = """\b
Examples:
  mcpdesk up sample_servers/hello
  mcpdesk up cursor:github --name gh
  mcpdesk up https://example.com/mcp --token-env TOKEN --idle 600
  mcpdesk up --name everything -- npx -y @modelcontextprotocol/server-everything
  mcpdesk call everything echo message=hi

Exit codes: 0 connected, 2 invalid command, name in use or file not trusted, 3 cannot connect,
4 protocol error.
"""
PS_EXAMPLES = """\b
Examples:
  mcpdesk ps
  mcpdesk ps --json
"""
DOWN_EXAMPLES = """\b
Examples:
  mcpdesk down everything
  mcpdesk down --all
"""


def complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the names of open connections that begin with `incomplete`, for completion in a shell."""
    try:
        reports = [each.report for each in open_connections()]
    except DeskUserError:  # other users can write to the sockets' folder, so it cannot be trusted
        return []
    return [
        CompletionItem(each.name, help=clean(each.target, newlines=False)[:80])
        for each in reports
        if each.name.startswith(incomplete)
    ]


@click.command(name="up", epilog=UP_EXAMPLES, short_help="Keep a server connected for later commands.")
@click.argument("target", shell_complete=completion.target)
@click.option(
    "--name", default="", metavar="NAME", help="Name for later commands. Default: derived from the target."
)
@click.option(
    "--idle",
    "keep_open_s",
    type=click.IntRange(SETTINGS["keep_open_s"].least, SETTINGS["keep_open_s"].most),
    metavar="SECONDS",
    help="End the connection after this time without use. Default: the setting keep_open_s (30 minutes).",
)
@click.option("--json", "as_json", is_flag=True, help="Print the connection as JSON.")
@reach_options
def up_command(target: str, name: str, keep_open_s: int | None, as_json: bool, reach: Reach) -> int:
    """Connect to the server TARGET in a background process, and keep the connection for later commands.

    `call`, `list`, `read`, `prompt`, `complete`, `send` and `watch` then use the connection, if their TARGET
    is its name or the same server. They share one session, so the server keeps its state from call to call.
    `mcpdesk attach NAME` shows their traffic. `mcpdesk ps` lists open connections, and `mcpdesk down NAME`
    ends one.

    A question of a tool is asked in the terminal of the command that called the tool. If a server has failed,
    the same `mcpdesk up` starts it again.
    """
    require_unix("`mcpdesk up`", REQUIREMENTS)
    from mcpdesk.settings import resolve

    settings = resolve({}, os.environ).settings
    if name and not NAME.fullmatch(name):
        hint = "Use letters, digits and . _ -, 64 at most. It must not begin with . or -."
        raise DeskUserError(f"--name: {name[:80]!r} is not a valid name.", hint)
    if not name and (existing := same_server(target)) is not None:
        _end_if_down(existing, target)
        name = existing.report.name
    if name and (existing := description_of(name)) is not None:
        _end_if_down(existing, target)
    resolved_target = find_server(target, reach)
    _check_options(target, resolved_target, reach)
    if not name:
        name = _derived_name(target, resolved_target)
        if (existing := description_of(name)) is not None:
            _end_if_down(existing, target)
    plan = plan_of(
        name,
        mask_text(target.removeprefix(COMMAND)),
        target_key(target),
        keep_open_s or settings.keep_open_s,
        resolved_target,
        reach,
        settings.api_key_header,
    )
    outcome = start(plan)
    if outcome.report is None:
        for line in outcome.log:
            print_message(line)
        if outcome.is_taken:
            raise _name_in_use(name, "another server")
        raise DeskUserError(outcome.message, outcome.hint, outcome.exit_code)
    if as_json:
        print_json(msgspec.to_builtins(outcome.report))
    else:
        print_text("\n".join(_success_lines(outcome.report)))
    return OK


def _end_if_down(existing: ConnectionDescription, target: str) -> None:
    """End an existing connection if its server has failed.

    Raises: DeskUserError if the connection belongs to another server, or if its server is connected.
    """
    report = existing.report
    if existing.key != target_key(target):
        raise _name_in_use(report.name, report.target)
    if not report.state.is_down:
        raise DeskUserError(
            f"{clean(report.target, newlines=False)} is already open as {report.name!r} ({report.state}).",
            f"Use it: mcpdesk call {report.name}. Or open it a second time with another --name.",
        )
    print_message(f"{report.name}: {report.reason}; it is started again")
    end(report.name)


def _name_in_use(name: str, target: str) -> DeskUserError:
    return DeskUserError(
        f"The name {name!r} is in use by the open connection to {clean(target, newlines=False)}.",
        f"Choose another name with --name, or end it: mcpdesk down {name}",
    )


def _check_options(text: str, target: Target, reach: Reach) -> None:
    """Check that the target supports the options, and that no other process hosts its folder.

    Raises: DeskUserError.
    """
    if not isinstance(target, FolderTarget):
        return
    if reach.is_remote or reach.token is not None:
        message = "Tokens, keys, headers, revisions and packages cannot be used with a folder."
        raise DeskUserError(message, "Give a token to each `mcpdesk call`.")
    from mcpdesk.transports import rendezvous

    folder = server_folder(text) if os.path.isdir(text) else target.path
    try:
        hosting_process = rendezvous.find_desk(folder)
    except OSError as error:
        raise DeskUserError(f"The connection cannot be kept open: {error}.") from None
    if hosting_process is not None:
        pid = rendezvous.peer_credentials(hosting_process)[0]
        hosting_process.close()
        process = f"process {pid}" if pid is not None else "another process"
        hint = "Commands on this folder already use that process, and keep its state."
        raise DeskUserError(f"{folder} is already hosted by {process}.", hint)


def _derived_name(text: str, target: Target) -> str:
    """Derive a valid name from a target."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", server_name(text, target)).strip("-.")[:64]
    return name if NAME.fullmatch(name) else "server"


def _success_lines(report: ConnectionReport) -> list[str]:
    """Return the message after a connection was opened."""
    facts = [clean(report.target, newlines=False)]
    if report.revision:
        facts.append(f"revision {report.revision}")
    if report.tools is not None:
        facts.append(f"{report.tools} tool{'s' * (report.tools != 1)}")
    facts.append(f"process {report.pid}")
    return [
        f"{report.name} is connected: {', '.join(facts)}",
        f"It ends after {duration(report.keep_open_s)} without use. Use it, for example:",
        f"  mcpdesk call {shlex.quote(report.name)}",
    ]


def duration(seconds: float) -> str:
    """Return a duration in its two largest units, such as `2 h 5 min` or `40 s`."""
    total_s = int(seconds)
    parts = ((total_s // 3600, "h"), (total_s % 3600 // 60, "min"), (total_s % 60, "s"))
    texts = [f"{number} {unit}" for number, unit in parts if number]
    return " ".join(texts[:2]) or "0 s"


@click.command(name="ps", epilog=PS_EXAMPLES, short_help="List the open connections.")
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def ps_command(as_json: bool) -> int:
    """List the connections that `mcpdesk up` keeps open, oldest first.

    A server that has ended or cannot be reached is listed with the reason.
    """
    require_unix("`mcpdesk ps`", REQUIREMENTS)
    silent_pids = list[int]()
    connections = [each.report for each in open_connections(silent_pids)]
    if as_json:
        print_json(msgspec.to_builtins(ConnectionList(VERSION, connections, silent_pids)))
        return OK
    if not connections and not silent_pids:
        print_text("No connection is open. Open one: mcpdesk up TARGET")
        return OK
    print_text("\n".join(_table(connections)))
    for each in connections:
        if each.reason:
            print_message(f"{each.name}: {each.reason}\n  {each.hint}")
    for error in map(_silent_error, silent_pids):
        print_message(f"{error.message}\n  {error.hint}")
    return OK


def _table(connections: Sequence[ConnectionReport]) -> list[str]:
    rows = [("NAME", "STATE", "REVISION", "TOOLS", "PID", "SINCE", "CALLS", "IDLE", "TARGET")]
    for each in connections:
        target = clean(each.target, newlines=False)
        short_target = target if len(target) <= MAX_TARGET_LENGTH else f"{target[: MAX_TARGET_LENGTH - 1]}…"
        tools = "-" if each.tools is None else str(each.tools)
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(each.since))
        idle = "in use" if each.clients else duration(each.idle_s)
        facts = (each.name, str(each.state), each.revision or "-", tools, str(each.pid), since)
        rows.append((*facts, str(each.calls), idle, short_target))
    return list(aligned(rows))


@click.command(name="down", epilog=DOWN_EXAMPLES, short_help="End open connections.")
@click.argument("connections", nargs=-1, metavar="[NAME]...", shell_complete=complete_name)
@click.option("--all", "is_all", is_flag=True, help="End all open connections.")
@click.option(
    "--json", "as_json", is_flag=True, help='Print the result as JSON: {"ended": [...], "failed": [...]}.'
)
def down_command(connections: tuple[str, ...], is_all: bool, as_json: bool) -> int:
    """End the open connections with these names. Their programs end, and their state is lost.

    If a process does not end, the command ends the others, reports it, and has the exit code 1.
    """
    require_unix("`mcpdesk down`", REQUIREMENTS)
    if is_all == bool(connections):
        raise click.UsageError("Name the connections, or use --all.")
    silent_pids = list[int]()
    open_names = [each.report.name for each in open_connections(silent_pids)]
    chosen_names = open_names if is_all else list(dict.fromkeys(connections))
    for name in chosen_names:
        if name not in open_names and not _is_open(name):
            similar_names = get_close_matches(name, open_names, n=1)
            hint, next_command = "`mcpdesk ps` lists open connections.", "mcpdesk ps"
            if similar_names:
                hint, next_command = f"Did you mean {similar_names[0]!r}?", ""
            message = f"No open connection is called {name[:80]!r}."
            raise DeskUserError(message, hint, next_command=next_command)
    outcomes = _end_all(chosen_names)
    errors = [each for each in outcomes.values() if isinstance(each, DeskUserError)]
    if len(connections) == 1 and errors:
        raise errors[0]
    if is_all:
        errors += [_silent_error(pid) for pid in silent_pids]
    ended = [name for name, outcome in outcomes.items() if outcome is True]
    if as_json:
        failed = [{"message": each.message, "hint": each.hint} for each in errors]
        print_json({"ended": ended, "failed": failed})
    elif ended or not errors:
        print_text("\n".join(f"{name} has ended." for name in ended) or "No connection is open.")
    for error in errors:
        print_message(f"{error.message}\n  {error.hint}")
    return TOOL_ERROR if errors else OK


def _is_open(name: str) -> bool:
    """Return True if a process has a connection of this name, even if the process does not answer."""
    try:
        return description_of(name) is not None
    except DeskUserError:
        return True


def _end_all(names: Sequence[str]) -> dict[str, bool | DeskUserError]:
    """End the connections with these names at once. Return the result of `end`, or its error, by name."""
    from concurrent.futures import ThreadPoolExecutor

    def end_or_error(name: str) -> bool | DeskUserError:
        try:
            return end(name)
        except DeskUserError as error:
            return error

    with ThreadPoolExecutor(MAX_ENDED_AT_ONCE) as pool:
        return dict(zip(names, pool.map(end_or_error, names), strict=True))


def _silent_error(pid: int) -> DeskUserError:
    return DeskUserError(
        f"process {pid} keeps a connection open, but does not answer", f"End it: kill -9 {pid}"
    )
