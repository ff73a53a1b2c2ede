"""The command `doctor`."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import click
import msgspec

from mcpdesk.cli import completion
from mcpdesk.cli.printing import OK, TOOL_ERROR, USAGE, print_json, print_message, print_text
from mcpdesk.cli.reach import (
    account_name,
    agreement,
    ask_input,
    folder_program,
    given_login,
    login_flags,
    named_connection,
)
from mcpdesk.client.targets import CommandTarget, FolderTarget, UrlTarget
from mcpdesk.features.doctor.checkup import TIMEOUT_S, CheckupPlan, check_up
from mcpdesk.features.doctor.report import CheckState, Report
from mcpdesk.features.doctor.report_text import report_lines
from mcpdesk.features.doctor.selection import no_input, only_trusted, with_connections
from mcpdesk.transports.clean_terminal import is_terminal
from mcpdesk.upstream.target_transport import Reach, login_options

DOCTOR_EXAMPLES = """\b
Examples:
  mcpdesk doctor                               all servers of all clients
  mcpdesk doctor cursor: claude-code:github
  mcpdesk doctor .mcp.json --json
  mcpdesk doctor --trust --max-tokens 20000 --timeout 60
  mcpdesk doctor --login cursor:github         each step of the login at one server
  mcpdesk doctor --login https://example.com/mcp --browser

Exit codes: 0 no errors, 1 a server failed or has an unsafe setting, a file is broken, or the login does
not work, 2 invalid command, or the file of a TARGET is not trusted.
"""


@click.command(
    name="doctor", epilog=DOCTOR_EXAMPLES, short_help="Check the servers of all clients on this machine."
)
@click.argument("targets", nargs=-1, metavar="[TARGET]...", shell_complete=completion.target)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0.1, 600),
    default=TIMEOUT_S,
    show_default=True,
    metavar="SECONDS",
    help="Time limit for each server. A first `npx` or `uvx` may need more.",
)
@click.option(
    "--locks",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Folder with lock files NAME.lock.json. Default: this folder, and that of the configuration file.",
)
@click.option(
    "--max-tokens",
    type=click.IntRange(1),
    metavar="N",
    help="Fail if the tool definitions of one client, or of one open connection, have more than N tokens. "
    "Default: no limit.",
)
@click.option(
    "--trust", is_flag=True, help="Start the servers of all files without asking whether you trust them."
)
@click.option(
    "--login",
    "login_target",
    metavar="TARGET",
    shell_complete=completion.target,
    help="Check only the login at this server, step by step. TARGET is a URL or a server such as "
    "cursor:github.",
)
@click.option("--account", default="", metavar="NAME", help="With --login: name of the login.")
@click.option("--renew", is_flag=True, help="With --login: renew the token, even if it is valid.")
@click.option("--browser", is_flag=True, help="With --login: log in with a browser, if a person is needed.")
@login_flags(is_hidden=True)
def doctor_command(
    targets: tuple[str, ...],
    as_json: bool,
    timeout_s: float,
    locks: Path | None,
    max_tokens: int | None,
    trust: bool,
    login_target: str | None,
    account: str,
    renew: bool,
    browser: bool,
    **flags: Any,
) -> int:
    """Check the servers in the configuration files of all known clients on this machine: start each, at most
    eight at once, and print how long it takes to start, its protocol revision, the size of its definitions,
    its login, and the differences to its lock file.

    The report also names unsafe settings, servers that several clients have, and their different versions,
    arguments and variables. Each failure has the last lines of stderr and advice.

    A TARGET limits the check: a client such as `cursor:`, a server such as `cursor:github`, a configuration
    file, alone or as FILE:NAME, or the name of a connection of `mcpdesk up`. The check of a connection starts
    or connects to its server a second time.

    Servers of a file that you have not trusted are listed, but not started. If you name a TARGET in a
    terminal, the command asks whether you trust its file.

    With --login, the command checks only the login at one server: discovery, registration, authorization,
    token and refresh, each with the rules that it follows or breaks. It opens no browser unless you use
    --browser, and registers no client without a login.
    """
    if login_target is not None:
        if targets or locks or max_tokens is not None:
            raise click.UsageError("--login cannot be combined with other targets, --locks or --max-tokens.")
        reach = Reach(account=account_name(account), login=given_login(flags), trusts_files=trust)
        return _check_login(
            login_target, reach, timeout_s, renews=renew, opens_browser=browser, as_json=as_json
        )
    if account or renew or browser or any(flags.values()):
        raise click.UsageError("--account, --renew, --browser and login options need --login.")
    from mcpdesk.settings import resolve

    settings = resolve({}, os.environ).settings
    opened = {each: _open_connection(each) for each in targets}
    connections = {name: opened_server for name, opened_server in opened.items() if opened_server is not None}
    discovery = with_connections([each for each in targets if each not in connections], connections)
    reach = Reach(trusts_files=trust)
    plan = CheckupPlan(
        settings.state_dir,
        agreement(reach) if targets else only_trusted(settings, trusts_all=trust),
        ask_input if targets else no_input,
        timeout_s,
        locks,
        max_tokens,
        connections=connections,
    )
    if is_terminal() and discovery.servers:
        print_message(f"Checking {len(discovery.servers)} servers, at most {timeout_s:g} s each ...")
    report = check_up(discovery, plan)
    code = OK if report.ok else TOOL_ERROR
    if report.ok and targets and _is_refused(report):
        code, report = USAGE, msgspec.structs.replace(report, ok=False)
    if as_json:
        print_json(msgspec.to_builtins(report))
    else:
        print_text("\n".join(report_lines(report)))
    return code


def _open_connection(name: str) -> tuple[UrlTarget | CommandTarget, Reach] | None:
    """Return the server of the open connection with this name, and the options for a second connection to it.

    None if no connection has this name.
    """
    connection = named_connection(name, Reach())
    if connection is None:
        return None
    target, reach = connection.opened()
    if isinstance(target, FolderTarget):
        return folder_program(target.path, name, reach.mode), Reach()
    return target, reach


def _check_login(
    target: str, reach: Reach, timeout_s: float, *, renews: bool, opens_browser: bool, as_json: bool
) -> int:
    """Check the login at one server. Return the exit code."""
    from mcpdesk.cli.login import server_at, show_address, token_store
    from mcpdesk.features.doctor.login_check import LoginPlan, check_login
    from mcpdesk.features.doctor.login_text import login_lines

    server = server_at(target, reach)
    account = reach.account or server.account
    show = show_address if opens_browser else None
    options, store = login_options(server, reach), token_store(account)
    plan = LoginPlan(
        target,
        server.url,
        options,
        store,
        renews,
        show,
        request_timeout_s=timeout_s,
        account=account,
    )
    report = asyncio.run(check_login(plan))
    if as_json:
        print_json(msgspec.to_builtins(report))
    else:
        print_text("\n".join(login_lines(report)))
    return OK if report.ok else TOOL_ERROR


def _is_refused(report: Report) -> bool:
    """Return True if a server was not started because its file is not trusted."""
    return any(each.state is CheckState.NOT_TRUSTED for each in report.servers)
