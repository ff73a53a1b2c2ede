"""`mcpdesk check`: what is wrong with a server folder, and what its items cost a model."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from mcpdesk.cli import completion
from mcpdesk.cli.options import server_folder
from mcpdesk.cli.printing import OK, TOOL_ERROR

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
def command(folder: str, strict: bool, as_json: bool) -> int:
    """Load FOLDER as a server would, and tell every mistake with its file and line; then what models and
    clients have trouble with.

    Below that: every item with its place and the size of its definition, which is what a model reads, and
    sums: of all tools, of all items, of the tools of each mode.
    """
    from mcpdesk.cli.printing import print_json, print_text

    found = FolderReport(folder)
    if as_json:
        print_json(found.facts())
    else:
        said = [str(finding) for finding in found.findings]
        print_text("\n".join([*said, *([""] if said else []), *found.table()]))
    counted = ("error", "warning") if strict else ("error",)
    return TOOL_ERROR if any(finding.level in counted for finding in found.findings) else OK


class FolderReport:
    """The findings and the items of a folder. Raises: DeskError when it cannot be hosted."""

    def __init__(self, folder: str) -> None:
        from mcpdesk.cli.core_process import loading
        from mcpdesk.hosting.folder.lint import lint
        from mcpdesk.hosting.folder.manifest import read_manifest
        from mcpdesk.hosting.host import Host
        from mcpdesk.hosting.host_plan import HostPlan, effective_settings
        from mcpdesk.link.local_catalogue import ServerCatalogue

        place = server_folder(folder)
        settings = effective_settings({}, os.environ, place).settings
        host = Host(HostPlan((place,), settings, http=False, meet=False, watch=False))
        with loading(host):
            host.load()
            server = host.endpoints()[0].server
            hosted = host.folders[server.name]
            manifest = read_manifest(place)
            self.findings: list[Finding] = lint(server, manifest, hosted.warnings, os.environ)
            self.items = tuple(item for item in ServerCatalogue(server).catalogue().items if item.definition)
            self.modes = {name: frozenset(mode.tools) for name, mode in manifest.modes.items()}

    def facts(self) -> dict[str, Any]:
        """All of it for JSON."""
        modes = {
            name: _sum(each for each in self._tools() if each.name in names)
            for name, names in self.modes.items()
        }
        return {
            "findings": [
                {"level": each.level, "place": each.place, "subject": each.subject, "message": each.message}
                for each in self.findings
            ],
            "items": [fact(item) for item in self.items],
            "tools": _sum(self._tools()),
            "total": _sum(self.items),
            "modes": modes,
        }

    def table(self) -> Iterator[str]:
        """The working items with their costs, and sums."""
        from mcpdesk.cli.printing import aligned

        rows = [(item.kind.value, item.name, *_cells(fact(item)), item.source) for item in self.items]
        sums = [("tool", "", tuple(self._tools())), ("item", "", self.items)]
        for name, names in self.modes.items():
            sums.append(
                ("tool", f" in mode {name}", tuple(each for each in self._tools() if each.name in names))
            )
        for word, where, part in sums:
            count = f"{len(part)} {word}{'' if len(part) == 1 else 's'}{where}"
            rows.append((count, "", *_cells(_sum(part)), ""))
        yield from aligned(rows)

    def _tools(self) -> Iterator[CatalogueItem]:
        return (item for item in self.items if item.kind == "tool")


def fact(item: CatalogueItem) -> dict[str, Any]:
    """One item for JSON."""
    size, tokens = cost(item)
    return {"kind": item.kind, "name": item.name, "source": item.source, "bytes": size, "tokens": tokens}


def cost(item: CatalogueItem) -> tuple[int, int]:
    """Bytes of the definition a client gets, and about how many tokens that is."""
    text = json.dumps(item.definition, ensure_ascii=False, separators=(",", ":"))
    size = len(text.encode("utf-8", "replace"))
    return size, round(max(len(text) / CHARACTERS_A_TOKEN, size / 4))


def _sum(items: Iterable[CatalogueItem]) -> dict[str, int]:
    costs = [cost(item) for item in items]
    return {
        "count": len(costs),
        "bytes": sum(size for size, _ in costs),
        "tokens": sum(tokens for _, tokens in costs),
    }


def _cells(costs: dict[str, Any]) -> tuple[str, str]:
    return f"{costs['bytes']} B", f"about {costs['tokens']} tokens"
