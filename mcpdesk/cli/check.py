"""`mcpdesk check`: mistakes in what a server offers, its cost, what clients do with it, and its contract."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import click

from mcpdesk.cli import completion
from mcpdesk.cli.folders import loaded
from mcpdesk.cli.options import server_folder
from mcpdesk.cli.printing import (
    OK,
    TOOL_ERROR,
    JUnitCase,
    aligned,
    junit_report,
    print_json,
    print_message,
    print_text,
    write_report,
)
from mcpdesk.cli.reach import reach_options
from mcpdesk.cli.requests import TIMEOUT
from mcpdesk.errors import DeskUserError
from mcpdesk.protocol.catalogue.contract import (
    LOCK_NAME,
    ContractVerdict,
    Definitions,
    contract_changes,
    lock_text,
    locked,
    read_lock,
)
from mcpdesk.protocol.catalogue.token_cost import Cost, definition_cost
from mcpdesk.upstream.target_transport import Reach
from mcpdesk.version import __version__

if TYPE_CHECKING:
    from mcpdesk.hosting.folder.lint import Finding
    from mcpdesk.link.values import CatalogueItem

CHECK_EXAMPLES = """\b
Examples:
  mcpdesk check sample_servers/hello
  mcpdesk check ~/servers/profiles --strict --json
  mcpdesk check sample_servers/hello --lock --max-tokens 2000 --junit report.xml
  mcpdesk check ~/servers/profiles --client cursor --client claude-code
  mcpdesk check -- npx -y @modelcontextprotocol/server-everything

Exit codes: 0 nothing is wrong, 1 something is, 2 the folder cannot be read at all, 3 cannot connect,
4 protocol error, 5 timed out.
Warnings (a parameter nobody describes, a name or a length some client does not take) count with --strict.
"""
_FILE = click.Path(dir_okay=False, writable=True, path_type=Path)


@click.command(name="check", epilog=CHECK_EXAMPLES, short_help="Look for mistakes in a server.")
@click.argument("target", shell_complete=completion.folder)
@click.option("--strict", is_flag=True, help="Warnings are mistakes, too.")
@click.option("--lock", is_flag=True, help=f"Compare with {LOCK_NAME}, which is written if there is none.")
@click.option("--lock-file", type=_FILE, metavar="FILE", help="The lock file, if it is another one.")
@click.option("--update", is_flag=True, help=f"Write {LOCK_NAME} anew, and tell what is different.")
@click.option(
    "--max-tokens", type=click.IntRange(1), metavar="N", help="The most that the tools may cost together."
)
@click.option("--clients", "all_clients", is_flag=True, help="Tell what known clients do with what is found.")
@click.option(
    "--client", "clients", multiple=True, metavar="NAME", help="The same for one client; repeatable."
)
@click.option("--junit", type=_FILE, metavar="FILE", help="Write a JUnit report, too.")
@click.option("--sarif", type=_FILE, metavar="FILE", help="Write a SARIF report, too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@TIMEOUT
@reach_options
def check_command(
    target: str,
    strict: bool,
    lock: bool,
    lock_file: Path | None,
    update: bool,
    max_tokens: int | None,
    all_clients: bool,
    clients: tuple[str, ...],
    junit: Path | None,
    sarif: Path | None,
    as_json: bool,
    timeout_s: float,
    reach: Reach,
) -> int:
    """Tell every mistake in what TARGET, any server, offers; then what models and clients have trouble with.

    A folder is loaded as a server would load it, and mistakes have file and line. Of any other server the
    lists are read, and what is malformed in them is told.

    Below that: every item with its place and the size of its definition, which is what a model reads, and
    sums: of all tools, of all items, of the tools of each mode.

    With --clients what known clients do with it, each with the source of that and its date. What does not
    work with a client is a warning, what it only leaves out or asks is a note.

    With --lock every difference from the contract in the lock file, of a folder in it, else in the current
    directory, is breaking, compatible or wording; a breaking one is a mistake.
    """
    is_folder = Path(target).expanduser().is_dir()
    if is_folder and (reach.mode or reach.token or reach.is_remote):
        raise DeskUserError("A folder is checked as a whole.", "These flags are for other servers.")
    report = _checked(target) if is_folder else _of_offers(target, reach, timeout_s)
    remarks = [_remark(each, strict) for each in report.findings]
    differences = list[_Remark]()
    is_locked = lock or update or lock_file is not None
    place = lock_file or (server_folder(target) if is_folder else Path()) / LOCK_NAME
    if is_locked:
        is_faulty = any(each.is_mistake for each in remarks)
        differences = _differences(place, report.items, is_faulty, update)
    if max_tokens is not None:
        remarks += _over_budget(report.tools, max_tokens)
    of_clients = list[_Remark]()
    is_for_clients = all_clients or bool(clients)
    if is_for_clients:
        of_clients = _of_clients(report, () if all_clients else clients, strict)
    told = [*remarks, *of_clients, *differences]
    if junit is not None:
        write_report(junit, _junit(told, report.items))
    if sarif is not None:
        write_report(sarif, _sarif(told, target if is_folder else "", place if is_locked else None))
    if as_json:
        facts = {"findings": [each.facts("level") for each in remarks]}
        if is_for_clients:
            facts["clients"] = [{**each.facts("level"), **each.origin} for each in of_clients]
        if is_locked:
            facts["contract"] = [each.facts("verdict") for each in differences]
        print_json({**facts, **_facts(report)})
    else:
        parts = [list(map(str, [*remarks, *differences])), list(_client_lines(of_clients))]
        lines = [line for part in parts if part for line in (*part, "")]
        print_text("\n".join([*lines, *aligned(list(_rows(report)))]))
    return TOOL_ERROR if any(each.is_mistake for each in told) else OK


class _Remark(NamedTuple):
    """One thing to be told; `word` is a level or a verdict, `subject` like `tool greet`."""

    word: str
    message: str
    place: str
    subject: str
    is_mistake: bool
    rule: str = ""
    """What reports call it, where that is more than the word."""
    origin: Mapping[str, str] = MappingProxyType({})
    """Of what is said of a client: `client`, `version`, `fact`, `effect`, `source` and `date`."""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.place, self.word, self.subject, self.message) if part)

    def facts(self, word: str) -> dict[str, str]:
        """Return what JSON has of it."""
        return {word: self.word, "place": self.place, "subject": self.subject, "message": self.message}


def _remark(finding: Finding, strict: bool) -> _Remark:
    counted = ("error", "warning") if strict else ("error",)
    level = str(finding.level)
    return _Remark(level, finding.message, finding.place, finding.subject, level in counted)


def _of_clients(report: _Report, names: Sequence[str], strict: bool) -> list[_Remark]:
    """What known clients do with what is offered. Raises: DeskUserError for a client nothing is known of."""
    from mcpdesk.hosting.folder.known_clients import OfferedItem, Offering, claims, client_findings

    known = {claim.client.lower().replace(" ", "-"): claim.client for claim in claims()}
    asked = [name.lower().replace(" ", "-") for name in names]
    if unknown := [name for name, word in zip(names, asked, strict=True) if word not in known]:
        raise DeskUserError(f"Nothing is known of the client {unknown[0]!r}.", f"Known: {', '.join(known)}.")
    items = tuple(
        OfferedItem(each.kind.value, each.name, each.definition, each.source) for each in report.items
    )
    offering = Offering(report.server, report.instructions, items, report.asks)
    return [
        _remark(each.finding(), strict)._replace(
            rule=each.claim.id,
            origin={
                "client": each.claim.client,
                "version": each.claim.version,
                "fact": each.fact.told,
                "effect": each.effect,
                "source": each.claim.source,
                "date": each.claim.date,
            },
        )
        for each in client_findings(offering, [known[word] for word in asked])
    ]


def _client_lines(remarks: Sequence[_Remark]) -> Iterator[str]:
    """What clients do, a line for those that do the same; and by number, where that was said."""
    sources = dict[str, int]()
    groups = dict[tuple[str, str], list[str]]()
    for remark in remarks:
        number = sources.setdefault(f"{remark.origin['date']} {remark.origin['source']}", len(sources) + 1)
        told = str(remark._replace(message=remark.origin["fact"]))
        effect = f"{remark.origin['effect']} [{number}]"
        groups.setdefault((told, effect), []).append(remark.origin["client"])
    for (told, effect), clients in groups.items():
        yield f"{told}; {', '.join(clients)}: {effect}"
    if sources:
        yield ""
    for source, number in sources.items():
        yield f"[{number}] {source}"


def _over_budget(tools: Sequence[CatalogueItem], most: int) -> Iterator[_Remark]:
    tokens = total_cost(tools).tokens
    if tokens > most:
        message = f"the definitions cost about {tokens:,} tokens, at most {most:,} are allowed"
        yield _Remark("error", message, "", "all tools", True)


def _differences(place: Path, items: Sequence[CatalogueItem], is_faulty: bool, update: bool) -> list[_Remark]:
    """Compare the items with the lock file, and write that where it is wanted.

    Raises: DeskUserError for a lock file that cannot be read or written.
    """
    now = {(item.kind.value, item.name): locked(item.definition) for item in items if item.definition}
    if not place.exists():
        update = True
        before: Definitions = now
    else:
        before = _read_lock(place)
    sources = {(item.kind.value, item.name): item.source for item in items}
    found = [
        _Remark(
            change.verdict,
            change.told,
            sources.get((change.kind, change.name)) or place.name,
            f"{change.kind} {change.name}",
            change.is_breaking and not update,
        )
        for change in contract_changes(before, now)
    ]
    if update and is_faulty:
        print_message(f"mcpdesk: {place} is not written while there are mistakes.")
    elif update:
        write_report(place, lock_text(now))
        print_message(f"mcpdesk: wrote {place}; keep it with the source")
    return found


def _read_lock(place: Path) -> Definitions:
    """Raises: DeskUserError."""
    try:
        return read_lock(place.read_bytes())
    except OSError as error:
        raise DeskUserError(f"{place} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise DeskUserError(f"{place} {error}.", "Mend it, or write it anew with --update.") from None


def _junit(remarks: Sequence[_Remark], items: Sequence[CatalogueItem]) -> str:
    """A case for each item, and for each other subject; it fails by its mistakes."""
    subjects = dict.fromkeys([*(f"{item.kind} {item.name}" for item in items), *(r.subject for r in remarks)])
    cases = list[JUnitCase]()
    for subject in subjects:
        kind, _, name = subject.partition(" ")
        told = [each for each in remarks if each.subject == subject]
        mistakes, others = (
            "\n".join(str(each) for each in told if each.is_mistake is bad) for bad in (True, False)
        )
        cases.append(JUnitCase(kind, name or "server", mistakes, output=others))
    return junit_report("mcpdesk check", cases)


HOME = "https://github.com/mcpdesk/mcpdesk"
_SARIF_LEVELS = {"error": "error", "warning": "warning", ContractVerdict.BREAKING: "error"}
_SARIF_RULES = {
    "error": "What is offered has a mistake",
    "warning": "Models or clients have trouble with it",
    "note": "It may not be meant so",
    ContractVerdict.BREAKING: "A client that works today would break",
    ContractVerdict.COMPATIBLE: "The contract has changed, and clients of today go on working",
    ContractVerdict.WORDING: "What models and persons read has changed",
}


def _sarif(remarks: Sequence[_Remark], folder: str, lock: Path | None) -> str:
    """A result for each remark, at its line of a file below `folder`. Source: SARIF 2.1.0."""
    rules = {each.rule or each.word: each for each in remarks}
    driver = {
        "name": "mcpdesk",
        "version": __version__,
        "informationUri": HOME,
        "rules": [_sarif_rule(rule, rules[rule]) for rule in sorted(rules)],
    }
    run = {"tool": {"driver": driver}, "results": [_sarif_result(each, folder, lock) for each in remarks]}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _sarif_rule(rule: str, remark: _Remark) -> dict[str, Any]:
    """What a kind of remark means, in the members that code scanning of GitHub asks for."""
    origin = remark.origin
    told = f"{origin['client']}: {origin['effect']}" if origin else _SARIF_RULES[remark.word]
    help_text = (
        f"Known since {origin['date']}: {origin['source']}" if origin else f"See mcpdesk check, {HOME}."
    )
    texts = {"shortDescription": told, "fullDescription": f"{told}.", "help": help_text}
    described = {"id": rule, **{member: {"text": text} for member, text in texts.items()}}
    return described | ({"helpUri": origin["source"]} if origin else {})


def _sarif_result(remark: _Remark, folder: str, lock: Path | None) -> dict[str, Any]:
    told = ": ".join(part for part in (remark.subject, remark.message) if part)
    result: dict[str, Any] = {
        "ruleId": remark.rule or remark.word,
        "level": _SARIF_LEVELS.get(remark.word, "note"),
        "message": {"text": told},
    }
    file, _, line = remark.place.rpartition(":")
    if not line.isdecimal():
        file, line = remark.place, "1"
    if file in ("", "built-in"):
        file = "mcp.json"  # a report without any place is refused by those who show it beside the code
    path = Path(folder).expanduser() / file
    if lock is not None and (not folder or file == lock.name):
        path = lock
    if folder or lock is not None:
        where = {
            "artifactLocation": {"uri": quote(Path(os.path.relpath(path)).as_posix())},
            "region": {"startLine": max(1, int(line))},
        }
        result["locations"] = [{"physicalLocation": where}]
    return result


class _Report(NamedTuple):
    findings: list[Finding]
    items: list[CatalogueItem]
    tools: list[CatalogueItem]
    modes: dict[str, list[CatalogueItem]]
    """The tools of each mode."""
    server: str
    instructions: str
    asks: Mapping[str, str]
    """What a folder's files ask of clients, with the place."""


def _of_offers(target: str, reach: Reach, timeout_s: float) -> _Report:
    """Raises: DeskError when the server cannot be reached."""
    from mcpdesk.cli.command_client import client
    from mcpdesk.hosting.folder.lint import lint_offers
    from mcpdesk.link.values import CatalogueItem, ItemKind

    with client(target, reach, lists=True) as server:
        agreement, offers, problems = server.offers(timeout_s)
    name = str(agreement.server.get("name", ""))
    found = lint_offers(name, agreement.instructions, offers, problems)
    items = [
        CatalogueItem(ItemKind(each.kind), each.name, each.title, definition=each.definition)
        for each in offers
    ]
    tools = [item for item in items if item.kind == "tool"]
    return _Report(found, items, tools, {}, name, agreement.instructions, {})


def _checked(folder: str) -> _Report:
    """Raises: DeskError when the folder cannot be hosted."""
    from mcpdesk.hosting.folder.known_clients import asked_of_clients
    from mcpdesk.hosting.folder.lint import lint
    from mcpdesk.hosting.folder.manifest import read_manifest
    from mcpdesk.link.local_catalogue import ServerCatalogue

    place = server_folder(folder)
    with loaded(place) as host:
        server = host.endpoints()[0].server
        manifest = read_manifest(place)
        findings = lint(server, manifest, host.folders[server.name].warnings, os.environ)
        items = [item for item in ServerCatalogue(server).catalogue().items if item.definition]
    tools = [item for item in items if item.kind == "tool"]
    modes = {
        name: [tool for tool in tools if tool.name in mode.tools] for name, mode in manifest.modes.items()
    }
    asks = asked_of_clients(place)
    return _Report(findings, items, tools, modes, server.name, server.instructions, asks)


def _facts(report: _Report) -> Mapping[str, Any]:
    return {
        "items": [
            {"kind": each.kind, "name": each.name, "source": each.source, **cost(each)._asdict()}
            for each in report.items
        ],
        "tools": _sum(report.tools),
        "total": _sum(report.items),
        "modes": {name: _sum(tools) for name, tools in report.modes.items()},
    }


def _rows(report: _Report) -> Iterator[tuple[str, ...]]:
    """The items with their costs, and sums."""
    for item in report.items:
        yield item.kind.value, item.name, *_cells(cost(item)), item.source
    sums = [("tool", "", report.tools), ("item", "", report.items)]
    sums += [("tool", f" in mode {name}", tools) for name, tools in report.modes.items()]
    for word, where, items in sums:
        count = f"{len(items)} {word}{'' if len(items) == 1 else 's'}{where}"
        yield count, "", *_cells(total_cost(items)), ""


def cost(item: CatalogueItem) -> Cost:
    """Return the bytes of the definition a client gets, and about how many tokens that is."""
    return definition_cost(item.definition)


def total_cost(items: Sequence[CatalogueItem]) -> Cost:
    """Return the cost of several items together."""
    costs = [cost(item) for item in items]
    return Cost(sum(each.bytes for each in costs), sum(each.tokens for each in costs))


def _sum(items: Sequence[CatalogueItem]) -> dict[str, int]:
    return {"count": len(items), **total_cost(items)._asdict()}


def _cells(costs: Cost) -> tuple[str, str]:
    return f"{costs.bytes} B", f"about {costs.tokens} tokens"
