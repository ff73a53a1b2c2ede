"""Commands for the screen: the desk in this process, a capture (`open`), and running cores (`attach`)."""

from __future__ import annotations

import gc
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from msgspec.structs import replace

from mcpdesk.byte_size import size_text
from mcpdesk.cli import completion
from mcpdesk.cli.command_help import BriefCommand
from mcpdesk.cli.desk_targets import DeskTargets, desk_targets, typed_targets, untrusted_file
from mcpdesk.cli.options import core_options, feature_values, given_flags, setting_options
from mcpdesk.cli.printing import OK, aligned, print_message, print_text
from mcpdesk.cli.reach import WATCH, agreement, named_connection, open_connection, reach_options
from mcpdesk.client.configs.program_names import program_name
from mcpdesk.errors import DeskUserError
from mcpdesk.feature import AttachedLink, LiveCapture
from mcpdesk.features import features_with, required
from mcpdesk.paths import captures_folder, state_folder
from mcpdesk.runtime.attach_point import AttachPoint
from mcpdesk.runtime.core_process import StopRequests, capture_output, offer_link, require_unix
from mcpdesk.upstream.target_transport import Reach

if TYPE_CHECKING:
    from mcpdesk.cli.screen_runs import MakeApp
    from mcpdesk.hosting.core_loop.core_thread import CoreThread
    from mcpdesk.hosting.host_plan import HostPlan
    from mcpdesk.hosting.journal import Journal
    from mcpdesk.link.capture_link import CaptureLink
    from mcpdesk.link.link import Link
    from mcpdesk.link.remote import RunningCore
    from mcpdesk.recorder.archive import Archive
    from mcpdesk.transports.descriptors import ClaimedDescriptors


GRACE_S = 8.0
"""Seconds within which the screen and the core must end after a request to stop. Then the process exits at
once.
"""
CAPTURE_GRACE_S = 2.0
"""Like `GRACE_S`, for a screen without a core of its own."""
MAX_LISTED = 12
"""Maximum number of captures in the list. The newest are listed first."""
DESK_EXAMPLES = """\b
Examples:
  mcpdesk                              the bundled sample
  mcpdesk --empty                      choose among the servers of this machine
  mcpdesk ~/servers/profiles           a server folder
  mcpdesk https://example.com/mcp      a remote server
  mcpdesk .mcp.json                    every server of a client's configuration
  mcpdesk server.py                    a server of FastMCP or of the official SDK
  mcpdesk -- npx -y @modelcontextprotocol/server-everything
  mcpdesk --web ~/servers/profiles     the desk in a browser instead of this terminal
"""
OPEN_EXAMPLES = """\b
Examples:
  mcpdesk open                         show the newest running tap, or list all captures
  mcpdesk open --live                  list running taps
  mcpdesk open ~/.local/state/mcpdesk/captures/20260728-101500.jsonl
"""
THEME = click.option("--theme", metavar="NAME", help="Colour theme. Default: the theme that you used last.")


@click.command(
    name="desk",
    cls=BriefCommand,
    epilog=DESK_EXAMPLES,
    short_help="Open the desk (the default command).",
    common=(
        "is_empty", "http", "web", "theme", "mode", "token_env", "headers", "revision", "packages", "trust",
    ),
)  # fmt: skip
@click.argument("targets", nargs=-1, metavar="[TARGET]...", shell_complete=completion.target)
@click.option(
    "--empty", "is_empty", is_flag=True, help="Open no server. The desk offers servers of this machine."
)
@THEME
@WATCH
@core_options
@reach_options
@setting_options
def desk_command(
    targets: tuple[str, ...],
    is_empty: bool,
    theme: str | None,
    watched: tuple[Path, ...],
    reach: Reach,
    **values: Any,
) -> int:
    """Open the desk on the TARGETs: server folders, programs, URLs and configuration files. Clients can
    connect to the server folders while the desk runs. Without a TARGET, the desk shows the bundled
    sample. Use --empty to choose among the servers in this folder and those that your clients use."""
    from mcpdesk import paths

    if targets and is_empty:
        raise click.UsageError("--empty cannot be combined with a TARGET.")

    require_unix("The desk", "termios")
    if len(targets) == 1 and (connection := named_connection(targets[0], reach)) is not None:
        return _attach_to_connection(connection.pid, theme)
    if targets:
        opened_targets = desk_targets(targets, reach, agree=agreement(reach, values.get("state_dir")))
    else:
        opened_targets = DeskTargets(() if is_empty else (paths.sample_servers() / "desk",))
    opened_targets = opened_targets.watching(watched)
    feature_options = feature_values(values)
    flags = given_flags(values)
    from mcpdesk.hosting.host_plan import plan_for

    plan = plan_for(
        opened_targets.folders,
        flags,
        os.environ,
        may_move=True,
        mode=reach.mode,
        withholds_invalid=True,
        upstreams=opened_targets.upstreams,
        feature_options=feature_options,
    )
    if plan.settings.web:
        from mcpdesk.cli.serve import run_service

        return run_service(plan, theme)
    require_terminal()
    return run_desk(plan, theme)


@click.command(name="open", epilog=OPEN_EXAMPLES, short_help="Show a capture from disk.")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--live", is_flag=True, help="List the running taps and their captures, newest first.")
@THEME
def open_command(file: Path | None, live: bool, theme: str | None) -> int:
    """Show the capture FILE on the traffic screen. The command reads all files of the capture. It hosts no
    server and changes no file. If a running program still writes to the capture, new messages appear at
    once. If that program is a tap, its messages can be held: see the action menu of Traffic (`space`).

    Without FILE, show the capture of the newest running tap (`mcpdesk stdio -- COMMAND`). If no tap runs,
    list all captures. `mcpdesk settings` prints the folder of the captures.
    """
    require_unix("`mcpdesk open`", "termios")
    if live:
        _print_live_captures()
        return OK
    if file is None:
        live_captures = _live_captures()
        if not live_captures:
            return _list_captures()
        file = Path(live_captures[0].path)
    return show_capture(file.expanduser(), theme)


def _live_captures() -> list[LiveCapture]:
    """Return the captures that running taps are writing, newest first."""
    return [each for feature in features_with("live_captures") for each in feature.live_captures()]


def _print_live_captures() -> None:
    """Print process, start time, client, command and capture of each running tap."""
    rows = [
        (
            str(each.pid),
            time.strftime("%H:%M:%S", time.localtime(each.started)),
            each.client or "?",
            shlex.join(each.command),
            each.path,
        )
        for each in _live_captures()
    ]
    if rows:
        print_text("\n".join(aligned([("pid", "since", "client", "command", "capture"), *rows])))
    else:
        print_message("No tap is running.")


def _list_captures() -> int:
    """Print the most recently written captures, and how to open a capture. Raises: DeskUserError if there are
    no captures.
    """
    from mcpdesk.recorder.capture.capture_parts import stored_captures
    from mcpdesk.settings import resolve

    folder = captures_folder(resolve({}, os.environ).settings.state_dir)
    captures = stored_captures(folder)
    if not captures:
        hint = "Start `mcpdesk`, or see `mcpdesk wrap --help`."
        raise DeskUserError("No tap is running, and no captures exist.", hint)
    rows = []
    for capture in captures[:MAX_LISTED]:
        time_written = time.strftime("%Y-%m-%d %H:%M", time.localtime(capture.changed))
        rows.append((time_written, size_text(capture.size), str(capture.path)))
    print_text("\n".join(aligned([("written", "size", "capture"), *rows])))
    older_count = len(captures) - len(rows)
    older_text = f"{older_count:,} older captures are in {folder}. " if older_count else ""
    print_message(f"{older_text}No tap is running. Show a capture with `mcpdesk open FILE`.")
    return OK


def show_capture(file: Path, theme: str | None, message: str = "") -> int:
    """Show a capture until the person leaves. `message` is shown first. Return the exit code.

    Raises: DeskUserError if the capture does not exist.
    """
    from mcpdesk.link.capture_link import FIRST_READ_S
    from mcpdesk.recorder.archive import Archive

    archive = Archive(file, FIRST_READ_S)
    require_terminal("To read the capture without a terminal, open the file: each line is a JSON object.")
    from mcpdesk.cli.screen_runs import ScreenRuns, Terminal
    from mcpdesk.paths import state_folder
    from mcpdesk.tui.app import CaptureApp

    link = capture_link(archive, message)
    try:
        terminal = Terminal(sys.stderr.fileno())
        runs = ScreenRuns(partial(CaptureApp, link, theme), state_folder(), terminal)
        with StopRequests(runs.stop, grace_s=CAPTURE_GRACE_S, before_exit=terminal.restore, with_parent=True):
            return runs.run()
    finally:
        link.close()


def capture_link(archive: Archive, message: str = "") -> CaptureLink:
    """Return a link to a capture. If a tap is writing it, the link can also hold the tap's messages."""
    from mcpdesk.link.capture_link import CaptureLink

    features = features_with("live_link") if archive.is_live else ()
    links = (feature.live_link(archive, message) for feature in features)
    return next(filter(None, links), None) or CaptureLink(archive, message)


def require_terminal(hint: str = "`mcpdesk serve FOLDER` runs the same server without a screen.") -> None:
    """Check that the screen can be shown. Raises: DeskUserError.

    The screen needs a terminal for drawing and reading keys. It also needs the package textual, which the
    copy of mcpdesk in an MCPB bundle does not have. `hint` is the hint of the error about a missing terminal.
    """
    from importlib.util import find_spec

    if find_spec("textual") is None:
        raise DeskUserError(
            "The desk needs textual, which is not installed.",
            "Install mcpdesk; the copy in an MCPB bundle can only serve this bundle.",
        )
    is_stdin_terminal, is_stdout_terminal, is_stderr_terminal = (
        each is not None and each.isatty() for each in (sys.stdin, sys.stdout, sys.stderr)
    )
    if is_stdin_terminal and is_stdout_terminal and not is_stderr_terminal:
        # The message is also printed on stdout, because stderr is redirected and the person cannot see it.
        message = "The desk draws on stderr, which is not a terminal: do not redirect it."
        print(f"mcpdesk: {message}")
        raise DeskUserError(message, "To read the log, open screen 5 of the desk.")
    if not (is_stdin_terminal and is_stderr_terminal):
        raise DeskUserError("The desk needs a terminal.", hint)
    if os.environ.get("TERM") == "dumb":
        raise DeskUserError("The desk cannot draw on a dumb terminal.", "Use `mcpdesk serve FOLDER`.")


def run_desk(plan: HostPlan, theme: str | None = None) -> int:
    """Show the desk until the person leaves. Return the exit code. Without `theme`, the last theme is used.

    Raises: DeskError if the core cannot start.
    """
    # Garbage collection would find nothing here, because the objects created before the screen is shown are
    # long-lived. `collect_rarely` enables it again.
    gc.disable()
    from mcpdesk.auth.operator import credential_file
    from mcpdesk.hosting.core_loop.core_thread import CoreThread
    from mcpdesk.hosting.host import Host
    from mcpdesk.link.local.local_link import LocalLink
    from mcpdesk.tui.app import DeskApp

    host = Host(replace(plan, draws_first=True))
    host.read_targets, host.read_untrusted = typed_targets, untrusted_file
    offer_link(host)
    with capture_output(host, "screen") as descriptors, credential_file(host.state_dir, host.operator):
        core = CoreThread(host)
        link = LocalLink(host)
        try:
            history = plan.settings.state_dir / "calls.jsonl"
            app = partial(DeskApp, link, theme, history=history, settled=host.screen_drawn)
            with AttachPoint(host, "desk"):
                code = _show(app, core, descriptors, plan.settings.state_dir, link)
        finally:
            link.close()
            core.stop()
    if core.started.done():
        core.started.result()
    if (capture := host.recording.path) is not None and host.recording.frames:
        command = f"mcpdesk open {shlex.quote(str(capture))}"
        print_message(f"The traffic was written to a capture, secrets included: {command}")
    return code


def _show(app: MakeApp, core: CoreThread, descriptors: ClaimedDescriptors, state: Path, link: Link) -> int:
    """Run the screen. The core loads its folders and starts to serve once the screen is shown."""
    from mcpdesk.cli.screen_runs import ScreenRuns, Terminal
    from mcpdesk.hosting.environment import collect_rarely

    terminal = Terminal(descriptors.stderr_fd)

    def start_core() -> None:
        collect_rarely()
        descriptors.redirect_prints()
        core.started.add_done_callback(lambda started: runs.stop() if started.exception() else None)
        core.start()

    def describe_core() -> str:
        urls = [server.url for server in link.view().servers if server.url]
        return f"The server continues at {', '.join(urls)}." if urls else "The server continues."

    runs = ScreenRuns(
        app, state, terminal, keys_fd=descriptors.stdin_fd, begin=start_core, describe_core=describe_core
    )
    with StopRequests(runs.stop, grace_s=GRACE_S, before_exit=terminal.restore, with_parent=True):
        return runs.run()


ATTACH_EXAMPLES = """\b
Examples:
  mcpdesk attach            the only running process, or a list if several run
  mcpdesk attach profiles   the process that hosts the server `profiles`
  mcpdesk attach 4711       the process with this process ID
  mcpdesk attach 4711 4712  two processes on one screen; server names work as well
  mcpdesk attach --list     list the processes: name, ID, kind, start time, address
  mcpdesk attach redis://10.0.0.5:6379   every replica that uses this Valkey or Redis
  mcpdesk attach --shared   the same, with the URL and password from MCPDESK_SHARED

If MCPDESK_STATE_DIR is set, only processes with the same state folder are found.
"""


@click.command(name="attach", epilog=ATTACH_EXAMPLES, short_help="Open a screen on a core that already runs.")
@click.argument("names", nargs=-1, metavar="[NAME, PID or URL]...")
@click.option("--list", "is_list", is_flag=True, help="List the running processes and taps.")
@click.option(
    "--shared", is_flag=True, help="Attach to every replica that uses the Valkey or Redis in MCPDESK_SHARED."
)
@THEME
def attach_command(names: tuple[str, ...], is_list: bool, shared: bool, theme: str | None) -> int:
    """Open a screen on processes that you run: a desk, `mcpdesk serve` or `mcpdesk stdio`. When you close
    the screen, the processes continue. If you name several processes, one screen shows them all, and each
    line names its process. For a tap (`mcpdesk stdio -- COMMAND`), the screen can show and hold messages."""
    require_unix("`mcpdesk attach`", "termios and Unix sockets")
    if shared or (len(names) == 1 and "://" in names[0]):
        require_terminal("Use the status page of any replica, /status, instead.")
        return run_sharing(names[0] if names else "", theme)
    processes = running_processes()
    if not processes:
        raise DeskUserError(
            "No core of mcpdesk is running on this machine.", "Start one: mcpdesk serve FOLDER"
        )
    if is_list or (not names and len(processes) > 1):
        print("\n".join(process_table(processes)))
        return 0
    names = tuple(_pid_or_name(processes, each) for each in names)
    if len(names) > 1:
        refuse_unknown(processes, names)
        require_terminal("`mcpdesk attach --list` needs no terminal.")
        return run_named(names, theme)
    process = find_process(processes, next(iter(names), ""))
    if not os.environ.get("TEXTUAL_DRIVER"):  # otherwise the screen is drawn in a browser
        require_terminal("`mcpdesk attach --list` needs no terminal.")
    if isinstance(process.source, LiveCapture):
        message = f"attached to {process.title}: it continues when you leave"
        return show_capture(Path(process.source.path), theme, message)
    return run_screen(process.source, theme)


def _attach_to_connection(pid: int, theme: str | None) -> int:
    """Show the process of an open connection until the person leaves. Return the exit code."""
    core = find_process(running_processes(), str(pid))
    require_terminal("`mcpdesk ps` lists open connections, and needs no terminal.")
    assert not isinstance(core.source, LiveCapture)
    return run_screen(core.source, theme)


class Attachable(NamedTuple):
    """Running core or tap to which a screen can be attached."""

    names: tuple[str, ...]
    """Names of its servers."""
    pid: int
    kind: str
    """Command that started the process, such as `serve`, or `tap`."""
    since: float
    """Start of the process, as Unix time in seconds."""
    address: str
    """Address of its first server, or path of a tap's capture."""
    source: RunningCore | LiveCapture
    """Core or capture to show."""

    @property
    def title(self) -> str:
        """Description for a person: `serve hello (pid 4711)`."""
        return f"{self.kind} {' '.join(self.names)} (pid {self.pid})"

    def is_named(self, name_or_pid: str) -> bool:
        """Return True if this core or tap has a server with the name, or has the pid."""
        return name_or_pid in self.names or name_or_pid == str(self.pid)


def running_processes() -> list[Attachable]:
    """Return this user's cores on this machine, oldest first, and then the taps, oldest first."""
    from mcpdesk.link.remote import running_cores

    processes: list[Attachable] = []
    for core in running_cores():
        welcome = core.welcome
        processes.append(
            Attachable(welcome.names, welcome.pid, welcome.kind, welcome.since, welcome.address, core)
        )
    for tap in reversed(_live_captures()):
        name = program_name(tap.command)
        processes.append(Attachable((name,), tap.pid, "tap", tap.started, tap.path, tap))
    return processes


def find_process(processes: list[Attachable], name_or_pid: str) -> Attachable:
    """Return the core or tap with a server name or pid. If `name_or_pid` is empty, return the only core or
    tap. Raises: DeskUserError if no core or tap matches, or if several match.
    """
    matches = [each for each in processes if not name_or_pid or each.is_named(name_or_pid)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        pids = [str(each.pid) for each in matches]
        hint = f"Name one by its pid: {', '.join(pids)}; or all: mcpdesk attach {' '.join(pids)}"
        raise DeskUserError(f"{len(matches)} cores have a server {name_or_pid!r}.", hint)
    titles = ", ".join(each.title for each in processes)
    raise DeskUserError(f"No running core has the server name or pid {name_or_pid!r}.", f"Running: {titles}.")


def _pid_or_name(processes: list[Attachable], name_or_pid: str) -> str:
    """Return the pid of the open connection with this name. Return the argument unchanged if a core or tap
    matches it, or if no connection has the name.
    """
    if any(each.is_named(name_or_pid) for each in processes):
        return name_or_pid
    connection = open_connection(name_or_pid, Reach(), is_name=True)
    return name_or_pid if connection is None else str(connection.pid)


def refuse_unknown(processes: list[Attachable], names: Sequence[str]) -> None:
    """Check that each name or pid matches a core. Raises: DeskUserError, also if one matches only a tap."""
    for name_or_pid in names:
        if not any(each.is_named(name_or_pid) for each in processes if each.kind != "tap"):
            tap = find_process(processes, name_or_pid)  # raises if no core or tap has the name
            raise DeskUserError(f"{tap.title} must be shown alone.", f"mcpdesk attach {tap.pid}")


def process_table(processes: list[Attachable]) -> list[str]:
    """Return a table of cores and taps as lines. The first line has the titles of the columns."""
    rows = [("NAME", "PID", "KIND", "SINCE", "ADDRESS")]
    for each in processes:
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(each.since))
        rows.append((",".join(each.names) or "-", str(each.pid), each.kind, since, each.address or "-"))
    return list(aligned(rows))


def run_screen(core: RunningCore, theme: str | None = None) -> int:
    """Show a core until the person leaves. Return the exit code. Raises: DeskUserError."""
    from mcpdesk.link.remote import RemoteLink

    link = RemoteLink(core)
    try:
        return _show_attached(link, link.journal, lambda: link.core.title, theme)
    finally:
        link.close()


def run_named(names: Sequence[str], theme: str | None = None) -> int:
    """Show several cores of this machine on one screen. Raises: DeskUserError."""
    return _run_joint((feature.link_to_cores(names) for feature in features_with("link_to_cores")), theme)


def run_sharing(url: str, theme: str | None = None) -> int:
    """Show all cores that share an engine on one screen. Without a URL, the configured engine is used.

    Raises: DeskUserError.
    """
    return _run_joint((feature.link_to_engine(url) for feature in features_with("link_to_engine")), theme)


def _run_joint(links: Iterable[AttachedLink | None], theme: str | None) -> int:
    """Show several cores on one screen, with the first link that a feature provides. Raises: DeskUserError if
    no feature provides a link.
    """
    attached = required(links, "This program cannot show several cores on one screen.")
    try:
        return _show_attached(attached.link, attached.journal, lambda: attached.title, theme)
    finally:
        attached.close()


def _show_attached(link: Link, journal: Journal, title: Callable[[], str], theme: str | None) -> int:
    """Show one or more cores of other processes until the person leaves. `journal` contains their log."""
    from mcpdesk.cli.screen_runs import ScreenRuns, Terminal
    from mcpdesk.hosting.journal import Severity, logging_to
    from mcpdesk.tui.app import DeskApp

    state = state_folder()
    journal.notify(f"attached to {title()}: it continues when you leave", Severity.INFO)
    with logging_to(journal, lambda: ()):
        app = partial(DeskApp, link, theme, history=state / "calls.jsonl")
        terminal = Terminal(sys.stderr.fileno())
        runs = ScreenRuns(app, state, terminal, describe_core=lambda: f"{title()} continues.")
        with StopRequests(runs.stop, grace_s=CAPTURE_GRACE_S, before_exit=terminal.restore, with_parent=True):
            return runs.run()
