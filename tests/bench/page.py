"""`docs/figures.md`: latest figures of each family, with those of its peers and the limits.

A run replaces the parts of the families that it measured, and keeps the others.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from tests.bench.figure import FRAME, Figure
from tests.bench.process import ROOT
from tests.bench.table import number

PAGE = ROOT / "docs" / "figures.md"
FAMILIES = ("http", "cycle", "big", "progress", "catalogue", "ws", "stdio", "cold", "memory")
"""Families on the page by default."""
QUIET = 1.0
"""Load average from which nothing is published: the machine does other work."""
PART = "<!-- {} -->\n{}\n<!-- end of {} -->\n"
_PARTS = re.compile(r"(?ms)^<!-- (?P<name>\w+) -->\n.*?^<!-- end of (?P=name) -->\n")


def refusal(load: float) -> str:
    """Reason not to publish what is measured at this load average; empty if it may be published."""
    if load < QUIET:
        return ""
    limit = f"the load average is {load:.1f}, and figures are published below {QUIET:.0f} only"
    return f"{limit}: end other programs, and wait a few minutes"


def circumstances(rounds: int) -> str:
    """Date and conditions of a measurement."""
    day = datetime.now(UTC).date()
    what = f"Python {platform.python_version()}, {os.cpu_count()} processors without other work"
    return f"Measured on {day}: {rounds} {'round' if rounds == 1 else 'rounds'}, {what}."


def part(name: str, title: str, figures: Iterable[Figure], measured: str) -> str:
    """Part of a family: figures in which a peer is better, then a row per figure and a column per peer."""
    figures = list(figures)
    rows: dict[str, list[Figure]] = {}
    for figure in figures:
        rows.setdefault(figure.name, []).append(figure)
    peers = list(dict.fromkeys(figure.peer for row in rows.values() for figure in row if figure.peer))
    titles = ["", "mcpdesk", *peers]
    lines = [titles, ["---", *["--:"] * (len(titles) - 1)]]
    lines += [_row(name, row, peers) for name, row in rows.items()]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    text = f"\n## {title[:1].upper()}{title[1:]}\n\n{measured}\n\n{_losses(figures)}\n\n{table}\n"
    return PART.format(name, text, name)


def renewed(page: str, name: str, text: str) -> str:
    """Return the page with a new part for a family, which replaces the old one or is at the end."""
    old = next((match for match in _PARTS.finditer(page) if match["name"] == name), None)
    return page[: old.start()] + text + page[old.end() :] if old else f"{page.rstrip()}\n\n{text}"


def write(name: str, text: str, page: Path = PAGE) -> None:
    """Replace the part of a family in the file."""
    page.write_text(renewed(page.read_text(), name, text))


def _losses(figures: Iterable[Figure]) -> str:
    """List the figures in which a peer is better. The frame is last, because it checks nothing."""
    losses: dict[str, list[str]] = {}
    for figure in figures:
        if _is_worse(figure):
            losses.setdefault(figure.peer, []).append(f"{figure.name} ({figure.ratio:.2f})")
    if not losses:
        return "No peer is better in any figure."
    peers = sorted(losses, key=lambda peer: peer == FRAME)
    lines = [f"* {peer}: {', '.join(losses[peer])}" for peer in peers]
    return "\n".join(["A peer is better in these figures (with the ratio):", "", *lines])


def _is_worse(figure: Figure) -> bool:
    """Return True if ours is lower than the peer's for a rate, or higher for anything else."""
    if figure.ratio is None:
        return False
    return figure.ratio < 1 if figure.unit.startswith("/") else figure.ratio > 1


def _row(name: str, row: list[Figure], peers: Iterable[str]) -> list[str]:
    by_peer = {figure.peer: figure for figure in row}
    ours = number(median(row[0].ours), row[0].unit)
    alone = by_peer.get("")
    return [
        name,
        ours if alone is None else f"{ours}{_floor(alone)}",
        *(_beside(by_peer[peer]) if peer in by_peer else "" for peer in peers),
    ]


def _beside(figure: Figure) -> str:
    return f"{number(median(figure.theirs), figure.unit)}; ratio {figure.ratio:.2f}{_floor(figure)}"


def _floor(figure: Figure) -> str:
    note = f" ({figure.note})" if figure.note else ""
    if figure.goal is None:
        return note
    limit = "at most" if figure.goal.at_most else "at least"
    missed = "" if figure.verdict == "yes" else " **missed**"
    return f", {limit} {figure.goal.bound:.3g}{missed}{note}"
