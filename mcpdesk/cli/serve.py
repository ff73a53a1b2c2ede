"""`mcpdesk serve FOLDER ...` runs a core without a screen. `mcpdesk stdio FOLDER` serves one client.

The plain form of `stdio` is handled in `__main__`, before click is imported.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcpdesk.cli import completion
from mcpdesk.cli.command_help import BriefCommand
from mcpdesk.cli.desk_targets import DeskTargets, desk_targets, typed_targets, untrusted_file
from mcpdesk.cli.options import CORE_OPTIONS, core_options, feature_values, given_flags, setting_options
from mcpdesk.cli.reach import WATCH, agreement, reach_options, server_folder
from mcpdesk.errors import DeskUserError
from mcpdesk.feature import ServedCore
from mcpdesk.features import NO_FEATURE, features_with
from mcpdesk.runtime.attach_point import AttachPoint
from mcpdesk.runtime.core_process import (
    SIGNALS,
    JournalPrinter,
    StopRequests,
    capture_output,
    offer_link,
    require_unix,
)
from mcpdesk.transports.clean_terminal import is_terminal
from mcpdesk.upstream.target_transport import Reach

if TYPE_CHECKING:
    from mcpdesk.auth.operator import Operator
    from mcpdesk.feature import Feature
    from mcpdesk.hosting.channel import HostedDialogue
    from mcpdesk.hosting.host import Host
    from mcpdesk.hosting.host_plan import HostPlan
    from mcpdesk.settings import Settings
    from mcpdesk.transports.http.http_service import HttpService

GRACE_S = 10.0
"""Time limit for the rest of the shutdown, after the running calls have finished or timed out."""
POLL_S = 0.1
"""Seconds between two checks for running work during the shutdown."""
_EXAMPLES = "\n".join(f"  {each.example}" for each in CORE_OPTIONS)
SERVE_EXAMPLES = f"""\b
Examples:
  mcpdesk serve ~/servers/profiles
  mcpdesk serve ~/servers/a ~/servers/b --http 127.0.0.1:4000
  mcpdesk serve ~/servers/a --socket /run/user/1000/a.sock
  mcpdesk serve ~/servers/a --mode review
  mcpdesk serve --mock capture.jsonl                  replay the answers in a capture
{_EXAMPLES}

With --socket, HTTP is served on that Unix socket instead of on a TCP port.
Logs go to stderr. After SIGTERM or Ctrl+C, running calls finish. Then the command ends with exit code 0.
"""
STDIO_EXAMPLES = """\b
Examples, in a client's configuration:
  {"command": "mcpdesk", "args": ["stdio", "/home/ada/servers/profiles"]}
  {"command": "mcpdesk", "args": ["stdio", "--", "npx", "-y", "some-server"]}

The second example is a tap. It starts the command after `--`, passes every byte between it and the
client unchanged, and records the messages in a capture. `mcpdesk open` shows the capture live.
`mcpdesk wrap CLIENT` adds taps to a client's configuration.

If a desk hosts FOLDER, or starts to host it later, the desk serves the client and shows its calls.
Otherwise this process serves the client.
Logs go to stderr.
"""


def mock_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options for replaying a capture to a command."""
    server = click.option(
        "--server",
        default="",
        metavar="NAME",
        help="With --mock: server to replay, if the capture has several.",
    )
    mock = click.option(
        "--mock",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Replay the answers in the capture FILE.",
    )
    return mock(server(command))


@click.command(
    name="serve",
    cls=BriefCommand,
    epilog=SERVE_EXAMPLES,
    short_help="Serve folders without a screen.",
    common=(
        "http", "socket", "web", "mode", "mock", *(each.name for each in CORE_OPTIONS), "allowed_hosts",
        "trust", "state_dir",
    ),
)  # fmt: skip
@click.argument("targets", nargs=-1, metavar="TARGET...", shell_complete=completion.target)
@mock_options
@WATCH
@core_options
@reach_options
@setting_options
def serve_command(
    targets: tuple[str, ...],
    mock: Path | None,
    server: str,
    watched: tuple[Path, ...],
    reach: Reach,
    **values: Any,
) -> int:
    """Serve the TARGETs over HTTP until you stop the command. If a client starts `mcpdesk stdio FOLDER` for
    one of the folders, it uses this server, too."""
    if not targets and mock is None:
        raise click.UsageError("Missing argument 'TARGET...'.")
    served_targets = desk_targets(targets, reach, agree=agreement(reach, values.get("state_dir")))
    if mock is not None:
        served_targets = _with_mock(served_targets, mock, server)
    served_targets = served_targets.watching(watched)
    feature_options = feature_values(values)
    from mcpdesk.hosting.host_plan import plan_for

    plan = plan_for(
        served_targets.folders,
        given_flags(values),
        os.environ,
        mode=reach.mode,
        withholds_invalid=True,
        upstreams=served_targets.upstreams,
        feature_options=feature_options,
    )
    return run_service(plan)


@click.command(name="stdio", epilog=STDIO_EXAMPLES, short_help="Serve one client over stdin and stdout.")
@click.argument("folder", metavar="FOLDER", default="", shell_complete=completion.folder)
@mock_options
@click.option(
    "--mode",
    default="",
    metavar="NAME",
    help="Offer only the tools of this mode of the server. Default: all tools.",
)
@click.option("--alone", is_flag=True, help="Serve FOLDER in this process, even if a desk hosts it.")
def stdio_command(folder: str, mode: str, alone: bool, mock: Path | None, server: str) -> int:
    """Serve FOLDER over stdin and stdout until the client closes its end."""
    require_unix("`mcpdesk stdio`", "pollable pipes and Unix sockets")
    if mock is not None:
        from mcpdesk.cli.mock_server import serve_mock

        return serve_mock(mock, server, sys.stdin.buffer, sys.stdout.buffer)
    if not folder:
        raise click.UsageError("Missing argument 'FOLDER'.")
    from mcpdesk.runtime import lone_core
    from mcpdesk.transports import pump

    folder_path = server_folder(folder)
    if alone:
        exit_code = lone_core.run(folder_path, mode, is_alone=True)
        return exit_code if isinstance(exit_code, int) else 0
    return pump.serve(
        str(folder_path), mode, lambda client_state: lone_core.run(folder_path, mode, client_state)
    )


def _with_mock(targets: DeskTargets, file: Path, server: str) -> DeskTargets:
    """Add a program to the targets that replays a server of a capture.

    Raises: DeskUserError if the capture has no server, or the choice is ambiguous.
    """
    from mcpdesk.cli.captures import opened
    from mcpdesk.cli.mock_server import captured_answers, mock_command
    from mcpdesk.client.configs.program_names import plain_name
    from mcpdesk.client.targets import CommandTarget
    from mcpdesk.upstream.upstream import UpstreamPlan

    with opened(file) as archive:
        captured_answers(archive.index, server)
    command = CommandTarget(mock_command(file, server))
    plan = UpstreamPlan(plain_name(server or file.stem), command, is_mock=True)
    return targets._replace(upstreams=(*targets.upstreams, plan))


def run_service(plan: HostPlan, theme: str | None = None) -> int:
    """Serve until a signal arrives, then let running calls finish. Return the exit code.

    With the setting `web`, the desk is also available to browsers, in the given theme.

    Raises: DeskError if the core cannot start.
    """
    # Garbage collection would find nothing here: imported objects and loaded folders are long-lived. The core
    # enables it when it serves.
    gc.disable()
    from mcpdesk.auth.operator import credential_file
    from mcpdesk.hosting.core_loop import core_thread
    from mcpdesk.hosting.host import Host

    host = Host(plan)
    host.read_targets, host.read_untrusted = typed_targets, untrusted_file
    offer_link(host)
    _require_free_addresses(plan)
    with ExitStack() as stack, capture_output(host, "serve"), credential_file(host.state_dir, host.operator):
        host.load()
        # The printer ends last, because tools may still print after the core has ended.
        printer = stack.enter_context(JournalPrinter(host))
        core = ServedCore(host.settings, host.operator, host.chosen_state, host.services.environment())
        page_lines = [
            line
            for feature in _page_features(host.settings)
            for line in stack.enter_context(feature.served_pages(core, theme))
        ]
        core_thread.run(_serve(host, printer, page_lines), core_thread.loop_factory(host))
    return 0


def _require_free_addresses(plan: HostPlan) -> None:
    """Check the addresses to listen on before any code of a folder runs. Raises: DeskError."""
    from mcpdesk.transports.http.http_service import require_free_port, require_free_socket

    settings = plan.settings
    if plan.serves_socket:
        assert settings.socket is not None
        require_free_socket(settings.socket)
    elif plan.http and settings.port and not plan.may_move:
        require_free_port(settings.host, settings.port)
    for feature in _page_features(settings):
        feature.require_free_address(settings)


def _page_features(settings: Settings) -> list[Feature]:
    """Return the features that serve the desk to browsers. Raises: DeskUserError if none does."""
    features = list(features_with("served_pages")) if settings.web else []
    if settings.web and not features:
        raise DeskUserError("--web: this program cannot serve the desk to browsers.", NO_FEATURE)
    return features


async def _serve(host: Host, printer: JournalPrinter, page_lines: Sequence[str] = ()) -> None:
    """Run the core until a signal arrives, then drain it. `page_lines` are messages about served pages."""
    loop = asyncio.get_running_loop()
    stop_requested = asyncio.Event()

    def stop(reason: str) -> None:
        loop.call_soon_threadsafe(stop_requested.set)

    drain_limit_s = host.settings.drain_timeout_s
    lame_duck_s = 0 if host.shared is None else host.settings.lame_duck_s
    with StopRequests(stop, grace_s=lame_duck_s + drain_limit_s + GRACE_S) as stop_requests:
        try:
            with AttachPoint(host, "serve"):
                await host.start()
                printer.follow()
                for line in [*greeting(host), *page_lines]:
                    printer.print(line)
                printer_task = asyncio.create_task(printer.keep_following())
                await stop_requested.wait()
                printer.print(f"{stop_requests.reason}: finishing running calls")
                is_interrupted = stop_requests.reason == SIGNALS["SIGINT"]  # a person is waiting for the end
                await _await_balancers(host, 0 if is_interrupted else lame_duck_s)
                if unfinished_work := await _drain(host):
                    printer.print(
                        f"ended {unfinished_work} that took longer than {drain_limit_s} s (drain_timeout_s)"
                    )
                printer_task.cancel()
        finally:
            await host.stop()


async def _await_balancers(host: Host, seconds: float) -> None:
    """Continue to serve while `/ready` reports the shutdown, until load balancers have noticed."""
    if host.shared is not None:
        host.is_draining = True
        await host.shared.announce_end()
        await asyncio.sleep(seconds)


async def _drain(host: Host) -> str:
    """Refuse new calls and wait until none is running.

    Return a description of the calls and jobs that took too long.

    Clients can still send messages in the meantime: they answer questions of running calls and query their
    jobs. Streams that never end are closed. A client whose call takes too long receives an error. If the call
    ignores its cancellation, the client is disconnected.
    """
    host.is_draining = True
    deadline = time.monotonic() + host.settings.drain_timeout_s
    if host.shared is not None:
        await _move_clients(host, deadline)
    await host.send_pumps_away()
    for hosted in host.folders.values():
        hosted.stop()
    host.services.subscriptions.close()
    running_work = _running_work_text(host)
    while running_work and time.monotonic() < deadline:
        await asyncio.sleep(POLL_S)
        running_work = _running_work_text(host)
    if host.shared is not None:
        host.shared.stop_waiting()
    await host.services.close()
    if host.http is not None:
        host.http.leave_sessions()
    for dialogue in _dialogues(host):
        if not dialogue.is_idle:
            host.disconnect(dialogue.connection)
    return running_work


async def _move_clients(host: Host, deadline: float) -> None:
    """Continue to answer until all clients have moved to other processes, or until the deadline (of
    `time.monotonic`).
    """
    if host.http is not None:
        await host.http.leave()
        host.services.subscriptions.close()
        while not host.http.is_left and time.monotonic() < deadline:  # noqa: ASYNC110 (clients leave silently)
            await asyncio.sleep(POLL_S)


def _dialogues(host: Host) -> list[HostedDialogue]:
    return [dialogue for endpoint in host.endpoints() for dialogue in endpoint.dialogues.values()]


def _running_work_text(host: Host) -> str:
    """Describe the running work: `2 calls and 1 job`, or an empty text."""
    from mcpdesk.protocol.task_shapes import TaskStatus

    calls = sum(len(dialogue.conversation.running) for dialogue in _dialogues(host))
    jobs = sum(job.status is TaskStatus.WORKING for job in host.services.jobs.snapshot())
    counts = ((calls, "call"), (jobs, "job"))
    return " and ".join(f"{number} {word}{'s' * (number > 1)}" for number, word in counts if number)


def greeting(host: Host) -> list[str]:
    """Return messages with the addresses of the servers, and the credentials that callers must send."""
    urls = {endpoint.name: host.url(endpoint.name) for endpoint in host.endpoints()}
    disabled_reasons = {endpoint.name: endpoint.server.withheld for endpoint in host.endpoints()}
    lines = [f"serving {name} at {url}" for name, url in urls.items() if not disabled_reasons[name]]
    lines += [
        f"not serving {name} until it is fixed: {reason}"
        for name, reason in disabled_reasons.items()
        if reason
    ]
    lines += [f"passing {name} through at {host.url(name)}" for name in host.pass_throughs]
    unserved_names = [name for name in host.upstreams if name not in host.pass_throughs]
    lines += [f"{name} is not served to clients; `mcpdesk attach` shows it" for name in unserved_names]
    urls_of_servers = [*urls.values(), *map(host.url, host.pass_throughs)]
    address = next(iter(urls_of_servers), "").partition("/mcp/")[0]
    if address.startswith("http") and host.http is not None and host.http.has_sign_in:
        lines += [f"a browser shows it at {address}/", *_sign_in_lines(host, host.http)]
    lines += host.http.greetings if host.http is not None else []
    if host.shared is not None:
        lines.append(host.shared.greeting)
    if host.protection == "key":
        lines.append(f"callers send the key as {host.rules.api_key_header}; {_key_location(host)}")
    elif host.is_exposed:
        warning = f"ANY CLIENT that reaches {host.settings.host} from another machine can call the tools"
        lines.append(f"{warning}: set MCPDESK_API_KEY to ask for a key, or omit --host")
    elif host.protection == "open":
        lines.append("ANY CLIENT that reaches the port can run programs: --no-auth was given")
    token_servers = [each.name for each in host.endpoints() if each.server.access.requires_token]
    if token_servers:
        lines.append(f"callers of {', '.join(token_servers)} send a token, as Authorization: Bearer")
    return lines


def _sign_in_lines(host: Host, http: HttpService) -> list[str]:
    """Return messages that explain how the operator signs in to the dashboard."""
    lines = [f"sign in there with {operator_key(host.operator)}, to see the traffic and to answer questions"]
    if is_terminal():
        lines.append(f"this link signs in once, within 10 minutes: {http.sign_in_link()}")
    return lines


def operator_key(operator: Operator) -> str:
    """Describe the operator's key for a message. A random key is shown only on a terminal, because other
    people may read a log.
    """
    if operator.is_configured:
        return "the configured operator key"
    credential_text = f" {operator.credential}" if is_terminal() else ""
    return f"the operator's key{credential_text}" + (
        f" in {operator.file}" if operator.file is not None else ""
    )


def _key_location(host: Host) -> str:
    """Describe the location of the API key that callers must send."""
    from mcpdesk.auth import api_key

    if host.settings.api_key:
        return "it is the configured key"
    key_path = host.settings.state_dir / api_key.FILE_NAME
    if key_path.exists():
        return f"it is in {key_path}"
    return "but it is not stored: set MCPDESK_API_KEY, or MCPDESK_STATE_DIR to a writable folder"
