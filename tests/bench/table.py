"""The figures as a table of plain text."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from tests.bench.figure import Figure

TITLES = ("figure", "ours", "peer", "", "ratio", "goal", "reached", "")
WIDTHS = (38, 15, 14, 15, 7, 8, 7, 0)


def heading() -> str:
    """The titles of the columns."""
    return _line(TITLES) + "\n" + _line("-" * width for width in WIDTHS)


def row(figure: Figure) -> str:
    """One figure: medians of the rounds."""
    return _line(
        (
            figure.name,
            number(median(figure.ours), figure.unit),
            figure.peer,
            number(median(figure.theirs), figure.unit) if figure.theirs else "",
            "" if figure.ratio is None else f"{figure.ratio:.2f}",
            "" if figure.goal is None else str(figure.goal),
            figure.verdict,
            figure.note,
        )
    )


def number(value: float, unit: str) -> str:
    """A value with three digits at least, and its unit."""
    return f"{value:,.0f} {unit}" if value >= 1000 else f"{value:.3g} {unit}"


def _line(cells: Iterable[str]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True)).rstrip()
