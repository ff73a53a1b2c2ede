"""Check-up of all servers in client configurations. Nothing of a file is started or expanded before a person
has trusted its content.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from mcpdesk.cli.discovered_servers import server_facts
from mcpdesk.client.configs.own_program import own_arguments
from mcpdesk.client.configs.program_names import plain_name, shell_word
from mcpdesk.client.configs.servers import InputVariable
from mcpdesk.client.discovery import FoundServer, FoundServers
from mcpdesk.client.oauth.stored_grants import open_grants
from mcpdesk.client.targets import BrokenTarget, CommandTarget, RemoteTarget, UrlTarget, configured_targets
from mcpdesk.client.trust import Agree, TrustRefused, UntrustedFileError
from mcpdesk.errors import DeskUserError
from mcpdesk.features import features_with
from mcpdesk.features.doctor.comparison import ComparedEntry, duplicates
from mcpdesk.features.doctor.entry_secrets import Secrets, reach_secrets, secrets_of, unsafe_settings
from mcpdesk.features.doctor.examination import NO_OPTIONS, Examination, examine, with_handshake
from mcpdesk.features.doctor.report import (
    VERSION,
    BrokenFile,
    CheckState,
    ClientBudget,
    LockChange,
    LockCheck,
    Login,
    LoginState,
    Report,
    ServerReport,
    Totals,
)
from mcpdesk.hosting.folder.manifest import LOCK_NAME
from mcpdesk.protocol.catalogue.contract import Definitions, contract_changes
from mcpdesk.recorder.masking import mask_text
from mcpdesk.upstream.target_transport import Reach

MAX_AT_ONCE = 8
"""Maximum number of servers that are examined at the same time."""
MAX_PROGRAMS_PER_CORE = 2
"""Maximum number of programs that start at the same time for each processor core. With more, programs would
exceed their time limits only because of each other.
"""
TIMEOUT_S = 8.0
"""Default time limit for one server, in seconds."""
MAX_CHANGES = 50
"""Maximum number of differences to a lock that are reported for one server."""
_STDIO_OPTIONS = frozenset({"--mock", "--server", "--mode"})
"""Options of `mcpdesk stdio` whose value is the next word."""
_LOG = logging.getLogger(__name__)


class CheckupPlan(Struct, frozen=True):
    """Settings of a check-up."""

    state_dir: Path
    agree: Agree
    """Function that is called with each file before its content is used. It raises DeskUserError unless the
    file is trusted.
    """
    ask: Callable[[InputVariable], str]
    """Function that returns the value of an input. It raises DeskUserError if it has none."""
    timeout_s: float = TIMEOUT_S
    lock_folder: Path | None = None
    """Folder with lock files. None for the current folder and the folder of the configuration file."""
    max_tokens: int | None = None
    on_examined: Callable[[int, int], None] = lambda examined_count, total_count: None
    """Function that is called with the numbers of examined servers and of all servers to examine."""
    on_begin: Callable[[Callable[[], object]], None] = lambda stop: None
    """Function that is called at the start with a function `stop`.

    Any thread may call `stop` to end the check-up early. `check_up` then raises CancelledError.
    """
    connections: Mapping[str, tuple[UrlTarget | CommandTarget, Reach]] = {}
    """Servers of open connections by the name of the connection, each with the options to connect to it."""


class _Subject(Struct, frozen=True):
    """Server with its secrets, and with its target or the reason why the target is unknown."""

    server: FoundServer
    secrets: Secrets
    target: RemoteTarget | None = None
    """Target with expanded variables, or None if the server is disabled or there is a `refusal`."""
    refusal: DeskUserError | None = None
    """Error that says why the file is not trusted or can no longer be read."""
    reach: Reach = NO_OPTIONS


def check_up(discovery: FoundServers, plan: CheckupPlan) -> Report:
    """Examine all servers that are trusted, and compare the entries of all servers. Blocks."""
    began = time.monotonic()
    subjects = _prepared(discovery.servers, plan)
    examinations = asyncio.run(_examinations(subjects, plan))
    servers = [_safe_report(subject, examinations.get(subject.server.target), plan) for subject in subjects]
    return _summary(discovery, subjects, servers, plan, time.monotonic() - began)


def _prepared(servers: Sequence[FoundServer], plan: CheckupPlan) -> list[_Subject]:
    """Ask for trust once for each file, and expand the entries of trusted files."""
    targets = dict[Path, dict[str, RemoteTarget] | DeskUserError]()
    secret_inputs = list[str]()

    def ask(variable: InputVariable) -> str:
        value = plan.ask(variable)
        if variable.is_secret:
            secret_inputs.append(value)
        return value

    file_servers = [each for each in servers if not each.server.is_disabled and not each.connection]
    for path in dict.fromkeys(each.path for each in file_servers):
        names = {each.server.name for each in file_servers if each.path == path}
        try:
            targets[path] = dict(configured_targets(path, os.environ, ask, plan.agree, names))
        except DeskUserError as error:
            targets[path] = error
    subjects = list[_Subject]()
    for server in servers:
        entry = server.server
        if entry.is_disabled:
            subjects.append(_Subject(server, secrets_of(entry)))
            continue
        if server.connection:
            connection_target, reach = plan.connections[server.connection]
            secrets = secrets_of(entry, connection_target, inputs=reach_secrets(reach))
            subjects.append(_Subject(server, secrets, connection_target, reach=reach))
            continue
        file_targets = targets[server.path]
        if isinstance(file_targets, DeskUserError):
            subjects.append(_Subject(server, secrets_of(entry), refusal=file_targets))
            continue
        target = file_targets.get(entry.name, BrokenTarget("the entry was removed from the file"))
        subjects.append(_Subject(server, secrets_of(entry, target, os.environ, secret_inputs), target))
    return subjects


async def _examinations(subjects: Sequence[_Subject], plan: CheckupPlan) -> dict[str, Examination]:
    """Examine the servers that can be started, at most `MAX_AT_ONCE` at the same time. Return the results by
    the target of the server.

    A server that does not answer occupies a slot until its time limit. All servers are connected before the
    first one is connected again for the other era, so that this wait is not at the end of the check-up.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    cancel = task.cancel

    def stop() -> None:
        with suppress(RuntimeError):  # the check-up has ended, and its loop is closed
            loop.call_soon_threadsafe(cancel)

    plan.on_begin(stop)
    all_slots = asyncio.Semaphore(MAX_AT_ONCE)
    program_slots = asyncio.Semaphore(min(MAX_AT_ONCE, MAX_PROGRAMS_PER_CORE * (os.cpu_count() or 1)))
    examined = {
        each.server.target: (each, each.target)
        for each in subjects
        if isinstance(each.target, UrlTarget | CommandTarget)
    }
    results = dict[str, Examination]()

    async def run(subject: _Subject, target: UrlTarget | CommandTarget) -> None:
        program_slot = program_slots if isinstance(target, CommandTarget) else nullcontext()
        name, secrets = subject.server.target, subject.secrets
        try:
            async with program_slot, all_slots:
                result = await examine(target, shell_word(name), secrets, plan.timeout_s, subject.reach)
            if result.era == "stateless":  # waits for a slot again, after the first connection to all servers
                async with program_slot, all_slots:
                    result = await with_handshake(result, target, secrets, plan.timeout_s, subject.reach)
        except Exception:  # a server must not end the check-up of the others
            _LOG.exception("a server could not be examined")
            result = Examination("mcpdesk has a bug that this server triggers")
        results[name] = result
        plan.on_examined(len(results), len(examined))

    async with asyncio.TaskGroup() as group:
        for subject, target in examined.values():
            group.create_task(run(subject, target))
    return results


def _safe_report(subject: _Subject, examination: Examination | None, plan: CheckupPlan) -> ServerReport:
    """Return the report of a server. An unexpected error becomes its result and ends no other report."""
    try:
        return _report(subject, examination, plan)
    except Exception:
        _LOG.exception("the result of a server could not be reported")
        facts = server_facts(subject.server, is_trusted=subject.refusal is None)
        del facts["problem"], facts["remarks"]
        facts["address"] = subject.secrets.masked(facts["address"])
        reason = "mcpdesk has a bug that this server triggers"
        return ServerReport(
            **facts, state=CheckState.FAILED, shadowed=subject.server.is_shadowed, reason=reason
        )


def _report(subject: _Subject, examination: Examination | None, plan: CheckupPlan) -> ServerReport:
    """Return the report of a server. `examination` is None if the server was not started."""
    server, target, secrets = subject.server, subject.target, subject.secrets
    facts = server_facts(server, is_trusted=subject.refusal is None)
    problem = str(facts.pop("problem"))
    remarks = [secrets.masked(each) for each in facts.pop("remarks")]
    facts["address"] = secrets.masked(facts["address"])
    report = ServerReport(
        **facts,
        state=CheckState.OK,
        shadowed=server.is_shadowed,
        unsafe=list(unsafe_settings(server.server, target)),
        remarks=remarks,
    )
    if server.server.is_disabled:
        return replace(report, state=CheckState.DISABLED)
    if subject.refusal is not None:
        reason = secrets.masked(str(subject.refusal))
        if not isinstance(subject.refusal, UntrustedFileError | TrustRefused):
            hint = secrets.masked(subject.refusal.hint)
            return replace(report, state=CheckState.UNUSABLE, reason=reason, hint=hint)
        if isinstance(subject.refusal, UntrustedFileError):
            reason = ""
        hint = f"mcpdesk trust {shlex.quote(str(server.path))}"
        return replace(report, state=CheckState.NOT_TRUSTED, reason=reason, hint=hint)
    if problem or isinstance(target, BrokenTarget):
        reason = secrets.masked(problem or getattr(target, "problem", ""))
        state = CheckState.ONLY_IN_CLIENT if server.server.is_only_in_client else CheckState.UNUSABLE
        return replace(report, state=state, reason=reason)
    assert examination is not None and target is not None
    return replace(
        report,
        state=CheckState.FAILED if examination.reason else CheckState.OK,
        reason=examination.reason,
        hint=examination.hint,
        stderr=list(examination.stderr),
        start_s=examination.start_s,
        server=examination.server,
        server_version=examination.server_version,
        era=examination.era,
        revision=examination.revision,
        other_era=examination.other_era,
        tools=examination.tools,
        total=examination.total,
        login=_login(target, plan.state_dir),
        lock=None if examination.reason else _lock(server, target, plan, examination.definitions),
        remarks=[*remarks, *examination.remarks],
    )


def _login(target: RemoteTarget, state_dir: Path) -> Login | None:
    """Return the login to a URL, or None for a program."""
    if not isinstance(target, UrlTarget):
        return None
    if any(name.lower() == "authorization" for name in target.headers):
        return Login(LoginState.HEADER)
    grant = open_grants(state_dir, target.account).grant(target.url)
    if grant is None:
        return Login(LoginState.NONE)
    state = LoginState.VALID
    if grant.has_expired(time.time()):
        state = LoginState.RENEWABLE if grant.refresh_token else LoginState.EXPIRED
    return Login(state, grant.expires, list(grant.scopes))


def _lock(
    server: FoundServer, target: RemoteTarget, plan: CheckupPlan, definitions: Definitions
) -> LockCheck | None:
    """Compare the definitions of a server with its lock file. Return None if it has no lock file."""
    file = next((each for each in _lock_files(server, target, plan) if _is_file(each)), None)
    if file is None:
        return None
    readings = (each.agreed_definitions(file) for each in features_with("agreed_definitions"))
    agreed_definitions = next((each for each in readings if each is not None), None)
    if agreed_definitions is None:
        return LockCheck(str(file), "unreadable")
    changes = contract_changes(agreed_definitions, definitions)
    return LockCheck(
        str(file),
        changes[0].verdict.value if changes else "same",
        [
            LockChange(each.verdict.value, f"{each.kind} {each.name}", mask_text(each.description))
            for each in changes[:MAX_CHANGES]
        ],
    )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # for example because the name is too long
        return False


def _lock_files(server: FoundServer, target: RemoteTarget, plan: CheckupPlan) -> list[Path]:
    """Return the files that may be the lock of a server: in the folder that it serves, or named after it."""
    name = f"{plain_name(server.server.name)}.lock.json"
    folders = [plan.lock_folder] if plan.lock_folder is not None else [Path.cwd()]
    if plan.lock_folder is None and not server.connection:
        folders.append(server.path.parent)
    return [*_served_locks(target), *(folder / name for folder in folders)]


def _served_locks(target: RemoteTarget) -> list[Path]:
    """Return the lock file of the folder if an entry has the form `mcpdesk stdio FOLDER`. Else return []."""
    if not isinstance(target, CommandTarget):
        return []
    argv = target.argv
    own = own_arguments(argv[0], list(argv[1:])) if argv else None
    arguments = () if own is None else argv[1 + len(own) :]
    if arguments[:1] != ("stdio",) or "--" in arguments:
        return []
    words = list(arguments[1:])
    while words and words[0].startswith("-"):
        del words[: 2 if words[0] in _STDIO_OPTIONS else 1]
    if not words:
        return []
    try:
        folder = Path(words[0]).expanduser()
    except RuntimeError:  # the user in ~USER does not exist
        return []
    return [(target.folder or Path()) / folder / LOCK_NAME]


def _summary(
    discovery: FoundServers,
    subjects: Sequence[_Subject],
    servers: list[ServerReport],
    plan: CheckupPlan,
    seconds: float,
) -> Report:
    """Return the report of a check-up that took `seconds`. `servers` has the report of each subject."""
    broken_files = [
        BrokenFile(each.client, str(each.path), mask_text(each.reason)) for each in discovery.problems
    ]
    entries = [
        ComparedEntry(
            subject.server.target,
            "" if subject.server.connection else str(subject.server.path),
            subject.server.server,
            subject.secrets,
            server.server_version,
        )
        for subject, server in zip(subjects, servers, strict=True)
    ]
    clients = dict.fromkeys(each.client or each.file for each in servers)
    budgets = [_budget(client, servers) for client in clients if client]
    named_totals = [(each.client, each.tools) for each in budgets]
    named_totals += [
        (report.target, report.tools)
        for subject, report in zip(subjects, servers, strict=True)
        if subject.server.connection and report.tools is not None
    ]
    over_budget = list[str]()
    if plan.max_tokens is not None:
        over_budget = [name for name, tools in named_totals if tools.tokens > plan.max_tokens]
    is_ok = not (broken_files or over_budget or any(each.has_fault for each in servers))
    return Report(
        VERSION,
        is_ok,
        servers,
        broken_files,
        duplicates(entries),
        budgets,
        over_budget,
        round(seconds, 3),
        discovery.is_cut,
    )


def _budget(client: str, servers: Sequence[ServerReport]) -> ClientBudget:
    """Return the size of the tools of all servers that a client uses."""
    used = [each for each in servers if (each.client or each.file) == client and not each.shadowed]
    total = Totals()
    for server in used:
        if server.tools is not None:
            total = total.plus(server.tools)
    return ClientBudget(client, len(used), total, sum(server.tools is None for server in used))
