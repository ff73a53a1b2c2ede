"""`mcpdesk check`: what is wrong with a server folder, and what its items cost a model."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from mcpdesk.cli.options import server_folder
from mcpdesk.cli.report import OK, TOOL_ERROR

if TYPE_CHECKING:
    from mcpdesk.link.values import CatalogueItem

CHARACTERS_A_TOKEN = 3.6
"""A rule of thumb; bytes beyond four a token count more."""
EPILOG = """\b
Examples:
  mcpdesk check sample_servers/hello
  mcpdesk check ~/servers/profiles --json

Exit codes: 0 nothing is wrong, 1 something is, 2 the folder cannot be read at all.
"""


@click.command(name="check", epilog=EPILOG, short_help="Look for mistakes in a server folder.")
@click.argument("folder", metavar="FOLDER")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(folder: str, as_json: bool) -> int:
    """Load FOLDER as a server would, and tell every mistake with its file and line.

    Below that: every item with its place and the size of its definition, which is what a model reads.
    """
    from mcpdesk.cli.printing import print_json, print_text

    items, problems = looked_at(folder)
    faults = [*problems, *(fault(item) for item in items if item.problem)]
    if as_json:
        print_json({"problems": faults, "items": [fact(item) for item in items if item.definition]})
    else:
        print_text("\n".join([*faults, *([""] if faults else []), *told(items)]))
    return TOOL_ERROR if faults else OK


def looked_at(folder: str) -> tuple[tuple[CatalogueItem, ...], tuple[str, ...]]:
    """The items of a folder, broken ones too, and the trouble that belongs to none.

    Raises: DeskError when the folder cannot be hosted.
    """
    from mcpdesk.cli.claiming import claiming
    from mcpdesk.hosting.effective import effective_settings
    from mcpdesk.hosting.host import Host, Plan
    from mcpdesk.link.catalogue import Shelf

    place = server_folder(folder)
    settings = effective_settings({}, os.environ, place).settings
    host = Host(Plan((place,), settings, http=False, meet=False, watch=False))
    with claiming(host, "wire"):
        host.load()
        server = host.endpoints()[0].server
        warnings = host.folders[server.name].warnings
        return Shelf(server).catalogue().items, (*server.problems, *warnings)


def fault(item: CatalogueItem) -> str:
    """One broken item in a line: `tools/slow.py:3: tool slow: ...`."""
    place = f"{item.source}: " if item.source else ""
    return f"{place}{item.kind} {item.name}: {item.problem}"


def fact(item: CatalogueItem) -> dict[str, Any]:
    """One item for JSON."""
    size, tokens = cost(item)
    return {"kind": item.kind, "name": item.name, "source": item.source, "bytes": size, "tokens": tokens}


def told(items: tuple[CatalogueItem, ...]) -> Iterator[str]:
    """The working items as a table with a sum."""
    from mcpdesk.cli.printing import aligned

    working = [item for item in items if item.definition]
    costs = [cost(item) for item in working]
    rows = [
        (item.kind.value, item.name, f"{size} B", f"about {tokens} tokens", item.source)
        for item, (size, tokens) in zip(working, costs, strict=True)
    ]
    size, tokens = (sum(column) for column in zip(*costs, strict=True)) if costs else (0, 0)
    yield from aligned([*rows, (f"{len(rows)} items", "", f"{size} B", f"about {tokens} tokens", "")])


def cost(item: CatalogueItem) -> tuple[int, int]:
    """Bytes of the definition a client gets, and about how many tokens that is."""
    text = json.dumps(item.definition, ensure_ascii=False, separators=(",", ":"))
    size = len(text.encode("utf-8", "replace"))
    return size, round(max(len(text) / CHARACTERS_A_TOKEN, size / 4))
