"""`mcpdesk check`: what is wrong with a server folder, and what its items cost a model."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from mcpdesk.cli import completion
from mcpdesk.cli.options import server_folder
from mcpdesk.cli.printing import OK, TOOL_ERROR, aligned, print_json, print_text

if TYPE_CHECKING:
    from mcpdesk.hosting.folder.lint import Finding
    from mcpdesk.link.values import CatalogueItem

CHARACTERS_A_TOKEN = 3.6
"""A rule of thumb; bytes beyond four a token count more."""
EPILOG = """\b
Examples:
  mcpdesk check sample_servers/hello
  mcpdesk check ~/servers/profiles --strict --json

Exit codes: 0 nothing is wrong, 1 something is, 2 the folder cannot be read at all.
Warnings (a parameter nobody describes, a name or a length some client does not take) count with --strict.
"""


@click.command(name="check", epilog=EPILOG, short_help="Look for mistakes in a server folder.")
@click.argument("folder", metavar="FOLDER", shell_complete=completion.folder)
@click.option("--strict", is_flag=True, help="Warnings are mistakes, too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check_command(folder: str, strict: bool, as_json: bool) -> int:
    """Load FOLDER as a server would, and tell every mistake with its file and line; then what models and
    clients have trouble with.

    Below that: every item with its place and the size of its definition, which is what a model reads, and
    sums: of all tools, of all items, of the tools of each mode.
    """
    report = _checked(folder)
    if as_json:
        print_json(_facts(report))
    else:
        findings = [str(finding) for finding in report.findings]
        print_text("\n".join([*findings, *([""] if findings else []), *aligned(list(_rows(report)))]))
    counted = ("error", "warning") if strict else ("error",)
    return TOOL_ERROR if any(finding.level in counted for finding in report.findings) else OK


class _Report(NamedTuple):
    findings: list[Finding]
    items: list[CatalogueItem]
    tools: list[CatalogueItem]
    modes: dict[str, list[CatalogueItem]]
    """The tools of each mode."""


class Cost(NamedTuple):
    """What a model pays for definitions; `tokens` is an estimate."""

    bytes: int
    tokens: int


def _checked(folder: str) -> _Report:
    """Raises: DeskError when the folder cannot be hosted."""
    from mcpdesk.cli.core_process import loaded
    from mcpdesk.hosting.folder.lint import lint
    from mcpdesk.hosting.folder.manifest import read_manifest
    from mcpdesk.hosting.host import Host
    from mcpdesk.hosting.host_plan import HostPlan, effective_settings
    from mcpdesk.link.local_catalogue import ServerCatalogue

    place = server_folder(folder)
    settings = effective_settings({}, os.environ, place).settings
    host = Host(HostPlan((place,), settings, http=False, meet=False, watch=False))
    with loaded(host):
        server = host.endpoints()[0].server
        manifest = read_manifest(place)
        findings = lint(server, manifest, host.folders[server.name].warnings, os.environ)
        items = [item for item in ServerCatalogue(server).catalogue().items if item.definition]
    tools = [item for item in items if item.kind == "tool"]
    modes = {
        name: [tool for tool in tools if tool.name in mode.tools] for name, mode in manifest.modes.items()
    }
    return _Report(findings, items, tools, modes)


def _facts(report: _Report) -> Mapping[str, Any]:
    return {
        "findings": [
            {"level": each.level, "place": each.place, "subject": each.subject, "message": each.message}
            for each in report.findings
        ],
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
    text = json.dumps(item.definition, ensure_ascii=False, separators=(",", ":"))
    size = len(text.encode("utf-8", "replace"))
    return Cost(size, round(max(len(text) / CHARACTERS_A_TOKEN, size / 4)))


def total_cost(items: Sequence[CatalogueItem]) -> Cost:
    """Return the cost of several items together."""
    costs = [cost(item) for item in items]
    return Cost(sum(each.bytes for each in costs), sum(each.tokens for each in costs))


def _sum(items: Sequence[CatalogueItem]) -> dict[str, int]:
    return {"count": len(items), **total_cost(items)._asdict()}


def _cells(costs: Cost) -> tuple[str, str]:
    return f"{costs.bytes} B", f"about {costs.tokens} tokens"
