"""`mcpdesk check`: errors in a server's items, their cost, problems with clients, and the contract."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from mcpdesk.cli import completion
from mcpdesk.cli.printing import (
    OK,
    TOOL_ERROR,
    aligned,
    print_json,
    print_message,
    print_text,
    write_report,
)
from mcpdesk.cli.reach import reach_options, server_folder
from mcpdesk.cli.requests import TIMEOUT
from mcpdesk.errors import DeskUserError
from mcpdesk.features.contract.lock import compare_with_lock, contract_of, lock_file_path
from mcpdesk.features.contract.reports import Remark, junit_of, sarif_of
from mcpdesk.hosting.folder.manifest import LOCK_NAME
from mcpdesk.protocol.catalogue.token_cost import Cost, definition_cost
from mcpdesk.runtime.core_process import IS_UNIX, loaded_host
from mcpdesk.upstream.target_transport import Reach

if TYPE_CHECKING:
    from mcpdesk.hosting.folder.findings import Finding
    from mcpdesk.link.values import CatalogueItem

CHECK_EXAMPLES = """\b
Examples:
  mcpdesk check sample_servers/hello
  mcpdesk check ~/servers/profiles --strict --json
  mcpdesk check sample_servers/hello --update
  mcpdesk check sample_servers/hello --lock --max-tokens 2000 --junit report.xml
  mcpdesk check https://example.com/mcp --lock example.lock.json
  mcpdesk check ~/servers/profiles --client cursor --client claude-code
  mcpdesk check https://example.com/mcp --eras
  mcpdesk check -- npx -y @modelcontextprotocol/server-everything

Exit codes: 0 no errors, 1 errors, 2 the folder cannot be read or has no lock,
3 cannot connect, 4 protocol error, 5 timed out.
"""
_REPORT_FILE = click.Path(dir_okay=False, writable=True, path_type=Path)


class CheckCommand(click.Command):
    """Command whose option `--lock` may be given without a value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. A `--lock` without the name of a lock file gets an empty value."""
        return super().parse_args(ctx, with_lock_values(args))


def with_lock_values(arguments: list[str]) -> list[str]:
    """Return the arguments. Replace each `--lock` without the name of a lock file by `--lock=`."""
    rewritten: list[str] = []
    for word, next_word in zip(arguments, [*arguments[1:], ""], strict=True):
        rewritten += [f"{word}="] if word == "--lock" and not next_word.endswith(".lock.json") else [word]
    return rewritten


@click.command(name="check", cls=CheckCommand, epilog=CHECK_EXAMPLES, short_help="Find errors in a server.")
@click.argument("target", shell_complete=completion.target)
@click.option(
    "--strict",
    is_flag=True,
    help="Treat warnings as errors, such as a parameter without a description.",
)
@click.option(
    "--lock", metavar="[FILE]", help=f"Compare with the lock file FILE. Default: {LOCK_NAME} in the folder."
)
@click.option("--lock-file", metavar="FILE", hidden=True, help="The lock file.")
@click.option(
    "--update", is_flag=True, help="Write the lock file, and print the differences from the old one."
)
@click.option(
    "--max-tokens",
    type=click.IntRange(1),
    metavar="N",
    help="Fail if all tool definitions together have more than N tokens. Default: no limit.",
)
@click.option(
    "--clients", "all_clients", is_flag=True, help="Report items that exceed the limits of known AI clients."
)
@click.option(
    "--client",
    "clients",
    multiple=True,
    metavar="NAME",
    help="Like --clients, for one client only. You can repeat this option.",
)
@click.option("--eras", is_flag=True, help="Connect once in each protocol revision, and print what differs.")
@click.option("--junit", type=_REPORT_FILE, metavar="FILE", help="Write a JUnit report to FILE.")
@click.option("--sarif", type=_REPORT_FILE, metavar="FILE", help="Write a SARIF report to FILE.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@TIMEOUT
@reach_options
def check_command(
    target: str,
    strict: bool,
    lock: str | None,
    lock_file: str | None,
    update: bool,
    max_tokens: int | None,
    all_clients: bool,
    clients: tuple[str, ...],
    eras: bool,
    junit: Path | None,
    sarif: Path | None,
    as_json: bool,
    timeout_s: float,
    reach: Reach,
) -> int:
    """Find errors in the tools, resources and prompts of the server TARGET, and texts that can mislead a
    model or a client.

    A folder is loaded in this process. Each of its errors has a file and a line. On any other server, the
    command reads the lists of items and reports malformed ones.

    The report then lists every item with its file and line, and the size of its definition in tokens. A model
    reads these definitions in each conversation. The last lines are the totals for all tools, for all items,
    and for the tools of each mode.

    With --clients, the report lists known limits of AI clients, each with its source and date. Sources older
    than 90 days are marked, because clients change. A warning means that something does not work in the
    client. A note means that it works with a limitation; for example, the client asks before every call.

    With --eras, the command only connects once in each protocol revision. It prints the revision that the
    server answers with, and the items, members and capabilities that differ from the newest revision.

    With --lock, the report compares the server with its lock file. Each difference is `breaking`,
    `compatible` or `wording`. A breaking difference is an error. Only --update writes the lock file.

    The lock file of a folder is in the folder. For any other server, name the file with `--lock FILE`. If the
    name does not end with .lock.json, write `--lock=FILE`. Otherwise the command reads the word after
    `--lock` as the TARGET.
    """
    if eras:
        from mcpdesk.features.contract.revisions_table import print_eras

        if lock is not None or update or clients or all_clients or junit or sarif or max_tokens or strict:
            raise click.UsageError("--eras can be combined only with --json and options for the target.")
        return print_eras(target, reach, timeout_s, as_json)
    is_folder = Path(target).expanduser().is_dir()
    if is_folder and (reach.mode or reach.token or reach.is_remote):
        raise DeskUserError(
            "--mode, --token-env and flags of remote servers cannot be used with a folder.", "Omit them."
        )
    lock_path = lock_file_path(target, is_folder, lock_file or lock, update, reach.packages)
    report = _check_folder(target) if is_folder else _check_lists(target, reach, timeout_s)
    remarks = [_remark(each, strict) for each in report.findings]
    changes = list[Remark]()
    if lock_path is not None:
        contract = contract_of(report.server, report.items)
        changes = compare_with_lock(lock_path, contract, has_errors=any(each.is_error for each in remarks))
    if max_tokens is not None:
        remarks += _over_budget(report.tools, max_tokens)
    client_remarks = list[Remark]()
    is_for_clients = all_clients or bool(clients)
    if is_for_clients:
        client_remarks = _client_remarks(report, () if all_clients else clients, strict)
    all_remarks = [*remarks, *client_remarks, *changes]
    if junit is not None:
        write_report(junit, junit_of(all_remarks, report.items))
    if sarif is not None:
        write_report(
            sarif, sarif_of(all_remarks, target, None if lock_path is None else lock_path.file, sarif)
        )
    if as_json:
        facts = {"findings": [each.facts("level") for each in remarks]}
        if is_for_clients:
            facts["clients"] = [{**each.facts("level"), **each.origin} for each in client_remarks]
        if lock_path is not None:
            facts["contract"] = [each.facts("verdict") for each in changes]
        print_json({**facts, **_facts(report)})
    else:
        parts = [list(map(str, [*remarks, *changes])), list(_client_lines(client_remarks))]
        lines = [line for part in parts if part for line in (*part, "")]
        print_text("\n".join([*lines, *aligned(list(_rows(report)))]))
    return TOOL_ERROR if any(each.is_error for each in all_remarks) else OK


def _remark(finding: Finding, strict: bool) -> Remark:
    """Convert a finding to a remark. With `strict`, a warning counts as an error."""
    error_levels = ("error", "warning") if strict else ("error",)
    level = str(finding.level)
    return Remark(level, finding.message, finding.location, finding.subject, level in error_levels)


def _client_remarks(report: _Report, names: Sequence[str], strict: bool) -> list[Remark]:
    """Return remarks about the limits of known clients. Raises: DeskUserError for an unknown client."""
    from mcpdesk.features.contract.known_clients import OfferedItem, Offering, claims, client_findings

    clients_by_key = {claim.client.lower().replace(" ", "-"): claim.client for claim in claims()}
    keys = [name.lower().replace(" ", "-") for name in names]
    if unknown := [name for name, key in zip(names, keys, strict=True) if key not in clients_by_key]:
        raise DeskUserError(f"Unknown client {unknown[0]!r}.", f"Known: {', '.join(clients_by_key)}.")
    items = tuple(
        OfferedItem(each.kind.value, each.name, each.definition, each.source) for each in report.items
    )
    offering = Offering(report.server, report.instructions, items, report.used_features)
    today = date.today()
    return [
        _remark(each.finding(), strict)._replace(
            rule=each.claim.id,
            origin={
                "client": each.claim.client,
                "version": each.claim.version,
                "fact": each.fact.text,
                "effect": each.effect,
                "source": each.claim.source,
                "date": each.claim.date,
                "limit": each.claim.limit,
                "stale": each.claim.is_stale(today),
            },
        )
        for each in client_findings(offering, [clients_by_key[key] for key in keys])
    ]


def _client_lines(remarks: Sequence[Remark]) -> Iterator[str]:
    """Yield a line for each finding, then the numbered sources. Clients with the same effect share a line."""
    from mcpdesk.features.contract.known_clients import STALE_DAYS

    sources = dict[str, int]()
    groups = dict[tuple[str, str], list[str]]()
    for remark in remarks:
        age = f" (older than {STALE_DAYS} days)" if remark.origin["stale"] else ""
        source = f"{remark.origin['date']} {remark.origin['source']}{age}"
        number = sources.setdefault(source, len(sources) + 1)
        fact_text = str(remark._replace(message=remark.origin["fact"]))
        effect = f"{remark.origin['effect']} [{number}]"
        groups.setdefault((fact_text, effect), []).append(remark.origin["client"])
    for (fact_text, effect), clients in groups.items():
        yield f"{fact_text}; {', '.join(clients)}: {effect}"
    if sources:
        yield ""
    for source, number in sources.items():
        yield f"[{number}] {source}"


def _over_budget(tools: Sequence[CatalogueItem], max_tokens: int) -> Iterator[Remark]:
    """Yield an error if the definitions of the tools have more than `max_tokens` tokens."""
    tokens = total_cost(tools).tokens
    if tokens > max_tokens:
        message = f"the definitions cost about {tokens:,} tokens, at most {max_tokens:,} are allowed"
        yield Remark("error", message, "", "all tools", True)


class _Report(NamedTuple):
    """Items of a server, and the findings about them."""

    findings: list[Finding]
    items: list[CatalogueItem]
    tools: list[CatalogueItem]
    modes: dict[str, list[CatalogueItem]]
    """Tools of each mode."""
    server: str
    instructions: str
    used_features: Mapping[str, str]
    """Client features that a folder's files use, each with the file and line of its first use."""


def _check_lists(target: str, reach: Reach, timeout_s: float) -> _Report:
    """Check the lists of items that a server sends. Raises: DeskError if it cannot be reached."""
    from mcpdesk.cli.command_client import client
    from mcpdesk.features.contract.lint import lint_offers
    from mcpdesk.link.values import CatalogueItem, ItemKind

    with client(target, reach, connect_s=timeout_s, has_fixed_capabilities=True) as server:
        agreement, offers, problems = server.offers(timeout_s)
    name = str(agreement.server.get("name", ""))
    findings = lint_offers(name, agreement.instructions, offers, problems)
    items = [
        CatalogueItem(ItemKind(each.kind), each.name, each.title, definition=each.definition)
        for each in offers
    ]
    tools = [item for item in items if item.kind == "tool"]
    return _Report(findings, items, tools, {}, name, agreement.instructions, {})


def _check_folder(folder: str) -> _Report:
    """Check a server folder. Raises: DeskError if it cannot be hosted."""
    from mcpdesk.features.contract.known_clients import client_features
    from mcpdesk.features.contract.lint import lint
    from mcpdesk.hosting.folder.manifest import read_manifest
    from mcpdesk.link.local.local_catalogue import ServerCatalogue

    folder_path = server_folder(folder)
    if IS_UNIX:
        _print_running_cores(folder_path)
    with loaded_host(folder_path) as host:
        server = host.endpoints()[0].server
        manifest = read_manifest(folder_path)
        findings = lint(server, manifest, host.folders[server.name].warnings, os.environ)
        items = [item for item in ServerCatalogue(server).catalogue().items if item.definition]
    tools = [item for item in items if item.kind == "tool"]
    modes = {
        name: [tool for tool in tools if tool.name in mode.tools] for name, mode in manifest.modes.items()
    }
    used_features = client_features(folder_path)
    return _Report(findings, items, tools, modes, server.name, server.instructions, used_features)


def _print_running_cores(folder: Path) -> None:
    """Print on stderr which processes host the folder now."""
    from mcpdesk.settings import resolve
    from mcpdesk.transports import rendezvous

    state = str(resolve({}, os.environ).settings.state_dir)
    with suppress(OSError):
        if pids := sorted(rendezvous.state_points(folder, state)):
            hosts = f"{'process' if len(pids) == 1 else 'processes'} {', '.join(map(str, pids))}"
            verb = "hosts" if len(pids) == 1 else "host"
            print_message(f"mcpdesk: {hosts} {verb} the folder now; this check loads its files separately.")


def _facts(report: _Report) -> Mapping[str, Any]:
    return {
        "items": [
            {"kind": each.kind, "name": each.name, "source": each.source, **cost(each)._asdict()}
            for each in report.items
        ],
        "tools": _totals(report.tools),
        "total": _totals(report.items),
        "modes": {name: _totals(tools) for name, tools in report.modes.items()},
    }


def _rows(report: _Report) -> Iterator[tuple[str, ...]]:
    """Yield a row for each item with its cost, and then the rows with the totals."""
    for item in report.items:
        yield item.kind.value, item.name, *_cells(cost(item)), item.source
    totals = [("tool", "", report.tools), ("item", "", report.items)]
    totals += [("tool", f" in mode {name}", tools) for name, tools in report.modes.items()]
    for noun, suffix, items in totals:
        count = f"{len(items)} {noun}{'' if len(items) == 1 else 's'}{suffix}"
        yield count, "", *_cells(total_cost(items)), ""


def cost(item: CatalogueItem) -> Cost:
    """Return the size in bytes of the definition that a client receives, and its approximate tokens."""
    return definition_cost(item.definition)


def total_cost(items: Sequence[CatalogueItem]) -> Cost:
    """Return the total cost of several items."""
    costs = [cost(item) for item in items]
    return Cost(sum(each.bytes for each in costs), sum(each.tokens for each in costs))


def _totals(items: Sequence[CatalogueItem]) -> dict[str, int]:
    return {"count": len(items), **total_cost(items)._asdict()}


def _cells(costs: Cost) -> tuple[str, str]:
    return f"{costs.bytes} B", f"about {costs.tokens} tokens"
